//! Fields of responses: `add_header`, `add_trailer`, `expires`, and what servers say that clients do not get.

use super::super::quic::{self, WITHOUT_HTTP3};
use super::super::response_rules::{FRAMING, RULES, finish, removed, rule};
use super::super::scope::Scope;
use super::super::{units, variables};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, route: &mut DraftTable) {
    for statement in scope.all("add_header") {
        added(scope, statement, route);
    }
    more(scope, route);
    if let Some(statement) = scope.one("add_trailer") {
        scope.ledger.unsupported(statement, "Weir adds no trailers; use `add_header`");
    }
    if let Some(statement) = scope.one("expires") {
        expires(scope, statement, route);
    }
    finish(route);
}

/// `add_header NAME VALUE [always]`.
fn added(scope: &Scope<'_>, statement: &Statement, route: &mut DraftTable) {
    let mut words = scope.words(statement);
    let (Some(name), Some(value)) = (words.text(), words.text()) else { return };
    let always = words.flag("always");
    if name.eq_ignore_ascii_case("alt-svc") && tells_of_http3(scope, value) {
        return scope.ledger.approximated(statement, WITHOUT_HTTP3);
    }
    let template = match variables::shown(scope, value, variables::TemplateUse::Response) {
        Ok(template) => template,
        Err(unknown) => {
            return scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
        }
    };
    let text = template.text.trim().to_owned();
    let lower = name.to_ascii_lowercase();
    let replaces = ["last-modified", "etag"].contains(&&*lower);
    if text.is_empty() && replaces {
        let status = (!always).then_some("success");
        rule(route, status).push_once("remove", lower, statement);
        return scope.ledger.exact(statement);
    }
    if text.is_empty() {
        return scope.ledger.by_default(statement, "a field without a value is left out");
    }
    if FRAMING.contains(&&*lower) {
        let why = "Weir writes what frames a response, and what is about a connection, itself";
        return match (&*lower, &*text) {
            ("content-length", "0") | ("connection" | "keep-alive", _) => {
                scope.ledger.by_default(statement, why);
            }
            _ => scope.ledger.unsupported(statement, why),
        };
    }
    if text.contains(|c: char| c.is_control()) {
        return scope.ledger.unsupported(statement, "the value of a field is one line; write it on one");
    }
    // Freshness never goes to failures unless a rule says `always`.
    let caching = ["cache-control", "expires", "pragma"].contains(&&*lower);
    let status = match (always, caching) {
        (false, _) => Some("success"),
        (true, true) => Some("always"),
        (true, false) => None,
    };
    let key = if replaces { "set" } else { "add" };
    let has = |table: &DraftTable| table.keys().any(|known| known.eq_ignore_ascii_case(name));
    // A table has each name once, and lines of one name keep their order: the second one is a rule of its own.
    let known = route.tables(RULES).iter().any(|rule| rule.get_table(key).is_some_and(has));
    if known {
        let mut table = DraftTable::of(statement);
        if let Some(status) = status {
            table.set_plain("status", status);
        }
        table.table(key).set(name, text, statement);
        route.push_table(RULES, table);
    } else {
        rule(route, status).table(key).set(name, text, statement);
    }
    if variables::may_vanish(&template.text) {
        scope.ledger.approximated(statement, variables::VANISHES);
    }
    match template.differences.as_slice() {
        [] => scope.ledger.exact(statement),
        some => some.iter().for_each(|difference| scope.ledger.approximated(statement, difference)),
    }
}

/// Whether a value of `Alt-Svc` is about HTTP/3 alone, be it by a map, where nginx speaks it and Weir does not. Another server may speak it in
/// front.
fn tells_of_http3(scope: &Scope<'_>, value: &str) -> bool {
    if !scope.server().iter().any(quic::is_quic) || quic::is_beside_tls(scope.server()) {
        return false;
    }
    let tells = |text: &str| {
        let mut services = text.split(',').map(str::trim);
        services.all(|service| service.starts_with("h3") || service.starts_with("quic="))
    };
    match value.strip_prefix('$').and_then(|name| scope.map(name)) {
        Some(map) => map
            .children()
            .iter()
            .all(|entry| entry.words.get(1).is_none_or(|word| word.text.is_empty() || tells(&word.text))),
        None => tells(value),
    }
}

/// `more_set_headers` and `more_clear_headers` of a module that many builds have.
fn more(scope: &Scope<'_>, route: &mut DraftTable) {
    for statement in scope.any_of(&["more_set_headers", "more_clear_headers"]) {
        let mut words = scope.words(statement);
        if words.flag("-s") || words.flag("-t") || words.flag("-a") || words.flag("-r") {
            scope.ledger.unsupported(statement, "use `response_headers` with `status` or `when`");
            continue;
        }
        for word in words.rest() {
            let (name, value) = word.text.split_once(':').unwrap_or((&word.text, ""));
            let (name, value) = (name.trim(), value.trim());
            if name.contains('*') || name.is_empty() {
                scope.ledger.unsupported(statement, "name each field in `response_headers.remove`");
                continue;
            }
            if value.is_empty() {
                removed(route, name, statement);
                scope.ledger.exact(statement);
                continue;
            }
            match variables::template(scope, value) {
                Ok(text) => {
                    rule(route, None).table("set").set(name, text, statement);
                    scope.ledger.exact(statement);
                }
                Err(unknown) => {
                    scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
                }
            }
        }
    }
}

/// `expires TIME`, `expires $map`.
fn expires(scope: &Scope<'_>, statement: &Statement, route: &mut DraftTable) {
    let mut words = scope.words(statement);
    let modified = words.flag("modified");
    let text = words.text().unwrap_or_default();
    if let Some(name) = text.strip_prefix('$') {
        return by_type(scope, statement, name, route);
    }
    match time(text, modified) {
        Ok(None) => scope.ledger.by_default(statement, "responses keep their own time"),
        Ok(Some(time)) => {
            set_expires(route, TomlValue::Text(time), statement);
            scope.ledger.exact(statement);
        }
        Err(advice) => scope.ledger.unsupported(statement, advice),
    }
}

/// What servers say counts less than `expires`, as in nginx.
fn set_expires(route: &mut DraftTable, time: TomlValue, statement: &Statement) {
    if route.has("upstream") || route.has("split") {
        let rule = TomlValue::inline([("time", time), ("override_server", true.into())]);
        route.set("expires", TomlValue::Array(vec![rule]), statement);
    } else {
        route.set("expires", time, statement);
    }
}

/// A time of `expires`; none for `off`.
fn time(text: &str, modified: bool) -> Result<Option<String>, &'static str> {
    Ok(Some(match text {
        "off" => return Ok(None),
        "max" | "epoch" => text.to_owned(),
        _ if text.starts_with('-') => "epoch".to_owned(),
        // A time of day, in UTC.
        _ if text.starts_with('@') => {
            let Some(time) = units::duration(&text[1..]) else {
                return Err("a time of day is `@15h` or `@15h30m`");
            };
            format!("@{time}")
        }
        _ => {
            let Some(time) = units::duration(text.trim_start_matches('+')) else {
                return Err("`expires` is a time, `epoch`, `max` or `off`");
            };
            if modified { format!("modified+{time}") } else { time }
        }
    }))
}

/// A map from `$sent_http_content_type`.
fn by_type(scope: &Scope<'_>, statement: &Statement, name: &str, route: &mut DraftTable) {
    let advice = "`expires` has times by media type; say them there";
    let Some(map) = scope.map(name).filter(|map| map.name() == "map") else {
        return scope.ledger.unsupported(statement, advice);
    };
    if map.words.get(1).is_none_or(|word| word.text != "$sent_http_content_type") {
        return scope.ledger.unsupported(statement, advice);
    }
    let mut times = Vec::new();
    for entry in map.children() {
        let value = scope.words(entry).text().unwrap_or_default();
        let Ok(time) = time(value, false) else {
            return scope.ledger.unsupported(statement, advice);
        };
        let key = match entry.name() {
            "default" => Some("default".to_owned()),
            text => media_type(text),
        };
        let Some(key) = key else {
            scope.ledger.unsupported(entry, "a media type in `expires` is `text/css`, `image/*` or `*`");
            continue;
        };
        scope.ledger.exact(entry);
        if let Some(time) = time {
            times.push((key, TomlValue::Text(time)));
        }
    }
    scope.ledger.words(map).rest();
    scope.ledger.exact(map);
    if !times.is_empty() {
        route.set("expires", TomlValue::Inline(times), statement);
    }
    scope.ledger.exact(statement);
}

/// `text/css`, `~image/`, `~^image/`.
fn media_type(text: &str) -> Option<String> {
    let plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte));
    match text.strip_prefix('~') {
        None => plain(text).then(|| text.to_owned()),
        Some(pattern) => {
            let kind = pattern.trim_start_matches(['*', '^']).strip_suffix('/')?;
            (plain(kind) && !kind.contains('/')).then(|| format!("{kind}/*"))
        }
    }
}
