//! Servers that a request names: by a map of upstreams, or by a name that is resolved when it is asked for.

use super::super::scope::Scope;
use super::super::upstreams;
use super::url::PassUrl;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

/// Sets `split` by name where a map names servers that are all known, else an upstream whose servers requests name.
pub(super) fn apply<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    route: &mut DraftTable,
    statement: &'s Statement,
    url: &PassUrl,
    settings: &DraftTable,
    differences: &mut Vec<String>,
) -> Result<(), String> {
    let port = if url.tls { 443 } else { 80 };
    let listed = map_of(&url.authority).and_then(|map| Some((map, values(scope.map(map)?)?)));
    if let Some((map, values)) = listed {
        split(scope, draft, route, statement, url, settings, map, &values)?;
        if !values.iter().any(|value| value.is_empty()) && has_default(scope, map) {
            // Each value names servers.
        } else {
            differences.push(
                "where the map names no server, the first one gets the request; nginx answers 500".to_owned(),
            );
        }
        let sets_host = scope
            .all("proxy_set_header")
            .into_iter()
            .any(|one| one.words.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case("host")));
        let is_named = |value: &&&str| {
            let authority = value.split_once("://").map_or(**value, |(_, rest)| rest);
            matches!(upstreams::destination(scope, authority, port), Ok(upstreams::PassTarget::Block(_)))
        };
        if !sets_host && values.iter().any(|value| is_named(&value)) {
            differences.push(
                "servers get their own address as `Host`, where nginx sends the name of their `upstream`"
                    .to_owned(),
            );
        }
        if !sets_host && values.iter().any(|value| !is_named(&value) && has_usual_port(value, port)) {
            differences.push(
                "servers get their own address with its port as `Host`, where nginx leaves out the usual port"
                    .to_owned(),
            );
        }
        return Ok(());
    }
    let server = with_port(&url.authority, port);
    let name = upstreams::name_of(&base_name(&url.authority));
    let allow = allowed(&server);
    let open = allow.iter().any(|entry| OPEN.iter().any(|network| entry.starts_with(network)));
    let mut table = settings.clone();
    let dynamic = table.table("dynamic");
    dynamic.set("server", server.as_str(), statement);
    dynamic.set_plain("allow", allow);
    if open {
        differences.push(
            "Weir reaches only what `allow` of the upstream lists, which is private networks here: list your servers"
                .to_owned(),
        );
    }
    let mut free = name.clone();
    for number in 2.. {
        match draft.table(&["upstream"]).get_table(&free) {
            Some(known) if *known == table => break,
            Some(_) => free = format!("{name}-{number}"),
            None => {
                *draft.table(&["upstream", &free]) = table;
                break;
            }
        }
    }
    route.set("upstream", free, statement);
    Ok(())
}

/// Whether an address has the port of its scheme, written out or not.
fn has_usual_port(value: &str, port: u16) -> bool {
    let authority = value.split_once("://").map_or(value, |(_, rest)| rest);
    let host = authority.split('/').next().unwrap_or(authority);
    host.ends_with(&format!(":{port}")) || !host.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(':')
}

/// Whether a map has a value for everything.
fn has_default(scope: &Scope<'_>, map: &str) -> bool {
    scope.map(map).is_some_and(|map| map.children().iter().any(|entry| entry.name() == "default"))
}

/// The map that is all of a text.
fn map_of(authority: &str) -> Option<&str> {
    authority.strip_prefix("{map.")?.strip_suffix('}').filter(|name| !name.contains(['{', '}']))
}

/// The texts that a map has, if none has variables.
fn values(map: &Statement) -> Option<Vec<&str>> {
    if map.name() != "map" {
        return None;
    }
    let mut found = Vec::new();
    for entry in map.children() {
        match (entry.name(), entry.words.get(1)) {
            ("hostnames" | "volatile", None) => {}
            ("include", _) | (_, None) => return None,
            (_, Some(value)) if value.text.contains('$') => return None,
            (_, Some(value)) if !found.contains(&value.text.as_str()) => found.push(value.text.as_str()),
            _ => {}
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Chooses among the servers that a map names: by the name of the upstream, which a second map has where the first one has addresses.
#[expect(clippy::too_many_arguments, reason = "a pass is its place, what is made of it, and its URL")]
fn split<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    route: &mut DraftTable,
    statement: &'s Statement,
    url: &PassUrl,
    settings: &DraftTable,
    map: &str,
    values: &[&str],
) -> Result<(), String> {
    let mut list: Vec<TomlValue> = Vec::new();
    let mut names = DraftTable::default();
    let mut is_same = true;
    for value in values.iter().filter(|value| !value.is_empty()) {
        let (tls, authority) = match value.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(format!("`{value}` is no server of HTTP")),
            None => (url.tls, *value),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains('/') && !authority.starts_with("unix:") {
            return Err(format!("`{value}` has a path; make a route for each"));
        }
        let mut settings = settings.clone();
        if tls && !settings.has("tls") {
            settings.table("tls").set_plain("verify", false);
        }
        let port = if tls { 443 } else { 80 };
        let destination = upstreams::destination(scope, authority, port)?;
        let name = upstreams::upstream(scope, draft, &destination, &settings, statement);
        is_same &= name == *value;
        names.set(value, name.as_str(), statement);
        let target = TomlValue::inline([("upstream", name.into())]);
        if !list.contains(&target) {
            list.push(target);
        }
    }
    if is_same {
        route.set("split_by", url.authority.as_str(), statement);
    } else {
        let mut table = DraftTable::default();
        table.set("source", url.authority.as_str(), statement);
        *table.table("exact") = names;
        let name = free_map(draft, &format!("{map}-upstream"), table);
        route.set("split_by", format!("{{map.{name}}}"), statement);
    }
    route.set_plain("split", list);
    Ok(())
}

/// The name under which a map is, or is made.
fn free_map(draft: &mut Draft, base: &str, table: DraftTable) -> String {
    let maps = draft.table(&["map"]);
    let mut name = base.to_owned();
    for number in 2.. {
        match maps.get_table(&name) {
            Some(known) if *known == table => break,
            Some(_) => name = format!("{base}-{number}"),
            None => {
                *maps.table(&name) = table;
                break;
            }
        }
    }
    name
}

/// The server with its port.
fn with_port(authority: &str, port: u16) -> String {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && (port.bytes().all(|byte| byte.is_ascii_digit()) || port.starts_with('{'))
    });
    // A placeholder may bring the port with it; nginx takes it there, too.
    if has_port { authority.to_owned() } else { format!("{authority}:{port}") }
}

/// A name for the upstream: the text of the authority, or what its first placeholder names.
fn base_name(authority: &str) -> String {
    let end = authority.rfind(':').unwrap_or(authority.len());
    let host = &authority[..end];
    let words: Vec<&str> = host.split(['{', '}', '.', ':']).filter(|word| !word.is_empty()).collect();
    let telling =
        words.iter().find(|word| !["map", "match", "vars", "header", "query", "cookie"].contains(word));
    telling.map_or_else(|| "dynamic".to_owned(), |word| (*word).to_owned())
}

/// Networks that a server may be in of which nothing else is known.
const OPEN: [&str; 5] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "[fc00::]/7"];

/// What may be reached: the names below the text behind the last placeholder, else private networks.
fn allowed(server: &str) -> Vec<String> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "80"));
    let ports = if port.starts_with('{') { ":1-65535".to_owned() } else { format!(":{port}") };
    let suffix = host.rfind('}').map(|end| &host[end + 1..]).unwrap_or_default();
    if suffix.starts_with('.') && suffix.len() > 1 {
        return vec![format!("*{suffix}{ports}")];
    }
    OPEN.into_iter().map(|network| format!("{network}{ports}")).collect()
}
