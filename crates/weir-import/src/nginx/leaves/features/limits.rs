//! `limit_req`, `limit_conn`, `limit_rate`, `client_max_body_size`: each use of a zone is a limit of Weir, and equal ones are one.

use super::super::scope::Scope;
use super::super::{units, variables};
use super::{named, place_name};
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    body_size(scope, route);
    for statement in scope.all("limit_req") {
        requests(scope, draft, route, statement);
    }
    for statement in scope.all("limit_conn") {
        connections(scope, draft, route, statement);
    }
    rate(scope, draft, route);
}

/// `client_max_body_size`, which is a mebibyte unless it is written.
fn body_size(scope: &Scope<'_>, route: &mut DraftTable) {
    let takes_bodies = route.has("upstream") || route.has("split");
    match scope.text("client_max_body_size") {
        Some((statement, text)) => {
            let Some(bytes) = units::bytes(text) else { return };
            let size = if bytes == 0 { "off".to_owned() } else { units::size(bytes) };
            route.table("limits").set("body_size", size, statement);
            scope.ledger.exact(statement);
        }
        None if takes_bodies => route.table("limits").set_plain("body_size", "1MiB"),
        None => {}
    }
}

/// The declaration of a zone, and its key as placeholders of this place.
fn zone<'s>(
    scope: &Scope<'s>,
    directive: &str,
    name: &str,
) -> Option<(&'s Statement, Result<String, String>)> {
    let zones = scope.outermost().iter().filter(|statement| statement.name() == directive);
    let prefix = format!("zone={name}:");
    let found =
        zones.into_iter().find(|zone| zone.words.iter().any(|word| word.text.starts_with(&prefix)))?;
    let mut words = scope.words(found);
    words.option("zone=");
    words.option("rate=");
    let sync = words.flag("sync");
    let key = words.text().unwrap_or_default();
    if sync {
        scope
            .ledger
            .approximated(found, "each node has the limit for itself: set `shared` and a `[store.NAME]`");
    }
    let key =
        variables::template(scope, key).map_err(|unknown| format!("`${}`: {}", unknown.name, unknown.advice));
    Some((found, key))
}

/// The key of a limit, and an IPv6 address as one client.
fn set_key(table: &mut DraftTable, key: &str, from: &Statement) {
    if key != "{client_address}" {
        table.set("key", key, from);
    }
    if key.contains("{client_address}") {
        table.table("prefix").set_plain("ipv6", 128);
    }
}

fn requests(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable, statement: &Statement) {
    let ledger = scope.ledger;
    let mut words = ledger.words(statement);
    let name = words.option("zone=").unwrap_or_default();
    let burst = words.option("burst=").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let nodelay = words.flag("nodelay");
    let delay = words.option("delay=").and_then(|text| text.parse::<u64>().ok());
    let Some((zone, key)) = zone(scope, "limit_req_zone", name) else {
        return ledger.unsupported(statement, "its zone is not in the file");
    };
    let key = match key {
        Ok(key) => key,
        Err(advice) => {
            ledger.unsupported(zone, &advice);
            return ledger.unsupported(statement, &advice);
        }
    };
    let rate = ledger.words(zone).option("rate=").unwrap_or_default();
    let Some((per, unit)) =
        rate.split_once("r/").and_then(|(per, unit)| Some((per.parse::<u64>().ok()?, unit)))
    else {
        return ledger.unsupported(zone, "a rate is `10r/s` or `30r/m`");
    };
    let mut table = DraftTable::of(zone);
    set_key(&mut table, &key, zone);
    table.set("rate", format!("{per}/{unit}"), zone);
    if burst + 1 != per {
        table.set("burst", i64::try_from(burst + 1).unwrap_or(i64::MAX), statement);
    }
    let mut difference = None;
    if burst > 0 && !nodelay {
        let window = if unit == "m" { 60_000 } else { 1000 };
        match delay {
            Some(_) => difference = Some("all requests of the burst pass without a delay"),
            None => {
                let wait = (burst * window).div_ceil(per.max(1)).clamp(1, 600_000);
                table.set("delay", units::duration_of(wait), statement);
            }
        }
    }
    set_status(scope, &mut table, "limit_req_status");
    if let Some((dry, "on")) = scope.text("limit_req_dry_run") {
        table.set("dry_run", true, dry);
        ledger.exact(dry);
    }
    let name = named(draft, "limit", &super::super::upstreams::name_of(name), &table);
    route.push_once("limited_by", name, statement);
    ledger.exact(zone);
    shares(scope, statement, table_name(statement));
    match difference {
        Some(difference) => ledger.approximated(statement, difference),
        None => ledger.exact(statement),
    }
}

/// The name of the zone in `limit_req` and `limit_conn`.
fn table_name(statement: &Statement) -> &str {
    let words = statement.words.iter().skip(1).map(|word| word.text.as_str());
    let is_connections = statement.name() == "limit_conn";
    words
        .clone()
        .find_map(|word| word.strip_prefix("zone="))
        .or(words.take(1).next().filter(|_| is_connections))
        .unwrap_or_default()
}

/// Places that use a zone alike share its counters here, too; those that do not have counters of their own.
fn shares(scope: &Scope<'_>, statement: &Statement, zone: &str) {
    fn differs(block: &[Statement], statement: &Statement, zone: &str) -> bool {
        let texts = |one: &Statement| {
            let mut texts: Vec<String> = one.words.iter().map(|word| word.text.clone()).collect();
            texts.sort();
            texts
        };
        block.iter().any(|one| {
            one.name() == statement.name() && table_name(one) == zone && texts(one) != texts(statement)
                || differs(one.children(), statement, zone)
        })
    }
    if !scope.ledger.is_settled(statement) && differs(scope.outermost(), statement, zone) {
        scope.ledger.approximated(
            statement,
            "its requests are counted apart from those of places that use the zone with other numbers",
        );
    }
}

/// nginx refuses with 503 unless it is told otherwise.
fn set_status(scope: &Scope<'_>, table: &mut DraftTable, directive: &str) {
    match scope.text(directive) {
        Some((statement, text)) => {
            if let Ok(status) = text.parse::<i64>() {
                if status != 429 {
                    table.set("status", status, statement);
                }
                match status {
                    444 => scope.ledger.approximated(
                        statement,
                        "clients get an answer with this status, where nginx closes the connection",
                    ),
                    _ => scope.ledger.exact(statement),
                }
            }
        }
        None => table.set_plain("status", 503),
    }
}

fn connections(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable, statement: &Statement) {
    let ledger = scope.ledger;
    let mut words = ledger.words(statement);
    let (name, number) = (words.text().unwrap_or_default(), words.text().unwrap_or_default());
    let Some((zone, key)) = zone(scope, "limit_conn_zone", name) else {
        return ledger.unsupported(statement, "its zone is not in the file");
    };
    let key = match key {
        Ok(key) => key,
        Err(advice) => {
            ledger.unsupported(zone, &advice);
            return ledger.unsupported(statement, &advice);
        }
    };
    let Ok(number @ 1..) = number.parse::<i64>() else { return };
    let mut table = DraftTable::of(zone);
    set_key(&mut table, &key, zone);
    table.set("concurrent", number, statement);
    set_status(scope, &mut table, "limit_conn_status");
    if let Some((dry, "on")) = scope.text("limit_conn_dry_run") {
        table.set("dry_run", true, dry);
        ledger.exact(dry);
    }
    let name = named(draft, "limit", &super::super::upstreams::name_of(name), &table);
    route.push_once("limited_by", name, statement);
    ledger.exact(zone);
    shares(scope, statement, table_name(statement));
    ledger.exact(statement);
}

/// `limit_rate` and `limit_rate_after`: of each response by itself.
fn rate(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    let Some((statement, text)) = scope.text("limit_rate") else { return };
    let bytes = match units::bytes(text) {
        Some(0) => {
            return scope.ledger.by_default(statement, "responses are sent as fast as clients take them");
        }
        Some(bytes) => bytes,
        None => {
            return scope
                .ledger
                .unsupported(statement, "`bandwidth` of a limit is fixed; make a limit for each");
        }
    };
    let mut table = DraftTable::of(statement);
    // Each request has an id of its own, so that each response has the bandwidth for itself.
    table.set_plain("key", "{request_id}");
    table.set("bandwidth", format!("{}/s", units::size(bytes)), statement);
    if let Some((after, text)) = scope.text("limit_rate_after")
        && let Some(bytes) = units::bytes(text)
    {
        if bytes > 0 {
            table.set("bandwidth_burst", units::size(bytes), after);
        }
        scope.ledger.exact(after);
    }
    let name = named(draft, "limit", &place_name(scope, "bandwidth"), &table);
    route.push_once("limited_by", TomlValue::Text(name), statement);
    scope.ledger.exact(statement);
}
