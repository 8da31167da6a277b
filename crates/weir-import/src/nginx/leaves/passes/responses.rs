//! What becomes of responses of servers: redirects, cookies, fields that are kept from clients, buffering.

use super::super::scope::{NginxPlace, Scope};
use super::super::{response_rules, units, variables};
use super::url::PassUrl;
use super::{PassFamily, fields};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// What `proxy_` and `grpc_` have and FastCGI has not.
pub(super) fn apply(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable, url: &PassUrl) {
    if family != PassFamily::Proxy {
        return;
    }
    redirects(scope, route, url);
    cookies(scope, route);
}

/// `proxy_redirect`: by default, URLs of the servers become those of the client.
fn redirects(scope: &Scope<'_>, route: &mut DraftTable, url: &PassUrl) {
    let statements = scope.all("proxy_redirect");
    if statements.is_empty() {
        // Where servers get the host of the client, they do not name themselves.
        if route.has("forward_host") && !url.had_variables {
            route.set_plain("rewrite_location", vec![default_rule(scope, url)]);
        }
        return;
    }
    for statement in statements {
        let mut words = scope.words(statement);
        let from = words.text().unwrap_or_default();
        let to = words.text();
        match (from, to) {
            ("off", None) => {
                scope.ledger.by_default(statement, "redirects of servers pass as they are");
                continue;
            }
            ("default", None) => {
                route.push("rewrite_location", default_rule(scope, url), statement);
                scope.ledger.exact(statement);
                continue;
            }
            _ => {}
        }
        match redirect_rule(scope, from, to.unwrap_or_default()) {
            Ok(rule) => {
                route.push("rewrite_location", rule, statement);
                scope.ledger.exact(statement);
            }
            Err(advice) => scope.ledger.unsupported(statement, &advice),
        }
    }
}

/// What the URL names becomes what the location is for.
fn default_rule(scope: &Scope<'_>, url: &PassUrl) -> TomlValue {
    let scheme = if url.tls { "https" } else { "http" };
    let authority = variables::literal(&url.authority).unwrap_or_else(|| url.authority.clone());
    let (path, place) = match (&url.uri, &scope.place) {
        (Some(uri), NginxPlace::Prefix(path) | NginxPlace::Exact(path)) => (uri.as_str(), path.as_str()),
        _ => ("/", "/"),
    };
    if authority.starts_with("unix:") {
        return TomlValue::inline([("server", true.into())]);
    }
    let path = variables::literal(path).unwrap_or_else(|| path.to_owned());
    let to = variables::escaped(place);
    TomlValue::inline([("from", format!("{scheme}://{authority}{path}").into()), ("to", to.into())])
}

fn redirect_rule(scope: &Scope<'_>, from: &str, to: &str) -> Result<TomlValue, String> {
    let said = |unknown: variables::UnknownVariable| format!("`${}`: {}", unknown.name, unknown.advice);
    if let Some(pattern) = from.strip_prefix('~') {
        let (insensitive, pattern) = match pattern.strip_prefix('*') {
            Some(rest) => ("(?i)", rest),
            None => ("", pattern),
        };
        let to = with_groups(scope, to).map_err(said)?;
        let regex = format!("{insensitive}{}", pattern.trim_start());
        return Ok(TomlValue::inline([("regex", regex.into()), ("to", to.into())]));
    }
    let Some(from) = variables::constant(scope, from) else {
        return Err("what a rule of `rewrite_location` is for has no placeholders; write the URL".to_owned());
    };
    let to = variables::template(scope, to).map_err(said)?;
    if from.ends_with("://") {
        return Ok(TomlValue::inline([("regex", format!("^{from}").into()), ("to", to.into())]));
    }
    Ok(TomlValue::inline([("from", from.into()), ("to", to.into())]))
}

/// A text whose `$1` are groups of a pattern beside it, which Weir writes as `{1}`.
fn with_groups(scope: &Scope<'_>, text: &str) -> Result<String, variables::UnknownVariable> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let group = rest[at + 1..].chars().next().filter(char::is_ascii_digit);
        let end = at + 1 + group.map_or(0, char::len_utf8);
        let Some(group) = group else {
            // The text up to the next dollar holds one variable at most.
            let next = rest[at + 1..].find('$').map_or(rest.len(), |next| at + 1 + next);
            result.push_str(&variables::template(scope, &rest[..next])?);
            rest = &rest[next..];
            continue;
        };
        result.push_str(&variables::escaped(&rest[..at]));
        result.push_str(&format!("{{{group}}}"));
        rest = &rest[end..];
    }
    result.push_str(&variables::escaped(rest));
    Ok(result)
}

/// `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`.
fn cookies(scope: &Scope<'_>, route: &mut DraftTable) {
    for (name, key) in [("proxy_cookie_domain", "domain"), ("proxy_cookie_path", "path")] {
        for statement in scope.all(name) {
            let mut words = scope.words(statement);
            let (from, to) = (words.text().unwrap_or_default(), words.text());
            let Some(to) = to else {
                if from == "off" {
                    scope.ledger.by_default(statement, "cookies of servers pass as they are");
                }
                continue;
            };
            if let Some(pattern) = from.strip_prefix('~') {
                cookie_regex(scope, statement, key, pattern, to, route);
                continue;
            }
            // The old way to set flags: they are written behind the path.
            let (to, flags) = match to.split_once(';') {
                Some((to, flags)) => (to.trim(), flags),
                None => (to, ""),
            };
            let Some(flags) = flags_behind(flags) else {
                scope
                    .ledger
                    .unsupported(statement, "`rewrite_cookies` knows `secure`, `http_only`, `same_site`");
                continue;
            };
            match (variables::constant(scope, from), variables::template(scope, to)) {
                (Some(from), Ok(to)) => {
                    let mut rule = Vec::new();
                    if from != to {
                        let change = TomlValue::inline([("from", from.into()), ("to", to.into())]);
                        rule.push((key.to_owned(), change));
                    }
                    let has_flags = !flags.is_empty();
                    rule.extend(flags);
                    route.push("rewrite_cookies", TomlValue::Inline(rule), statement);
                    if has_flags {
                        scope.ledger.approximated(
                            statement,
                            "cookies without a path get the flags, too, and none gets them twice",
                        );
                    } else {
                        scope.ledger.exact(statement);
                    }
                }
                _ => scope.ledger.unsupported(
                    statement,
                    "`rewrite_cookies` replaces one fixed text by one with placeholders",
                ),
            }
        }
    }
    for statement in scope.all("proxy_cookie_flags") {
        let mut words = scope.words(statement);
        let name = words.text().unwrap_or_default();
        if name == "off" {
            scope.ledger.by_default(statement, "cookies of servers pass as they are");
            continue;
        }
        cookie_flags(scope, statement, name, words.rest(), route);
    }
}

/// `proxy_cookie_path ~^/a(.*)$ /b$1`.
fn cookie_regex(
    scope: &Scope<'_>,
    statement: &Statement,
    key: &str,
    pattern: &str,
    to: &str,
    route: &mut DraftTable,
) {
    let (flags, pattern) = match pattern.strip_prefix('*') {
        Some(rest) if key == "path" => ("(?i)", rest),
        Some(rest) => ("", rest),
        None => ("", pattern),
    };
    match with_groups(scope, to) {
        Ok(to) => {
            let regex = format!("{flags}{}", pattern.trim_start());
            let change = TomlValue::inline([("regex", regex.into()), ("to", to.into())]);
            route.push("rewrite_cookies", TomlValue::inline([(key, change)]), statement);
            scope.ledger.exact(statement);
        }
        Err(unknown) => {
            scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
        }
    }
}

/// `HttpOnly; Secure` behind a path.
fn flags_behind(text: &str) -> Option<Vec<(String, TomlValue)>> {
    let flags = text.split(';').map(str::trim).filter(|flag| !flag.is_empty());
    flags.map(|flag| cookie_flag(flag).map(|(key, value)| (key.to_owned(), value))).collect()
}

/// A flag of a cookie, as nginx or a field writes it.
fn cookie_flag(text: &str) -> Option<(&'static str, TomlValue)> {
    Some(match text.to_ascii_lowercase().as_str() {
        "secure" => ("secure", true.into()),
        "nosecure" => ("secure", false.into()),
        "httponly" => ("http_only", true.into()),
        "nohttponly" => ("http_only", false.into()),
        "partitioned" => ("partitioned", true.into()),
        "nosamesite" => ("same_site", "off".into()),
        text => (
            "same_site",
            text.strip_prefix("samesite=")
                .filter(|value| matches!(*value, "strict" | "lax" | "none"))?
                .into(),
        ),
    })
}

fn cookie_flags(
    scope: &Scope<'_>,
    statement: &Statement,
    name: &str,
    flags: Vec<&crate::source::Word>,
    route: &mut DraftTable,
) {
    if name.contains('$') || name.starts_with('~') && name != "~" {
        return scope.ledger.unsupported(statement, "name the cookie, or the beginning of its name with `*`");
    }
    let mut rule = Vec::new();
    if name != "~" {
        rule.push(("name".to_owned(), name.into()));
    }
    for flag in flags {
        let Some((key, value)) = cookie_flag(&flag.text) else {
            return scope
                .ledger
                .unsupported(statement, "`rewrite_cookies` knows `secure`, `http_only`, `same_site`");
        };
        rule.push((key.to_owned(), value));
    }
    route.push("rewrite_cookies", TomlValue::Inline(rule), statement);
    scope.ledger.exact(statement);
}

/// What `proxy_`, `fastcgi_` and `grpc_` have alike.
pub(super) fn shared(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable) {
    accel(scope, family, route);
    hidden(scope, family, route);
    buffering(scope, family, route);
    if let Some((statement, text)) = scope.text(&format!("{}_intercept_errors", family.prefix())) {
        if text == "on" {
            // The pages of the route say it (`of_servers`).
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "errors of servers pass as they are");
        }
    }
    if let Some((statement, text)) = scope.text(&format!("{}_ignore_client_abort", family.prefix())) {
        if text == "off" {
            scope.ledger.by_default(statement, "a request is cancelled when its client leaves");
        } else {
            scope.ledger.approximated(statement, "requests of clients that have left are cancelled: set `abort_on_close = false` in the listener");
        }
    }
    if let Some((statement, text)) = scope.text(&format!("{}_limit_rate", family.prefix())) {
        match text {
            "0" => scope.ledger.by_default(statement, "servers are read as fast as they send"),
            _ => scope.ledger.unsupported(statement, "limit what clients get: `bandwidth` of `[limit.NAME]`"),
        }
    }
}

/// What servers may ask for by `X-Accel-...`, where something here answers it: internal locations, a cache.
fn accel(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable) {
    let prefix = family.prefix();
    let ignored: Vec<String> = scope
        .one(&format!("{prefix}_ignore_headers"))
        .map(|statement| statement.words.iter().map(|word| word.text.to_ascii_lowercase()).collect())
        .unwrap_or_default();
    let has_cache = scope
        .one(&format!("{prefix}_cache"))
        .is_some_and(|statement| statement.words.get(1).is_some_and(|word| word.text != "off"));
    let asked = [
        ("x-accel-redirect", "redirect", scope.has_internal()),
        ("x-accel-expires", "expires", has_cache),
        ("x-accel-buffering", "buffering", scope.is_on(&format!("{prefix}_buffering"))),
    ];
    let list: Vec<&str> = asked
        .into_iter()
        .filter(|(field, _, answers)| *answers && !ignored.iter().any(|known| known == field))
        .map(|(_, name, _)| name)
        .collect();
    if !list.is_empty() {
        route.set_plain("x_accel", list);
    }
}

/// `proxy_hide_header` and `proxy_pass_header`.
fn hidden(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable) {
    let passed = scope.all(&format!("{}_pass_header", family.prefix()));
    for statement in passed {
        let name = scope.words(statement).text().unwrap_or_default().to_ascii_lowercase();
        if name.starts_with("x-accel-") {
            route.set("x_accel", vec!["pass"], statement);
            scope.ledger.approximated(
                statement,
                "all fields that begin with `X-Accel-` pass, and none of them counts",
            );
        } else {
            scope.ledger.by_default(statement, "fields of servers pass");
        }
    }
    for statement in scope.all(&format!("{}_hide_header", family.prefix())) {
        let name = scope.words(statement).text().unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        if response_rules::FRAMING.contains(&&*lower) {
            scope.ledger.by_default(
                statement,
                "Weir writes what frames a response, and what is about a connection, itself",
            );
        } else if fields::is_token(name) {
            response_rules::removed(route, name, statement);
            scope.ledger.exact(statement);
        }
    }
    if let Some(statement) = scope.one(&format!("{}_ignore_headers", family.prefix())) {
        ignored(scope, statement);
    }
}

/// `proxy_ignore_headers`, of which the cache reads what concerns it.
fn ignored(scope: &Scope<'_>, statement: &Statement) {
    let mut without = Vec::new();
    for word in scope.words(statement).rest() {
        match word.text.to_ascii_lowercase().as_str() {
            // None of them counts unless `x_accel` names it.
            "x-accel-redirect" | "x-accel-expires" | "x-accel-limit-rate" | "x-accel-buffering"
            | "x-accel-charset" => {}
            "expires" | "cache-control" | "set-cookie" | "vary" => {}
            other => without.push(other.to_owned()),
        }
    }
    if without.is_empty() {
        scope.ledger.exact(statement);
    } else {
        scope.ledger.unsupported(statement, &format!("Weir does not act on `{}`", without.join("`, `")));
    }
}

/// Bodies that are taken in before they go on.
fn buffering(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable) {
    let prefix = family.prefix();
    if let Some((statement, text)) = scope.text(&format!("{prefix}_buffering")) {
        if text == "on" {
            route.set("buffer_responses", TomlValue::Inline(Vec::new()), statement);
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "responses pass as they come");
        }
    }
    if let Some((statement, text)) = scope.text(&format!("{prefix}_request_buffering")) {
        match (family, text) {
            (PassFamily::Fastcgi, "on") => {
                scope.ledger.by_default(statement, "FastCGI gets bodies once they are whole");
            }
            (PassFamily::Fastcgi, _) => {
                scope.ledger.approximated(
                    statement,
                    "FastCGI gets bodies once they are whole, up to 16 MiB (`buffer_requests`)",
                );
            }
            (_, "on") => {
                route.set("buffer_requests", TomlValue::Inline(Vec::new()), statement);
                scope.ledger.exact(statement);
            }
            _ => scope.ledger.by_default(statement, "bodies of requests pass as they come"),
        }
    }
    if let Some((statement, text)) = scope.text(&format!("{prefix}_max_temp_file_size")) {
        match units::bytes(text) {
            Some(bytes) if route.has("buffer_responses") => {
                let file = TomlValue::inline([("file", units::size(bytes.min(1 << 30)).into())]);
                route.set("buffer_responses", file, statement);
                scope.ledger.exact(statement);
            }
            _ => scope.ledger.by_default(statement, "responses pass as they come, without files"),
        }
    }
}
