//! `stick-table`: tables of counters, and what counts in them.

use std::collections::{HashMap, HashSet};

use super::acl::{AclCondition, AclConditions, Surroundings, TableFacts, counter_of, sample};
use super::backend::size_of;
use super::output::{Keys, literal};
use super::proxy::{ProxySection, duration, name_of, time_text};
use crate::document::Draft;
use crate::report::Ledger;
use crate::source::Statement;

/// The tables of all sections, with the keys that count in them.
pub(super) fn facts(proxies: &[ProxySection<'_>], around: &Surroundings<'_>) -> HashMap<String, TableFacts> {
    let mut tables: HashMap<String, TableFacts> = HashMap::new();
    for proxy in proxies {
        let Some(line) = proxy.one(&["stick-table"]) else { continue };
        let store =
            stored(line).into_iter().filter_map(|(name, _)| counter_of(name).map(str::to_owned)).collect();
        tables.insert(proxy.name.to_owned(), TableFacts { key: None, store });
    }
    for proxy in proxies {
        for statement in tracks(proxy) {
            let texts: Vec<&str> = statement.words.iter().map(|word| word.text.as_str()).collect();
            let Some(at) = texts.iter().position(|text| text.starts_with("track-sc")) else { continue };
            let name = texts
                .iter()
                .position(|text| *text == "table")
                .and_then(|at| texts.get(at + 1))
                .copied()
                .unwrap_or(proxy.name);
            let key = texts.get(at + 1).and_then(|text| sample(text, around).plain_placeholder());
            if let (Some(facts), Some(key)) = (tables.get_mut(name), key) {
                // Two keys in one table are none.
                facts.key = match &facts.key {
                    Some(known) if *known != key => Some(String::new()),
                    _ => Some(key),
                };
            }
        }
    }
    for facts in tables.values_mut() {
        facts.key = facts.key.take().filter(|key| !key.is_empty());
    }
    tables
}

fn tracks<'s>(proxy: &ProxySection<'s>) -> Vec<&'s Statement> {
    let rules = proxy.all(&["tcp-request", "http-request"]);
    rules.into_iter().filter(|rule| rule.words.iter().any(|word| word.text.starts_with("track-sc"))).collect()
}

/// The slots in which a section counts.
pub(super) fn slots(proxy: &ProxySection<'_>) -> HashMap<u8, String> {
    let mut slots = HashMap::new();
    for statement in tracks(proxy) {
        let texts: Vec<&str> = statement.words.iter().map(|word| word.text.as_str()).collect();
        let slot = texts.iter().find_map(|text| text.strip_prefix("track-sc")?.parse::<u8>().ok());
        let name = texts.iter().position(|text| *text == "table").and_then(|at| texts.get(at + 1)).copied();
        if let Some(slot) = slot {
            slots.insert(slot, name.unwrap_or(proxy.name).to_owned());
        }
    }
    slots
}

/// What a table stores, each with its period.
fn stored(line: &Statement) -> Vec<(&str, Option<&str>)> {
    let texts: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
    let lists = texts
        .iter()
        .enumerate()
        .filter(|(_, text)| **text == "store")
        .filter_map(|(at, _)| texts.get(at + 1));
    let items = lists.flat_map(|list| list.split(',')).filter(|item| !item.is_empty());
    items
        .map(|item| {
            item.split_once('(')
                .map_or((item, None), |(name, period)| (name, Some(period.trim_end_matches(')'))))
        })
        .collect()
}

/// Writes a table that something asks for or counts in.
pub(super) fn write<'s>(
    proxy: &ProxySection<'s>,
    tables: &HashMap<String, TableFacts>,
    is_used: bool,
    conditions: &[(AclCondition, &'static str)],
    when: Option<&str>,
    draft: &mut Draft,
) {
    let Some(line) = proxy.one(&["stick-table"]) else { return };
    let ledger = proxy.ledger;
    if ledger.is_settled(line) {
        return;
    }
    let counters: Vec<String> =
        stored(line).into_iter().filter_map(|(name, period)| counter(ledger, line, name, period)).collect();
    if !is_used || counters.is_empty() {
        ledger.meaningless(line, "nothing counts in it, or asks for what it counts");
        return;
    }
    let mut keys = Keys::of(proxy.header);
    let key = tables.get(proxy.name).and_then(|facts| facts.key.as_deref()).unwrap_or("{client_address}");
    if key != "{client_address}" {
        keys.set("key", key, line);
    }
    match counters.as_slice() {
        [one] => keys.set("store", one.clone(), line),
        _ => keys.set("store", counters, line),
    }
    if let Some(when) = when {
        keys.set("when", when, line);
    }
    for (condition, name) in conditions {
        keys.set_path(&["increment", name], literal(&condition.expression()), line);
    }
    options(ledger, line, &mut keys);
    keys.write(draft.table(&["table", &name_of(proxy.name)]), &mut HashSet::new());
}

fn counter(ledger: &Ledger, line: &Statement, name: &str, period: Option<&str>) -> Option<String> {
    let Some(counter) = counter_of(name) else {
        ledger.unsupported(line, &format!("tables do not store `{name}`"));
        return None;
    };
    match period {
        Some(period) => match duration(period) {
            Some(time) => Some(format!("{counter}({})", time_text(time.clamp(10, 86_400_000)))),
            None => {
                ledger.unsupported(line, "this is no period");
                None
            }
        },
        None => Some(counter.to_owned()),
    }
}

fn options<'s>(ledger: &Ledger, line: &'s Statement, keys: &mut Keys<'s>) {
    let mut words = ledger.words(line);
    ledger.exact(line);
    while let Some(word) = words.text() {
        match word {
            "type" => {
                if words.text() == Some("ipv6") || words.peek().is_some_and(|word| word.text == "ipv6") {
                    ledger.approximated(line, "a network of 64 bits is one client: `prefix.ipv6`");
                }
            }
            "len" | "store" => {
                words.next();
            }
            "size" => {
                if let Some(size) = words.text().and_then(size_of).filter(|size| *size != 100_000) {
                    keys.set("keys_max", size.clamp(1, 4_000_000), line);
                }
            }
            "expire" => {
                let time = words.text().and_then(duration).filter(|time| *time != 600_000);
                if let Some(time) = time {
                    keys.set("expire", time_text(time.clamp(100, 7 * 86_400_000)), line);
                }
            }
            "nopurge" => {}
            "peers" => {
                words.next();
                ledger.approximated(
                    line,
                    "each Weir counts for itself; `[limit.NAME]` with `shared` counts for several",
                );
            }
            other => ledger.unsupported(line, &format!("`{other}`")),
        }
    }
}

/// The conditions under which counters of a section are raised: `sc-inc-gpc0(0) if ...`.
pub(super) fn increments<'s>(
    proxy: &ProxySection<'s>,
    conditions: &AclConditions<'s, '_>,
    slots: &HashMap<u8, String>,
) -> Vec<(String, AclCondition, &'static str)> {
    let mut found: Vec<(String, AclCondition, &'static str)> = Vec::new();
    for statement in proxy.all(&["tcp-request", "http-request", "http-response"]) {
        let Some(at) = statement.words.iter().position(|word| word.text.starts_with("sc-inc-gpc")) else {
            continue;
        };
        let mut words = proxy.ledger.words(statement);
        for _ in 0..at {
            words.next();
        }
        let action = &statement.words[at].text;
        let counter = if action.contains("gpc0") { "gpc0" } else { "gpc1" };
        let slot = action.split_once('(').and_then(|(_, slot)| slot.trim_end_matches(')').parse::<u8>().ok());
        let condition = conditions.behind(&mut words);
        let table = slot.and_then(|slot| slots.get(&slot));
        match (table, condition.unknown()) {
            (Some(table), None) if !found.iter().any(|(known, _, name)| known == table && *name == counter) && !action.contains("gpc(") => {
                proxy.ledger.exact(statement);
                found.push((table.clone(), condition, counter));
            }
            _ => proxy.ledger.unsupported(statement, "`increment` of a table has one condition for `gpc0` and one for `gpc1`, on a request that it counts"),
        }
    }
    found
}
