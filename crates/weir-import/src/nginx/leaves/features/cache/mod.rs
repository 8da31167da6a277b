//! `proxy_cache` and `fastcgi_cache`: stored responses.

use super::super::scope::Scope;
use super::super::{units, upstreams, variables};
use crate::document::{Draft, DraftTable, TomlValue};

// When it is not used.
mod conditions;

pub(super) fn apply(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    let protocol = route
        .text("upstream")
        .and_then(|name| draft.table(&["upstream"]).get_table(name))
        .and_then(|upstream| upstream.text("protocol").map(str::to_owned));
    let prefix = match protocol.as_deref() {
        Some("fastcgi") => "fastcgi",
        _ if route.has("upstream") || route.has("split") => "proxy",
        _ => return,
    };
    let directive = |rest: &str| format!("{prefix}_cache{rest}");
    let Some((statement, zone)) = scope.text(&directive("")) else { return };
    if zone == "off" {
        return scope.ledger.by_default(statement, "responses are not stored");
    }
    if zone.contains('$') {
        return scope.ledger.unsupported(statement, "a route has one cache; make a route for each");
    }
    let Some(inactive) = store(scope, draft, &directive("_path"), zone) else {
        return scope.ledger.unsupported(statement, "its zone is not in the file");
    };
    let mut table = DraftTable::default();
    table.set("name", upstreams::name_of(zone), statement);
    scope.ledger.exact(statement);
    key(scope, prefix, &mut table);
    times(scope, prefix, &mut table);
    stale(scope, prefix, &inactive, &mut table);
    waiting(scope, prefix, &mut table);
    headers(scope, prefix, &mut table);
    conditions::apply(scope, prefix, &mut table);
    if table.keys().count() == 1 {
        route.set("cache", upstreams::name_of(zone), statement);
    } else {
        *route.table("cache") = table;
    }
}

/// The cache of a zone, made once; returns how long what is not asked for is kept.
fn store(scope: &Scope<'_>, draft: &mut Draft, directive: &str, zone: &str) -> Option<String> {
    let prefix = format!("keys_zone={zone}:");
    let paths = scope.outermost().iter().filter(|statement| statement.name() == directive);
    let statement =
        paths.into_iter().find(|path| path.words.iter().any(|word| word.text.starts_with(&prefix)))?;
    let mut words = scope.words(statement);
    words.option("keys_zone=");
    words.option("levels=");
    words.option("use_temp_path=");
    if words.option("min_free=").is_some() {
        let difference = "the cache is as large as `disk.size` says, however much of the disk is free";
        scope.ledger.approximated(statement, difference);
    }
    let size = words.option("max_size=").and_then(units::bytes);
    let inactive = words.option("inactive=").and_then(units::duration).unwrap_or_else(|| "10m".to_owned());
    for option in [
        "loader_files=",
        "loader_sleep=",
        "loader_threshold=",
        "manager_files=",
        "manager_sleep=",
        "manager_threshold=",
    ] {
        words.option(option);
    }
    let folder = words.text()?;
    let cache = draft.table(&["cache", &upstreams::name_of(zone)]);
    if cache.is_empty() {
        cache.originate(statement);
        let disk = cache.table("disk");
        disk.set("folder", folder, statement);
        if let Some(size) = size {
            disk.set("size", units::size(size.max(1 << 20)), statement);
        }
    }
    scope.ledger.approximated(
        statement,
        "what is not asked for stays until the cache is full, whatever `inactive` says",
    );
    Some(inactive)
}

fn key(scope: &Scope<'_>, prefix: &str, table: &mut DraftTable) {
    let Some(statement) = scope.one(&format!("{prefix}_cache_key")) else { return };
    let words = scope.words(statement).rest();
    let text: String = words.iter().map(|word| word.text.as_str()).collect();
    // The upstream keeps responses apart anyway.
    let usual = [
        "$scheme$proxy_host$request_uri",
        "$scheme$host$request_uri",
        "$scheme$http_host$request_uri",
        "$scheme://$host$request_uri",
    ];
    if usual.contains(&text.as_str()) || text == "$scheme$proxy_host$uri$is_args$args" {
        return scope.ledger.by_default(statement, "the key is scheme, host, path and query");
    }
    let text = text.replace("$proxy_host", "");
    match variables::template(scope, &text) {
        Ok(template) if template == "{scheme}{host}{target}" => {
            scope.ledger.by_default(statement, "the key is scheme, host, path and query");
        }
        Ok(template) => {
            table.set("key", template, statement);
            scope.ledger.exact(statement);
        }
        Err(unknown) => {
            scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
        }
    }
}

/// `proxy_cache_valid`.
fn times(scope: &Scope<'_>, prefix: &str, table: &mut DraftTable) {
    let mut rules = Vec::new();
    let mut first = None;
    for statement in scope.all(&format!("{prefix}_cache_valid")) {
        let words = scope.words(statement).rest();
        let Some((time, codes)) = words.split_last() else { continue };
        let Some(time) = units::duration(&time.text) else {
            scope.ledger.unsupported(statement, "the last word is a time");
            continue;
        };
        let statuses: Vec<TomlValue> = match codes {
            [] => vec![200.into(), 301.into(), 302.into()],
            [any] if any.text == "any" => vec!["200-599".into()],
            codes => {
                codes.iter().filter_map(|code| code.text.parse::<i64>().ok()).map(TomlValue::from).collect()
            }
        };
        let status = match statuses.as_slice() {
            [only] => only.clone(),
            _ => TomlValue::Array(statuses),
        };
        rules.push(TomlValue::inline([("status", status), ("time", time.into())]));
        scope.ledger.exact(statement);
        first = first.or(Some(statement));
    }
    if let Some(statement) = first {
        table.set("ttl", rules, statement);
    }
}

/// `proxy_cache_use_stale` and `proxy_cache_background_update`.
fn stale(scope: &Scope<'_>, prefix: &str, inactive: &str, table: &mut DraftTable) {
    let background = scope.text(&format!("{prefix}_cache_background_update"));
    let Some(statement) = scope.one(&format!("{prefix}_cache_use_stale")) else {
        if let Some((statement, _)) = background {
            scope
                .ledger
                .meaningless(statement, "without `use_stale updating`, nothing stale is sent meanwhile");
        }
        return;
    };
    let mut statuses: Vec<i64> = Vec::new();
    let (mut on_error, mut updating) = (false, false);
    for word in scope.words(statement).rest() {
        match word.text.as_str() {
            "error" | "timeout" | "invalid_header" => on_error = true,
            "updating" => updating = true,
            "off" => return scope.ledger.by_default(statement, "nothing stale is sent"),
            text => {
                if let Some(status) = text.strip_prefix("http_").and_then(|status| status.parse().ok()) {
                    statuses.push(status);
                }
            }
        }
    }
    statuses.sort_unstable();
    if on_error || !statuses.is_empty() {
        table.set("stale_if_error", inactive, statement);
        if statuses.is_empty() {
            // No response at all counts in any case; this is a status that no server has.
            statuses.push(599);
        }
        if statuses != [500, 502, 503, 504] {
            let list: Vec<TomlValue> = statuses.iter().map(|status| (*status).into()).collect();
            table.set("stale_if_error_status", list, statement);
        }
    }
    if updating {
        table.set("stale_while_revalidate", inactive, statement);
    }
    let in_background = background.is_some_and(|(_, text)| text == "on");
    if let Some((statement, _)) = background {
        scope.ledger.exact(statement);
    }
    if updating && !in_background {
        scope.ledger.approximated(
            statement,
            "the request that finds a response stale gets it, too, and it is refreshed in the background",
        );
    } else {
        scope
            .ledger
            .approximated(statement, "what is stale is used for as long as `inactive` says, and no longer");
    }
}

/// Requests for the same response.
fn waiting(scope: &Scope<'_>, prefix: &str, table: &mut DraftTable) {
    let directive = |rest: &str| format!("{prefix}_cache_{rest}");
    if let Some((statement, text)) = scope.text(&directive("lock")) {
        if text == "on" {
            scope.ledger.by_default(statement, "of several requests for a response, one fetches it");
        } else {
            table.set("wait", "off", statement);
            scope.ledger.exact(statement);
        }
    }
    if let Some((statement, text)) = scope.text(&directive("lock_timeout"))
        && let Some(time) = units::duration(text)
    {
        if time != "5s" && scope.is_on(&directive("lock")) {
            table.set("wait", time, statement);
        }
        scope.ledger.exact(statement);
    }
    for (name, why) in [
        ("lock_age", "a fetch that has failed or ended is followed by the next one at once"),
        ("revalidate", "what is stale is confirmed by conditional requests"),
        ("max_range_offset", "requests with a range get their part while the whole is fetched"),
    ] {
        if let Some((statement, _)) = scope.text(&directive(name)) {
            scope.ledger.by_default(statement, why);
        }
    }
    if let Some((statement, text)) = scope.text(&directive("min_uses")) {
        match text {
            "1" => scope.ledger.by_default(statement, "responses are stored for the first request"),
            _ => scope.ledger.approximated(
                statement,
                "responses are stored for the first request; what is asked for once is evicted first",
            ),
        }
    }
    if let Some(statement) = scope.one(&directive("methods")) {
        let other = scope
            .words(statement)
            .rest()
            .into_iter()
            .any(|word| !matches!(word.text.to_ascii_uppercase().as_str(), "GET" | "HEAD"));
        if other {
            scope.ledger.unsupported(statement, "responses to GET and HEAD are stored, to no other method");
        } else {
            scope.ledger.by_default(statement, "responses to GET are stored, and answer HEAD, too");
        }
    }
    if let Some((statement, text)) = scope.text(&directive("convert_head")) {
        if text == "on" {
            table.set("convert_head", true, statement);
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "servers get HEAD as HEAD");
        }
    }
    if let Some(statement) = scope.one(&directive("purge")) {
        scope.ledger.unsupported(statement, "purge by the admin listener (`weir ctl purge`)");
    }
}

/// `proxy_ignore_headers`, as far as it is about the cache.
fn headers(scope: &Scope<'_>, prefix: &str, table: &mut DraftTable) {
    let Some(statement) = scope.one(&format!("{prefix}_ignore_headers")) else { return };
    let names: Vec<String> =
        scope.words(statement).rest().iter().map(|word| word.text.to_ascii_lowercase()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    match (has("cache-control"), has("expires")) {
        (true, true) if table.has("ttl") => table.set("override_ttl", true, statement),
        (false, false) => {}
        _ => scope.ledger.approximated(
            statement,
            "`Cache-Control` and `Expires` of servers count where no `ttl` overrides both",
        ),
    }
    if has("set-cookie") {
        table.set("ignore_set_cookie", true, statement);
    }
    if has("vary") {
        table.set("ignore_vary", vec!["*"], statement);
    }
}
