//! Tables as their users see them, against a model, and from several threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::entries::Entries;
use super::{CounterTable, ExchangeResult, StoredCounter, TableCounter};

fn stored(texts: &[&str]) -> Vec<StoredCounter> {
    texts.iter().map(|text| text.parse().expect("a counter")).collect()
}

fn table(texts: &[&str], keys_max: usize) -> CounterTable {
    CounterTable::new(&stored(texts), keys_max, Duration::from_secs(60))
}

fn text() -> Vec<u8> {
    b"key".to_vec()
}

/// One request of a key from its beginning to its end.
fn pass(table: &CounterTable, key: u64, status: u16, now_ms: u64) -> bool {
    let is_tracked = table.begin(key, true, now_ms, text);
    if is_tracked {
        table.finish(key, ExchangeResult { status, bytes_in: 10, bytes_out: 100 }, now_ms);
    }
    is_tracked
}

#[test]
fn each_counter_counts_what_it_is_for() {
    let names = [
        "conn_cur",
        "conn_cnt",
        "http_req_cnt",
        "http_req_rate(10s)",
        "http_err_cnt",
        "http_err_rate(10s)",
        "http_fail_cnt",
        "http_fail_rate(10s)",
        "bytes_in_cnt",
        "bytes_out_rate(10s)",
        "gpc0",
        "gpc0_rate(10s)",
        "gpc1",
    ];
    let table = table(&names, 100);
    for status in [200, 404, 499, 500, 501, 505, 503, 0] {
        assert!(pass(&table, 1, status, 1_000));
    }
    assert!(table.begin(1, false, 1_000, text), "a connection");
    for _ in 0..2 {
        table.increment(1, [TableCounter::General0, TableCounter::General0Rate], 1_000);
    }
    let values: HashMap<&str, u64> =
        names.iter().zip(table.entries(1_000).remove(0).values).map(|(name, value)| (*name, value)).collect();
    for (name, expected) in [
        ("conn_cur", 1),
        ("conn_cnt", 9),
        ("http_req_cnt", 8),
        ("http_req_rate(10s)", 8),
        ("http_err_cnt", 2),
        ("http_err_rate(10s)", 2),
        ("http_fail_cnt", 2),
        ("http_fail_rate(10s)", 2),
        ("bytes_in_cnt", 80),
        ("bytes_out_rate(10s)", 800),
        ("gpc0", 2),
        ("gpc0_rate(10s)", 2),
        ("gpc1", 0),
    ] {
        assert_eq!(values[name], expected, "{name}");
    }
    table.finish(1, ExchangeResult::default(), 1_000);
    assert_eq!(table.value(1, TableCounter::ConnectionsNow, 1_000), 0);
    assert_eq!(table.value(2, TableCounter::Requests, 1_000), 0, "a key without an entry");
    assert_eq!(table.value(1, TableCounter::BytesOut, 1_000), 0, "what is not stored");
}

#[test]
fn the_oldest_unused_key_makes_room() {
    let table = table(&["http_req_cnt"], 3);
    for (key, now_ms) in [(1, 10), (2, 20), (3, 30), (1, 40)] {
        assert!(pass(&table, key, 200, now_ms));
    }
    assert!(table.begin(2, true, 45, text), "it stays in use");
    assert!(pass(&table, 4, 200, 50));
    let keys = |table: &CounterTable| {
        let mut keys: Vec<u64> = table.entries(60).into_iter().map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&table), [1, 2, 4], "3 was the oldest, since 2 is in use and 1 came again");
    assert!(table.begin(1, true, 51, text) && table.begin(4, true, 52, text));
    assert!(!pass(&table, 5, 200, 53), "all are in use");
    assert_eq!((table.evictions(), table.untracked(), table.keys()), (1, 1, 3));
    table.finish(4, ExchangeResult::default(), 54);
    assert!(pass(&table, 5, 200, 55));
    assert_eq!(keys(&table), [1, 2, 5]);
}

#[test]
fn entries_expire_unless_they_are_in_use() {
    let table = table(&["http_req_cnt", "conn_cur"], 10);
    assert!(pass(&table, 1, 200, 1_000) && table.begin(2, true, 1_000, text));
    assert_eq!(table.value(1, TableCounter::Requests, 60_999), 1);
    assert_eq!(table.value(1, TableCounter::Requests, 61_000), 0);
    assert_eq!(table.value(2, TableCounter::Requests, 500_000), 1);
    assert_eq!(table.entries(500_000).len(), 1);
    assert!(pass(&table, 1, 200, 500_000));
    assert_eq!(table.value(1, TableCounter::Requests, 500_000), 1, "it began anew");
    table.finish(2, ExchangeResult::default(), 500_001);
    assert_eq!(table.value(2, TableCounter::Requests, 500_002), 1, "its time runs from its end");
    assert_eq!(table.evictions(), 0);
}

#[test]
fn many_keys_take_no_more_room_than_the_table_has() {
    let table = table(&["http_req_rate(10s)", "gpc0"], 2_000);
    let long = vec![b'x'; 100_000];
    for key in 0..100_000_u64 {
        let key = crate::hash::mix(key);
        assert!(table.begin(key, true, 1, || long.clone()));
        table.finish(key, ExchangeResult::default(), 1);
    }
    assert!(table.keys() <= 2_000);
    assert!(table.evictions() >= 98_000);
    assert!(table.entries(1).iter().all(|entry| entry.text.len() <= 96));
}

#[test]
fn what_has_expired_leaves_its_place() {
    let mut entries = Entries::new(1_000, 1);
    for key in 0..1_000_u64 {
        let now_ms = key * 10;
        entries.find_or_insert(key, now_ms.checked_sub(100), Box::default);
        let at = entries.find(key).expect("it is there");
        entries.touch(at, now_ms);
    }
    assert!(entries.places_taken() < 20, "{} places", entries.places_taken());
}

#[test]
fn operators_set_and_clear() {
    let table = table(&["gpc0", "http_req_rate(10s)", "conn_cur"], 10);
    assert!(table.set(7, (TableCounter::General0, 5), 1_000, || b"seven".to_vec()));
    assert!(table.set(7, (TableCounter::RequestRate, 50), 1_000, text));
    assert!(!table.set(7, (TableCounter::General1, 5), 1_000, text), "it is not stored");
    assert!(!table.set(7, (TableCounter::ConnectionsNow, 5), 1_000, text), "it follows what is open");
    assert_eq!(table.value(7, TableCounter::General0, 1_000), 5);
    assert_eq!(table.value(7, TableCounter::RequestRate, 16_000), 25);
    assert_eq!(table.entries(1_000)[0].text, b"seven");
    assert!(table.begin(7, true, 1_000, text));
    assert!(table.clear(7));
    assert_eq!(table.value(7, TableCounter::General0, 1_000), 0);
    assert_eq!(table.value(7, TableCounter::ConnectionsNow, 1_000), 1, "an entry in use stays");
    table.finish(7, ExchangeResult::default(), 1_000);
    assert!(table.clear(7) && !table.clear(7));
    assert_eq!(table.keys(), 0);
}

#[test]
fn another_process_goes_on() {
    let counters = ["gpc0", "http_req_rate(10s)"];
    let (before, after) = (table(&counters, 10), table(&counters, 10));
    for _ in 0..40 {
        assert!(pass(&before, 9, 200, 100_000));
    }
    before.increment(9, [TableCounter::General0, TableCounter::General0Rate], 100_000);
    // The clock of the next process began later.
    before.entries(104_000).iter().for_each(|entry| after.resume(entry, 1_000, 50_000));
    assert_eq!(after.value(9, TableCounter::General0, 50_000), 1);
    assert_eq!(after.value(9, TableCounter::RequestRate, 50_000), 40);
    assert_eq!(after.value(9, TableCounter::RequestRate, 60_000), 20);
    assert_eq!(after.value(9, TableCounter::General0, 50_000 + 55_000), 0, "it expires as it would have");
    let other = table(&["gpc0"], 10);
    before.entries(105_000).iter().for_each(|entry| other.resume(entry, 0, 50_000));
    assert_eq!(other.keys(), 0, "of another shape");
}

#[test]
fn counts_are_exact_over_threads() {
    let table = Arc::new(table(&["http_req_cnt", "conn_cur", "bytes_out_cnt", "gpc0"], 100_000));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let table = Arc::clone(&table);
            std::thread::spawn(move || {
                for round in 0..20_000_u64 {
                    let key = crate::hash::mix(round % 10);
                    assert!(pass(&table, key, 200, round));
                    table.increment(key, [TableCounter::General0, TableCounter::General0Rate], round);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    for entry in table.entries(20_000) {
        assert_eq!(entry.values, [8_000, 0, 800_000, 8_000]);
    }
    assert_eq!(table.keys(), 10);
}

proptest! {
    /// Against a list of entries in the order of their use.
    #[test]
    fn a_table_is_its_model(
        steps in prop::collection::vec((0..8_u64, 0..4_u8, 0..40_u64), 0..200),
    ) {
        let table = CounterTable::new(&stored(&["http_req_cnt"]), 4, Duration::from_millis(100));
        // Key, requests, open ones, last use.
        let mut model: Vec<(u64, u64, u32, u64)> = Vec::new();
        let mut now_ms = 1_000;
        for (key, action, later) in steps {
            now_ms += later;
            model.retain(|(_, _, open, used)| *open > 0 || now_ms - used < 100);
            let known = model.iter().position(|entry| entry.0 == key);
            match action {
                0 | 1 => {
                    let begun = table.begin(key, true, now_ms, text);
                    let mut entry = match known {
                        Some(at) => model.remove(at),
                        None => {
                            if model.len() == 4 {
                                match model.iter().position(|entry| entry.2 == 0) {
                                    Some(oldest) => _ = model.remove(oldest),
                                    None => {
                                        prop_assert!(!begun);
                                        continue;
                                    }
                                }
                            }
                            (key, 0, 0, 0)
                        }
                    };
                    prop_assert!(begun);
                    (entry.1, entry.2, entry.3) = (entry.1 + 1, entry.2 + 1, now_ms);
                    model.push(entry);
                }
                2 => if let Some(at) = known.filter(|at| model[*at].2 > 0) {
                    table.finish(key, ExchangeResult::default(), now_ms);
                    let mut entry = model.remove(at);
                    (entry.2, entry.3) = (entry.2 - 1, now_ms);
                    model.push(entry);
                },
                _ => {
                    let expected = known.map_or(0, |at| model[at].1);
                    prop_assert_eq!(table.value(key, TableCounter::Requests, now_ms), expected);
                }
            }
            let mut keys: Vec<u64> = table.entries(now_ms).into_iter().map(|entry| entry.key).collect();
            let mut expected: Vec<u64> = model.iter().map(|entry| entry.0).collect();
            keys.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(keys, expected);
        }
    }
}
