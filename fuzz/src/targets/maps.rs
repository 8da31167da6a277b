//! Maps: the first line is a text, each other one an entry, `kind key`, whose value is its number. What is found is what a search through all entries
//! finds. With an entry that is refused there is no map.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_conditions::{MapEntryError, MapKind, MapMatch, ValueMapBuilder};
use weir_traffic::route::ValueMatch;

/// More entries show nothing that fewer do not.
const ENTRIES_MAX: usize = 200;

/// An entry that was taken.
struct MapLine<'a> {
    kind: MapKind,
    key: &'a str,
    value: String,
}

/// How an entry of a host compares: itself, and what hosts below it end with.
fn host(key: &str) -> (Option<String>, Option<String>) {
    let key = key.to_ascii_lowercase();
    match (key.strip_prefix('*'), key.strip_prefix('.')) {
        (Some(below), _) => (None, Some(below.to_owned())),
        (None, Some(name)) => (Some(name.to_owned()), Some(key.clone())),
        (None, None) => (Some(key), None),
    }
}

/// What a search through all entries finds: by the order of kinds, the longest key of a kind, the first regular expression.
fn search<'a>(entries: &'a [MapLine<'_>], text: &str) -> Option<&'a str> {
    let exact = entries.iter().find(|entry| match entry.kind {
        MapKind::Exact => entry.key == text,
        MapKind::Host => host(entry.key).0.as_deref() == Some(text),
        _ => false,
    });
    let longest = |kind: MapKind, length: &dyn Fn(&str) -> Option<usize>| {
        let of_kind = entries.iter().filter(|entry| entry.kind == kind);
        let found = of_kind.filter_map(|entry| Some((length(entry.key)?, entry)));
        found.max_by_key(|(length, _)| *length).map(|(_, entry)| entry)
    };
    let below = |key: &str| {
        host(key).1.filter(|end| !text.starts_with('.') && text.ends_with(end.as_str())).map(|end| end.len())
    };
    let starts = |key: &str| text.starts_with(key).then_some(key.len());
    let ends = |key: &str| text.ends_with(key).then_some(key.len());
    let address = text.parse::<IpAddr>().ok();
    let contains = |key: &str| {
        let network = network(key)?;
        network.contains(&address?).then_some(usize::from(network.prefix_len()))
    };
    let regex = || {
        entries.iter().find(|entry| {
            entry.kind == MapKind::Regex
                && matches!(ValueMatch::regex(entry.key), Ok(ValueMatch::Regex(regex)) if regex.is_match(text.as_bytes()))
        })
    };
    let found = exact
        .or_else(|| longest(MapKind::Host, &below))
        .or_else(|| longest(MapKind::Prefix, &starts))
        .or_else(|| longest(MapKind::Suffix, &ends))
        .or_else(|| longest(MapKind::Network, &contains))
        .or_else(regex);
    found.map(|entry| entry.value.as_str())
}

fn network(key: &str) -> Option<IpNet> {
    key.parse().ok().or_else(|| key.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Fails when `input` shows a fault.
///
/// # Panics
/// When it does.
pub fn check(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let mut lines = input.split('\n');
    let text = lines.next().unwrap_or_default();
    let mut builder = ValueMapBuilder::<()>::new();
    let mut taken = Vec::new();
    for (number, line) in lines.enumerate().take(ENTRIES_MAX) {
        let Some((kind, key)) = line.split_once(' ') else { continue };
        let Some(kind) = MapKind::ALL.into_iter().find(|known| known.as_str() == kind) else { continue };
        let value = number.to_string();
        match builder.insert_text(kind, key, value.as_bytes()) {
            Ok(()) => taken.push(MapLine { kind, key, value }),
            Err(MapEntryError::Known) => {
                assert!(
                    taken.iter().any(|entry| is_same(entry, kind, key)),
                    "{kind:?} {key:?} is there already"
                );
                return;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
    let map = builder.build();
    let found = map.get(text.as_bytes()).map(|found| match found {
        MapMatch::Text(value) => std::str::from_utf8(value).expect("values are numbers"),
        MapMatch::Value((), _) => unreachable!("all values are texts"),
    });
    assert_eq!(found, search(&taken, text), "{text:?}");
}

/// Whether an entry has a key that takes the place of another.
fn is_same(entry: &MapLine<'_>, kind: MapKind, key: &str) -> bool {
    let itself = |kind: MapKind, key: &str| match kind {
        MapKind::Exact => Some(key.to_owned()),
        MapKind::Host => host(key).0,
        _ => None,
    };
    let is_itself = itself(kind, key).is_some_and(|name| itself(entry.kind, entry.key) == Some(name));
    let is_below = kind == MapKind::Host
        && entry.kind == MapKind::Host
        && host(key).1.is_some_and(|end| host(entry.key).1 == Some(end));
    let is_network = kind == MapKind::Network && entry.kind == kind && network(entry.key) == network(key);
    is_itself || is_below || is_network || (entry.kind == kind && entry.key == key)
}
