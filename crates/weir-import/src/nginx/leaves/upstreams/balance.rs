//! `least_conn`, `ip_hash`, `hash`, `random`, `sticky`: how a server of a block is chosen.

use super::super::scope::Scope;
use super::super::units;
use super::hash_key;
use crate::document::DraftTable;
use crate::source::Statement;

/// The policy of a block with so many servers.
pub(super) fn policy(scope: &Scope<'_>, block: &Statement, servers: usize, table: &mut DraftTable) {
    let mut has_policy = false;
    for child in block.children() {
        has_policy |= match child.name() {
            "least_conn" => {
                scope.ledger.by_default(child, "`least-requests` is the default policy");
                true
            }
            "ip_hash" => ip_hash(scope, child, table),
            "hash" => hash(scope, child, table),
            "random" => random(scope, child, table),
            "least_time" => {
                scope.ledger.words(child).rest();
                table.set("balance", "peak-ewma", child);
                scope.ledger.approximated(
                    child,
                    "latency is weighed by `peak-ewma`, which forgets slow responses slowly",
                );
                true
            }
            "sticky" => {
                sticky(scope, child, table);
                false
            }
            _ => false,
        };
    }
    if !has_policy && servers > 1 {
        table.set_plain("balance", "round-robin");
    }
}

fn ip_hash(scope: &Scope<'_>, child: &Statement, table: &mut DraftTable) -> bool {
    table.set("balance", "map-based-hash", child);
    table.set_plain("hash_key", "client-address/24,128");
    scope
        .ledger
        .approximated(child, "a network of clients stays on one server, but on another one than with nginx");
    true
}

fn hash(scope: &Scope<'_>, child: &Statement, table: &mut DraftTable) -> bool {
    let mut words = scope.ledger.words(child);
    let consistent = words.flag("consistent");
    let key = words.text().unwrap_or_default();
    match hash_key(scope, key) {
        Ok(key) => {
            table.set("balance", if consistent { "consistent-hash" } else { "map-based-hash" }, child);
            table.set_plain("hash_key", key);
            if consistent {
                table.set_plain("hash_load_factor", "off");
            }
            let difference = "a key stays on one server, but on another one than with nginx";
            scope.ledger.approximated(child, difference);
        }
        Err(unknown) => scope.ledger.unsupported(child, &format!("`${}`: {}", unknown.name, unknown.advice)),
    }
    true
}

fn random(scope: &Scope<'_>, child: &Statement, table: &mut DraftTable) -> bool {
    let mut words = scope.ledger.words(child);
    let two = words.flag("two");
    let method = two.then(|| words.text()).flatten();
    table.set("balance", if two { "power-of-two" } else { "random" }, child);
    match method {
        Some(method) if method != "least_conn" => {
            scope.ledger.approximated(
                child,
                "of two servers, the one with fewer requests is taken, whatever their latency",
            );
        }
        _ => scope.ledger.exact(child),
    }
    true
}

/// `sticky cookie NAME ...`.
fn sticky(scope: &Scope<'_>, child: &Statement, table: &mut DraftTable) {
    let mut words = scope.ledger.words(child);
    if words.text() != Some("cookie") {
        return scope
            .ledger
            .unsupported(child, "`affinity` of the upstream has `learn` and `stick` by a key");
    }
    let name = words.text().unwrap_or_default();
    let affinity = table.table("affinity");
    affinity.set("cookie", name, child);
    if let Some(time) = words.option("expires=") {
        match units::duration(time) {
            Some(time) => affinity.set_plain("max_age", time),
            None => affinity.set_plain("max_age", "3650d"),
        }
    }
    if let Some(domain) = words.option("domain=") {
        affinity.set_plain("domain", domain);
    }
    if let Some(path) = words.option("path=") {
        affinity.set_plain("path", path);
    }
    if let Some(same_site) = words.option("samesite=") {
        affinity.set_plain("same_site", same_site.to_ascii_lowercase());
    }
    if words.flag("secure") {
        affinity.set_plain("secure", true);
    }
    if !words.flag("httponly") {
        affinity.set_plain("http_only", false);
    }
    scope.ledger.approximated(
        child,
        "the cookie names the server in another form: clients with one of nginx are spread anew",
    );
}
