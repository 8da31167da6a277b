//! Passwords and external authorization.

use super::proxy;
use super::scope::{CaddySettings, RouteBuilder};
use super::words::{arguments, behind_matcher};
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::Statement;

/// `basic_auth` with the users in its block.
pub(super) fn basic_auth<'s>(
    ledger: &Ledger,
    statement: &'s Statement,
    settings: &mut CaddySettings<'s>,
) -> Option<()> {
    let (algorithm, realm) = match behind_matcher(ledger, statement).as_slice() {
        [] => ("bcrypt", "restricted"),
        [algorithm] => (*algorithm, "restricted"),
        [algorithm, realm] => (*algorithm, *realm),
        _ => ("", ""),
    };
    if !matches!(algorithm, "bcrypt" | "argon2id") {
        ledger.unsupported(
            statement,
            "Weir knows bcrypt, Argon2 and those of `crypt`: see `basic` of the route",
        );
        return forbid(settings, statement);
    }
    let mut users = Vec::new();
    for child in statement.children() {
        let words = arguments(ledger, child);
        match words.as_slice() {
            [hash] if hash.starts_with('$') && !hash.contains("${") => {
                users.push((child.name().to_owned(), TomlValue::from(hash.replace('$', "$$"))));
                ledger.exact(child);
            }
            _ => ledger.unsupported(child, "a hash that begins with `$` is expected: make it anew"),
        }
    }
    if users.is_empty() {
        ledger.unsupported(statement, "there is no user whose hash Weir can read");
        return forbid(settings, statement);
    }
    let basic = vec![("realm".to_owned(), realm.into()), ("users".to_owned(), TomlValue::Inline(users))];
    settings.keys.push(("basic", TomlValue::Inline(basic), statement));
    ledger.exact(statement);
    Some(())
}

/// What should ask for a password and does not is open to no one.
fn forbid<'s>(settings: &mut CaddySettings<'s>, statement: &'s Statement) -> Option<()> {
    settings.is_forbidden = Some(statement);
    Some(())
}

/// `forward_auth` with the server that decides.
pub(super) fn forward_auth<'s>(
    builder: &mut RouteBuilder<'s, '_>,
    statement: &'s Statement,
    settings: &mut CaddySettings<'s>,
) -> Option<()> {
    let ledger = builder.ledger;
    let mut path = None;
    let mut copied: Vec<String> = Vec::new();
    let mut upstream = proxy::UpstreamDraft::default();
    for word in behind_matcher(ledger, statement) {
        upstream.add_server(word, statement, ledger);
    }
    for child in statement.children() {
        let words = arguments(ledger, child);
        match (child.name(), words.as_slice()) {
            ("uri", [uri]) if !uri.contains('{') => path = Some((*uri).to_owned()),
            ("copy_headers", fields) => {
                copied.extend(fields.iter().map(|field| field.to_ascii_lowercase()));
                for field in child.children() {
                    copied.push(field.name().to_ascii_lowercase());
                    if field.words.len() == 1 {
                        ledger.exact(field);
                    }
                }
            }
            ("header_up", ["X-Real-IP", "{remote_host}"]) => {
                ledger.by_default(
                    child,
                    "the server that decides is told about the client by Weir's own fields",
                );
                continue;
            }
            _ => {
                upstream.option(child, ledger);
                continue;
            }
        }
        ledger.exact(child);
    }
    if copied.iter().any(|field| field.contains('>')) {
        ledger.unsupported(statement, "fields are copied under their own names only");
        return forbid(settings, statement);
    }
    let Some(name) = builder.upstream(upstream, statement) else {
        return forbid(settings, statement);
    };
    let mut table = vec![("upstream".to_owned(), name.into())];
    table.extend(path.map(|path| ("path".to_owned(), path.into())));
    if !copied.is_empty() {
        table.push(("response_headers".to_owned(), copied.into()));
    }
    settings.keys.push(("forward_auth", TomlValue::Inline(table), statement));
    ledger.exact(statement);
    Some(())
}
