//! What becomes of the path on its way to a server.

use super::super::scope::{NginxPlace, Scope};
use super::url::PassUrl;
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// Sets how the path changes. An error is why it cannot be said.
pub(super) fn apply(
    scope: &Scope<'_>,
    url: &PassUrl,
    route: &mut DraftTable,
    statement: &Statement,
    differences: &mut Vec<String>,
) -> Result<(), String> {
    let Some(uri) = &url.uri else { return Ok(()) };
    // `rewrite ... break` has made the path: what `proxy_pass` says about it does not count.
    if scope.is_rewritten && !url.had_variables {
        return Ok(());
    }
    if url.had_variables && scope.is_rewritten && !without_rewrites(route) {
        return Err("the path is rewritten twice; say in `rewrite` what the server gets".to_owned());
    }
    if url.had_variables {
        return whole(uri, route, statement);
    }
    let (path, query) = match uri.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (uri.as_str(), None),
    };
    match (&scope.place, query) {
        (NginxPlace::Prefix(prefix), None) => {
            prefix_replaced(prefix, path, route, statement);
            Ok(())
        }
        (NginxPlace::Prefix(prefix), Some(query)) => {
            // nginx writes one behind the other.
            let rule = [
                ("pattern", format!("^{}(.*)$", regex_text(prefix)).into()),
                ("replacement", format!("{}?{}$1", dollars(path), dollars(query)).into()),
                ("flag", "break".into()),
            ];
            push_rewrite(route, rule, statement);
            differences.push(APPENDED.to_owned());
            Ok(())
        }
        (NginxPlace::Exact(_), query) => {
            if query.is_some() {
                differences.push(APPENDED.to_owned());
            }
            let path = if uri.starts_with('/') { dollars(uri) } else { format!("/{}", dollars(uri)) };
            let rule = [("pattern", "^".into()), ("replacement", path.into()), ("flag", "break".into())];
            push_rewrite(route, rule, statement);
            Ok(())
        }
        (NginxPlace::Server, _) if path == "/" => Ok(()),
        (NginxPlace::Named | NginxPlace::Regex | NginxPlace::Server, _) => {
            Err("nginx does not take a path here; leave it out".to_owned())
        }
    }
}

/// Leaves out what has changed the path, if that is all it does: a URL with variables replaces the whole of it.
fn without_rewrites(route: &mut DraftTable) -> bool {
    let is_break = |rule: &TomlValue| match rule {
        TomlValue::Inline(keys) => {
            keys.iter().any(|(key, value)| key == "flag" && *value == TomlValue::from("break"))
        }
        _ => false,
    };
    let is_all = match route.get("rewrite") {
        Some(TomlValue::Array(rules)) => rules.iter().all(is_break),
        Some(_) => false,
        None => true,
    };
    if is_all {
        route.remove("rewrite");
    }
    is_all
}

/// What differs where the URL has a query.
const APPENDED: &str = "the query of a request is appended by `&`, where nginx writes a second `?`";

/// The beginning of the path is replaced by another one.
fn prefix_replaced(prefix: &str, path: &str, route: &mut DraftTable, statement: &Statement) {
    if prefix == path {
        return;
    }
    if prefix.ends_with('/') && path.ends_with('/') {
        match path {
            "/" => route.set("strip_prefix", true, statement),
            _ => route.set("replace_prefix", path, statement),
        }
        return;
    }
    let replacement = if path.is_empty() { "/".to_owned() } else { dollars(path) };
    let value = TomlValue::inline([
        ("pattern", format!("^{}", regex_text(prefix)).into()),
        ("replacement", replacement.into()),
    ]);
    route.set("replace_regex", value, statement);
}

/// Path and query are what the text says, whatever the request has.
fn whole(uri: &str, route: &mut DraftTable, statement: &Statement) -> Result<(), String> {
    // A query behind the path is kept anyway; one that is not named is dropped.
    let replacement = match uri.strip_suffix("{query}").or_else(|| uri.strip_suffix("?{args}")) {
        Some(path) if !path.contains('?') => path.to_owned(),
        _ => format!("{uri}?"),
    };
    let replacement =
        if replacement.starts_with(['/', '{']) { replacement } else { format!("/{replacement}") };
    let rule = [("pattern", "^".into()), ("replacement", replacement.into()), ("flag", "break".into())];
    push_rewrite(route, rule, statement);
    Ok(())
}

fn push_rewrite<const N: usize>(route: &mut DraftTable, rule: [(&str, TomlValue); N], statement: &Statement) {
    route.push("rewrite", TomlValue::inline(rule), statement);
}

/// Text in a regular expression.
fn regex_text(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Text in a replacement, in which a dollar begins a group.
fn dollars(text: &str) -> String {
    text.replace('$', "$$$$")
}
