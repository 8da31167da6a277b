//! `allow`, `deny`, `satisfy`: the first rule that is for the address counts in nginx, the longest network in Weir.

use std::net::IpAddr;

use super::super::scope::Scope;
use super::{named, place_name};
use crate::document::{Draft, DraftTable};
use crate::networks::network as network_of;
use crate::source::Statement;

/// A rule, with its network; `None`: all addresses.
struct AccessRule<'s> {
    statement: &'s Statement,
    allows: bool,
    network: Option<(u128, u8, bool)>,
    text: String,
}

pub(super) fn apply(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    let satisfy_any = scope.text("satisfy").is_some_and(|(statement, text)| {
        match text {
            "any" => scope.ledger.exact(statement),
            _ => scope.ledger.by_default(statement, "a request has to satisfy all"),
        }
        text == "any"
    });
    let satisfy_any = satisfy_any && authenticates(scope);
    let rules = rules(scope, satisfy_any);
    if satisfy_any && !rules.iter().any(|rule| rule.allows) {
        // No address lets anyone in: the password does, for all.
        for rule in &rules {
            scope.ledger.meaningless(rule.statement, "with `satisfy any`, authentication decides here");
        }
        return;
    }
    if rules.is_empty() {
        return;
    }
    if satisfy_any && let Some(statement) = scope.one("satisfy") {
        route.set("satisfy", "any", statement);
    }
    let allows: Vec<String> = rules
        .iter()
        .filter(|rule| rule.allows && rule.network.is_some())
        .map(|rule| rule.text.clone())
        .collect();
    let denies: Vec<String> = rules
        .iter()
        .filter(|rule| !rule.allows && rule.network.is_some())
        .map(|rule| rule.text.clone())
        .collect();
    let denies_all = rules.iter().any(|rule| !rule.allows && rule.network.is_none());
    let Some(from) = rules.first().map(|rule| rule.statement) else { return };
    if !denies_all && denies.is_empty() && !satisfy_any {
        return;
    }
    if denies_all && denies.is_empty() && allows.len() <= 30 && !satisfy_any {
        // One list that refuses all others asks for limits as before, which a list that allows would not.
        let mut table = DraftTable::default();
        table.set("action", "deny", from);
        if !allows.is_empty() {
            let quoted: Vec<String> = allows.iter().map(|network| format!("'{network}'")).collect();
            table.set_plain("when", format!("!(client_address in [{}])", quoted.join(", ")));
        } else {
            table.set_plain("entries", vec!["0.0.0.0/0", "::/0"]);
        }
        let base = if allows.is_empty() { "all-denied".to_owned() } else { place_name(scope, "allowed") };
        let name = named(draft, "list", &base, &table);
        route.push_once("lists", name, from);
        return;
    }
    let mut all_allowed = allows;
    if rules.iter().any(|rule| rule.allows && rule.network.is_none()) {
        all_allowed.extend(["0.0.0.0/0".to_owned(), "::/0".to_owned()]);
    }
    let mut all_denied = denies;
    if denies_all {
        all_denied.extend(["0.0.0.0/0".to_owned(), "::/0".to_owned()]);
    }
    for (action, entries) in [("allow", all_allowed), ("deny", all_denied)] {
        if entries.is_empty() {
            continue;
        }
        let mut table = DraftTable::default();
        table.set("action", action, from);
        table.set_plain("entries", entries);
        let base = format!("{}-{action}", place_name(scope, "access"));
        let name = named(draft, "list", &base, &table);
        route.push_once("lists", name, from);
    }
    let limits = ["limit_req", "limit_conn", "limit_rate"].iter().any(|name| scope.one(name).is_some());
    if limits && rules.iter().any(|rule| rule.allows && rule.network.is_some()) {
        for rule in rules.iter().filter(|rule| rule.allows) {
            scope.ledger.approximated(
                rule.statement,
                "requests of these addresses are not under the limits of the place",
            );
        }
    }
}

/// Whether the place asks for more than an address.
fn authenticates(scope: &Scope<'_>) -> bool {
    ["auth_basic", "auth_request", "auth_jwt"].iter().any(|name| {
        scope.one(name).is_some_and(|one| one.words.get(1).is_some_and(|word| word.text != "off"))
    })
}

/// The rules that decide about anything, in their order.
fn rules<'s>(scope: &Scope<'s>, keeps_all: bool) -> Vec<AccessRule<'s>> {
    let mut found: Vec<AccessRule<'s>> = Vec::new();
    for statement in scope.any_of(&["allow", "deny"]) {
        let text = scope.words(statement).text().unwrap_or_default();
        let network = match text {
            "all" => None,
            "unix:" => {
                scope.ledger.approximated(
                    statement,
                    "lists are about addresses: clients on Unix sockets are under no rule",
                );
                continue;
            }
            _ => match parse(text) {
                Some(network) => Some(network),
                None => {
                    scope.ledger.unsupported(
                        statement,
                        "name a network or an address: Weir resolves no names of clients",
                    );
                    continue;
                }
            },
        };
        if found.iter().any(|earlier| covers(earlier.network, network)) {
            scope.ledger.meaningless(statement, "a rule before it is for all of these addresses");
            continue;
        }
        scope.ledger.exact(statement);
        found.push(AccessRule {
            statement,
            allows: statement.name() == "allow",
            network,
            text: network_of(text),
        });
    }
    // `allow all` at the end says what holds anyway.
    while !keeps_all && found.last().is_some_and(|rule| rule.allows && rule.network.is_none()) {
        found.pop();
    }
    found
}

/// An address or a network as a number, its bits, and whether it is one of IPv6.
fn parse(text: &str) -> Option<(u128, u8, bool)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(v4) => {
            let bits = bits.unwrap_or(32);
            (bits <= 32).then(|| (u128::from(u32::from(v4)) << 96, bits, false))
        }
        IpAddr::V6(v6) => {
            let bits = bits.unwrap_or(128);
            (bits <= 128).then(|| (u128::from(v6), bits, true))
        }
    }
}

/// Whether a network is for all addresses of another one.
fn covers(outer: Option<(u128, u8, bool)>, inner: Option<(u128, u8, bool)>) -> bool {
    match (outer, inner) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some((outer, outer_bits, outer_v6)), Some((inner, inner_bits, inner_v6))) => {
            let mask = |bits: u8| u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            outer_v6 == inner_v6
                && outer_bits <= inner_bits
                && outer & mask(outer_bits) == inner & mask(outer_bits)
        }
    }
}
