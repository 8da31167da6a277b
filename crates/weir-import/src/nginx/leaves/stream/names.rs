//! `map $ssl_preread_server_name $name`: a route for each server name.

use super::super::scope::Scope;
use super::target;
use crate::document::{Draft, DraftTable};
use crate::source::Statement;

pub(super) fn routes<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    listener: &mut DraftTable,
    map: &'s Statement,
    settings: &DraftTable,
) -> Result<(), String> {
    let ledger = scope.ledger;
    let mut words = ledger.words(map);
    let source = words.text().unwrap_or_default();
    words.rest();
    if source != "$ssl_preread_server_name" && source != "$ssl_server_name" {
        return Err("routes of TCP go by the server name of TLS (`sni`) and by address (`source`)".to_owned());
    }
    ledger.exact(map);
    let hostnames = map.children().iter().any(|entry| entry.name() == "hostnames");
    let mut expressions: Vec<(String, &str)> = Vec::new();
    for entry in map.children() {
        let value = ledger.words(entry).text();
        let key = entry.name();
        match (key, value) {
            ("hostnames" | "volatile", None) => ledger.exact(entry),
            ("default", Some(value)) => {
                let name = value_target(scope, draft, value, settings, entry)?;
                listener.set("upstream", name, entry);
                ledger.exact(entry);
            }
            (_, Some(value)) => {
                let Some(names) = sni(key, hostnames) else {
                    ledger.unsupported(
                        entry,
                        "`sni` of a route is a name, or `*.` and a name; write a route for each",
                    );
                    continue;
                };
                if key.starts_with('~') {
                    in_order(scope, map, entry, &names, &mut expressions, value);
                }
                let name = value_target(scope, draft, value, settings, entry)?;
                let mut route = DraftTable::of(entry);
                match names.as_slice() {
                    [only] => route.set("sni", only.as_str(), entry),
                    _ => route.set("sni", names, entry),
                }
                route.set("upstream", name, entry);
                listener.push_table("route", route);
                ledger.exact(entry);
            }
            (_, None) => {}
        }
    }
    Ok(())
}

/// nginx asks expressions in their order, behind all names; here the longest name counts.
fn in_order<'s>(
    scope: &Scope<'s>,
    map: &'s Statement,
    entry: &Statement,
    names: &[String],
    before: &mut Vec<(String, &'s str)>,
    value: &'s str,
) {
    let domain = |name: &str| name.trim_start_matches('*').to_owned();
    let is_below = |own: &str, other: &str| own != other && domain(own).ends_with(&domain(other));
    let names_of =
        map.children().iter().filter(|one| one.name().starts_with("*.") || one.name().starts_with('.'));
    let mut wildcards = names_of.map(|one| format!("*.{}", one.name().trim_start_matches(['*', '.'])));
    let comes_first =
        names.iter().any(|own| before.iter().any(|(other, to)| *to != value && is_below(own, other)))
            || wildcards.any(|other| names.iter().any(|own| is_below(own, &other)));
    if comes_first {
        scope.ledger.approximated(entry, "it counts before shorter names, be they earlier ones");
    }
    before.extend(names.iter().map(|name| (name.clone(), value)));
}

fn value_target<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    value: &str,
    settings: &DraftTable,
    entry: &'s Statement,
) -> Result<String, String> {
    if value.contains('$') {
        return Err(format!("`{value}` is no server; name each one"));
    }
    target(scope, draft, value, settings, entry)
}

/// The patterns of a key.
fn sni(key: &str, hostnames: bool) -> Option<Vec<String>> {
    let key = key.strip_prefix('\\').unwrap_or(key);
    if let Some(pattern) = key.strip_prefix('~') {
        return from_regex(pattern);
    }
    match key.strip_prefix('.') {
        Some(name) if hostnames => Some(vec![name.to_owned(), format!("*.{name}")]),
        _ if key.contains('*') && !(hostnames && key.starts_with("*.") && !key[1..].contains('*')) => None,
        _ => Some(vec![key.to_owned()]),
    }
}

/// `~^(.*\.)?a\.test$` and its simpler forms.
fn from_regex(pattern: &str) -> Option<Vec<String>> {
    let pattern = pattern.trim_start_matches('*');
    let body = pattern.strip_suffix('$')?;
    let plain = |text: &str| -> Option<String> {
        let name = text.replace("\\.", ".");
        let allowed = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        // A dot without a backslash is any character.
        (allowed && !text.replace("\\.", "").contains('.')).then_some(name)
    };
    if let Some(name) = body
        .strip_prefix("^.*\\.")
        .or_else(|| body.strip_prefix("^.+\\."))
        .or_else(|| body.strip_prefix("\\."))
    {
        return Some(vec![format!("*.{}", plain(name)?)]);
    }
    if let Some(name) = body.strip_prefix("^(.*\\.)?").or_else(|| body.strip_prefix("^(.+\\.)?")) {
        let name = plain(name)?;
        return Some(vec![name.clone(), format!("*.{name}")]);
    }
    Some(vec![plain(body.strip_prefix('^')?)?])
}
