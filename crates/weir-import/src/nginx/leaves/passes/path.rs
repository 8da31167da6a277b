//! What becomes of the path on its way to a server.

use super::super::scope::{NginxPlace, Scope};
use super::super::variables;
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
    if url.has_target && scope.is_rewritten {
        return Err(
            "servers get `$request_uri`, whatever is rewritten before: leave the `rewrite` out".to_owned()
        );
    }
    if url.has_target && scope.server().iter().any(leads_on) {
        let difference = "a request that was led here by a `rewrite`, an error page or `try_files` has the path that it was given, where nginx sends that of the client";
        differences.push(difference.to_owned());
    }
    let Some(uri) = &url.uri else { return Ok(()) };
    // `rewrite ... break` has made the path: what `proxy_pass` says about it does not count.
    let may_be_rewritten = scope.is_rewritten && !url.had_variables;
    if may_be_rewritten && scope.is_surely_rewritten {
        return Ok(());
    }
    if may_be_rewritten && !have_breaks(route) {
        return Err("the path that no `rewrite` matches is replaced by that of the URL: write a `rewrite` for it, and no path behind the host".to_owned());
    }
    // What the URL says of path and query is what the rewrite has made of them.
    let names_rewritten = ["{path", "{query", "{args"].iter().any(|name| uri.contains(name));
    if url.had_variables && scope.is_rewritten && (names_rewritten || !without_rewrites(route)) {
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
        // Where no `rewrite` has matched: those that have ended the list.
        (NginxPlace::Prefix(prefix), None) if may_be_rewritten => {
            let path = if path.is_empty() { "/" } else { path };
            let rule = [
                ("pattern", format!("^{}(.*)$", regex_text(prefix)).into()),
                ("replacement", format!("{}$1", dollars(path)).into()),
                ("flag", "break".into()),
            ];
            push_rewrite(route, rule, statement);
            Ok(())
        }
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

/// Whether requests come to other locations from a statement, with another path.
fn leads_on(statement: &Statement) -> bool {
    let last = || statement.words.last().map_or("", |word| word.text.as_str());
    match statement.name() {
        "rewrite" => {
            let is_url = statement.words.get(2).is_some_and(|word| word.text.contains("://"));
            !matches!(last(), "permanent" | "redirect" | "break") && !is_url
        }
        "error_page" | "try_files" => last().starts_with('/'),
        "location" | "if" => statement.children().iter().any(leads_on),
        _ => false,
    }
}

/// Whether every `rewrite` of a place ends the list where it matches.
fn have_breaks(route: &DraftTable) -> bool {
    let is_break = |rule: &TomlValue| match rule {
        TomlValue::Inline(keys) => {
            keys.iter().any(|(key, value)| key == "flag" && *value == TomlValue::from("break"))
        }
        _ => false,
    };
    match route.get("rewrite") {
        Some(TomlValue::Array(rules)) => rules.iter().all(is_break),
        Some(_) => false,
        None => true,
    }
}

/// Leaves out what has changed the path, if that is all it does: a URL with variables replaces the whole of it.
fn without_rewrites(route: &mut DraftTable) -> bool {
    let is_all = have_breaks(route);
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

/// A rewrite changes what path and query are for all that is asked behind it, where nginx changes what servers get alone.
pub(super) fn told(
    scope: &Scope<'_>,
    url: &PassUrl,
    route: &DraftTable,
    differences: &mut Vec<String>,
) -> Result<(), String> {
    if route.has("split_by") && of_target(scope, &url.authority, 0) {
        return Err("the server is chosen by the path or the query, which the URL changes; make a route for each server".to_owned());
    }
    let of_place = ["proxy_set_header", "add_header", "proxy_cache_bypass", "proxy_no_cache"];
    let formats = || {
        let names = scope.all("access_log").into_iter().filter_map(|log| log.words.get(2));
        let names: Vec<&str> = names.map(|word| word.text.as_str()).collect();
        let all = scope.outermost().iter().filter(|one| one.name() == "log_format");
        all.filter(move |one| one.words.get(1).is_some_and(|word| names.contains(&word.text.as_str())))
    };
    let statements = of_place.iter().flat_map(|name| scope.all(name)).chain(formats());
    let mut words = statements.flat_map(|one| one.words.iter().skip(1));
    let is_told = words.any(|word| {
        variables::expand(scope, &word.text, variables::TemplateUse::Log)
            .is_ok_and(|template| of_target(scope, &template.text, 0))
    });
    if is_told {
        differences.push(
            "path and query in fields and logs of the place (`$uri`, `$args`, `$arg_...`) are those that servers get"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether a template says anything of path or query, be it by a map.
fn of_target(scope: &Scope<'_>, template: &str, depth: usize) -> bool {
    let is_told = ["{path", "{query", "{args"].iter().any(|begin| template.contains(begin));
    let mut maps = template.split("{map.").skip(1).filter_map(|rest| rest.split('}').next());
    is_told
        || depth < 8
            && maps.any(|name| {
                let source = scope.map(name).and_then(|map| map.words.get(1));
                source
                    .and_then(|source| variables::template(scope, &source.text).ok())
                    .is_some_and(|source| of_target(scope, &source, depth + 1))
            })
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
