//! Tables that nodes share: what is told, and what becomes of what is learned.

use std::time::Duration;

use super::{CounterTable, CountsMerge, ExchangeResult, SharedCounts, TableCounter, ToldCounts};

/// Five numbers: requests; the beginning of the period, its requests, those of the one before; the general purpose counter.
const NAMES: [&str; 3] = ["http_req_cnt", "http_req_rate(10s)", "gpc0"];

fn node() -> CounterTable {
    let stored: Vec<_> = NAMES.iter().map(|name| name.parse().expect("a counter")).collect();
    let node = CounterTable::new(&stored, 4, Duration::from_secs(60)).shared();
    assert_eq!(node.begin_sharing(0), []);
    node
}

fn pass(node: &CounterTable, key: u64, now_ms: u64) {
    assert!(node.begin(key, true, now_ms, || b"key".to_vec()));
    node.finish(key, ExchangeResult::default(), now_ms);
}

fn requests(node: &CounterTable, key: u64, now_ms: u64) -> [u64; 2] {
    [TableCounter::Requests, TableCounter::RequestRate].map(|counter| node.value(key, counter, now_ms))
}

fn told(key: u64, merge: CountsMerge, words: &[u64]) -> ToldCounts {
    ToldCounts { key, merge, idle_ms: 0, words: words.to_vec() }
}

fn all_nodes(words: [u64; 5]) -> SharedCounts {
    SharedCounts { idle_ms: 0, words: words.to_vec() }
}

#[test]
fn what_is_counted_meanwhile_is_added_to_what_all_have_counted() {
    let node = node();
    (0..3).for_each(|_| pass(&node, 1, 1_000));
    assert_eq!(node.take_untold(1_000), [told(1, CountsMerge::Add, &[3, 0, 3, 0, 0])]);
    assert_eq!(node.take_untold(1_000), [], "it is told");
    pass(&node, 1, 1_500);
    node.learn(1, Some(&all_nodes([10, 500, 8, 4, 2])), 2_000);
    assert_eq!(requests(&node, 1, 2_000), [11, 9 + 4 * 9_500 / 10_000]);
    assert_eq!(node.value(1, TableCounter::General0, 2_000), 2);
    assert_eq!(node.take_untold(2_000), [told(1, CountsMerge::Add, &[1, 0, 1, 0, 0])]);
    node.learn(1, Some(&all_nodes([11, 500, 9, 4, 2])), 2_000);
    assert_eq!(requests(&node, 1, 2_000), [11, 12], "nothing counts twice");
}

#[test]
fn a_key_that_only_others_have_counted_is_asked_for() {
    let node = node();
    assert_eq!(requests(&node, 7, 1_000), [0, 0]);
    assert_eq!(node.take_untold(1_000), [told(7, CountsMerge::Ask, &[])]);
    node.learn(7, None, 1_000);
    node.learn(7, Some(&all_nodes([0; 5])), 1_000);
    assert_eq!(node.keys(), 0, "it was never counted");
    node.learn(7, Some(&SharedCounts { idle_ms: 59_000, words: vec![5, 0, 5, 0, 0] }), 100_000);
    assert_eq!(requests(&node, 7, 100_000), [5, 5]);
    assert_eq!(node.entries(100_000)[0].text, b"", "it is not known here");
    assert_eq!(requests(&node, 7, 101_000), [0, 0], "it is not in use any more");
    pass(&node, 7, 101_000);
    assert_eq!((requests(&node, 7, 101_000), &node.entries(101_000)[0].text[..]), ([1, 1], &b"key"[..]));
    node.learn(7, Some(&SharedCounts { idle_ms: 60_000, words: vec![5, 0, 5, 0, 0] }), 101_000);
    node.learn(7, Some(&SharedCounts { idle_ms: 0, words: vec![5] }), 101_000);
    assert_eq!(requests(&node, 7, 101_000), [1, 1], "too old, or of another table");
}

#[test]
fn without_a_store_nothing_is_kept_and_all_is_told_again_as_the_least() {
    let node = node();
    pass(&node, 1, 101_000);
    node.stop_sharing();
    pass(&node, 1, 102_000);
    assert_eq!(node.take_untold(102_000), []);
    node.learn(1, Some(&all_nodes([0; 5])), 102_000);
    assert_eq!(requests(&node, 1, 102_000), [2, 2], "an answer that comes late changes nothing");
    let least = ToldCounts { idle_ms: 1_000, ..told(1, CountsMerge::Least, &[2, 2_000, 2, 0, 0]) };
    assert_eq!(node.begin_sharing(103_000), std::slice::from_ref(&least));
    // A store that has lost a key is told again.
    node.learn(1, None, 103_000);
    assert_eq!(node.take_untold(103_000), [least]);
    assert_eq!(node.begin_sharing(170_000), [], "it has expired");
}

#[test]
fn what_operators_change_replaces_what_all_have_counted() {
    let node = node();
    pass(&node, 1, 101_000);
    assert!(node.set(1, (TableCounter::General0, 9), 101_000, Vec::new));
    node.learn(1, Some(&all_nodes([50, 0, 50, 0, 0])), 101_000);
    assert_eq!(node.value(1, TableCounter::General0, 101_000), 9, "what is on its way is older");
    assert_eq!(node.take_untold(101_000), [told(1, CountsMerge::Replace, &[1, 0, 1, 0, 9])]);
    assert!(node.clear(1) && !node.clear(2));
    let mut cleared = node.take_untold(101_000);
    cleared.sort_by_key(|told| told.key);
    assert_eq!(cleared, [1, 2].map(|key| told(key, CountsMerge::Replace, &[0; 5])));
    node.learn(1, Some(&all_nodes([0; 5])), 101_000);
    assert_eq!(requests(&node, 1, 101_000), [0, 0]);
}

#[test]
fn what_is_not_told_is_bounded_and_questions_displace_no_counts() {
    let node = node();
    (0..20).for_each(|key| _ = node.value(key, TableCounter::Requests, 0));
    (100..104).for_each(|key| pass(&node, key, 0));
    let told = node.take_untold(0);
    let asked = told.iter().filter(|told| told.merge == CountsMerge::Ask).count();
    assert_eq!((asked, told.len(), node.untold_dropped()), (4, 8, 0));
    (100..120).for_each(|key| pass(&node, key, 0));
    assert_eq!(node.take_untold(0).len(), 8);
    assert_eq!(node.untold_dropped(), 24, "twelve requests, each in two counters");
}

#[test]
fn keys_under_another_hash_are_forgotten_but_for_those_with_open_exchanges() {
    let node = node();
    pass(&node, 1, 1_000);
    assert!(node.begin(2, true, 1_000, Vec::new));
    node.forget_all();
    assert_eq!((node.keys(), requests(&node, 2, 1_000)), (1, [0, 0]));
    node.finish(2, ExchangeResult::default(), 1_000);
    assert_eq!(node.begin_sharing(1_000), [], "there is nothing to tell");
}

#[test]
fn a_table_of_one_node_tells_nothing() {
    let stored: Vec<_> = NAMES.iter().map(|name| name.parse().expect("a counter")).collect();
    let node = CounterTable::new(&stored, 4, Duration::from_secs(60));
    pass(&node, 1, 0);
    assert_eq!((node.begin_sharing(0), node.take_untold(0), node.untold_dropped()), (vec![], vec![], 0));
    node.learn(1, Some(&all_nodes([9; 5])), 0);
    assert_eq!(requests(&node, 1, 0), [1, 1]);
}
