//! Limits that nodes share: simulated nodes and a store as the script of `weir-control` has it, with times that are injected.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const KEY: u64 = 0x5eed;

/// What `exchange.lua` keeps of each key: when its bucket is whole, and whether it is blocked.
#[derive(Default)]
struct Store(HashMap<u64, (u64, bool)>);

impl Store {
    fn run(&mut self, told: KeyUse, rate: TokenRate, now_ns: u64) -> SharedDebt {
        let KeyUse { key, taken_ns, owed_ns, blocked_ns } = told;
        let (mut full, was_blocked) = self.0.get(&key).copied().unwrap_or_default();
        let mut is_blocked = was_blocked && full > now_ns;
        if !is_blocked && blocked_ns > 0 {
            (is_blocked, full) = (true, 0);
        }
        if is_blocked {
            full = full.max(now_ns + blocked_ns).min(now_ns + rate.blocked_max_ns());
        } else {
            let base = if taken_ns > 0 { full.max(now_ns) } else { full };
            full = base.saturating_add_signed(taken_ns).max(now_ns + owed_ns);
            full = full.min(now_ns + rate.shared_debt_max_ns());
        }
        self.0.insert(key, (full, is_blocked));
        SharedDebt { key, full_in_ns: full.saturating_sub(now_ns), is_blocked }
    }

    /// A whole exchange of a node.
    fn exchange(&mut self, node: &RateLimit, rate: TokenRate, now_ns: u64) {
        for told in node.take_untold(now_ns) {
            node.learn(self.run(told, rate, now_ns), now_ns, now_ns);
        }
    }
}

fn rate(requests: u32, burst: u32) -> TokenRate {
    TokenRate::new(requests, Duration::from_secs(1), burst).unwrap()
}

fn node(rate: TokenRate) -> RateLimit {
    let node = RateLimit::new(rate, 100).shared(100);
    assert!(node.begin_sharing(0).is_empty());
    node
}

/// Requests that pass of `count` at one moment.
fn passed(node: &RateLimit, count: usize, now_ns: u64) -> usize {
    (0..count).filter(|_| node.try_take(KEY, now_ns).is_ok()).count()
}

#[test]
fn what_one_node_admits_the_other_does_not() {
    let rate = rate(10, 20);
    let (one, other, mut store) = (node(rate), node(rate), Store::default());
    assert_eq!(passed(&one, 15, SECOND), 15);
    store.exchange(&one, rate, SECOND);
    assert_eq!(passed(&other, 1, SECOND), 1);
    store.exchange(&other, rate, SECOND);
    assert_eq!(passed(&other, 10, SECOND), 4, "20 in all");
    // What is given back is given back in the store.
    other.give_back(KEY);
    store.exchange(&other, rate, SECOND);
    assert_eq!(store.0[&KEY], (SECOND + 1_900 * MS, false));
}

#[test]
fn what_was_admitted_beyond_the_limit_is_paid_back() {
    let rate = rate(10, 20);
    let (one, other, mut store) = (node(rate), node(rate), Store::default());
    assert_eq!(passed(&one, 30, SECOND) + passed(&other, 30, SECOND), 40, "neither knows of the other");
    store.exchange(&one, rate, SECOND);
    store.exchange(&other, rate, SECOND);
    assert_eq!(store.0[&KEY].0, 5 * SECOND);
    // The first one has not asked again, and admits what its bucket has; then it knows.
    let later = SECOND + SECOND / 2;
    assert_eq!((passed(&one, 30, later), passed(&other, 30, later)), (5, 0));
    store.exchange(&one, rate, later);
    let whole = store.0[&KEY].0;
    assert_eq!(whole, 5 * SECOND + SECOND / 2);
    for node in [&one, &other] {
        assert_eq!(passed(node, 9, 3 * SECOND - 1), 0);
    }
}

#[test]
fn a_blocked_key_is_blocked_on_all_nodes() {
    let rate = rate(10, 2).with_block(Duration::from_secs(60));
    let (one, other, mut store) = (node(rate), node(rate), Store::default());
    assert_eq!(passed(&one, 5, SECOND), 2);
    store.exchange(&one, rate, SECOND);
    assert_eq!(passed(&other, 1, 2 * SECOND), 1, "it does not know yet");
    store.exchange(&other, rate, 2 * SECOND);
    for node in [&one, &other] {
        assert_eq!(passed(node, 1, 60 * SECOND), 0);
        assert_eq!(passed(node, 1, 62 * SECOND), 1);
    }
}

/// A store that has forgotten everything, or was away, gets what nodes know as the least that keys owe, and nothing twice.
#[test]
fn after_a_pause_the_largest_debt_counts() {
    let rate = rate(10, 20);
    let (one, other, mut store) = (node(rate), node(rate), Store::default());
    for node in [&one, &other] {
        passed(node, 5, SECOND);
        // It was sent, and the answer is lost.
        let lost = node.take_untold(SECOND);
        assert_eq!(lost.len(), 1);
        for told in lost {
            let _lost = store.run(told, rate, SECOND);
        }
        node.stop_sharing();
        assert_eq!(passed(node, 3, SECOND), 3);
        assert!(node.take_untold(SECOND).is_empty(), "there is none to tell");
    }
    for (node, expected) in [(&one, 10), (&other, 10)] {
        let told = node.begin_sharing(SECOND);
        assert_eq!(told, [KeyUse { key: KEY, taken_ns: 0, owed_ns: 800 * MS, blocked_ns: 0 }]);
        node.learn(store.run(told[0], rate, SECOND), SECOND, SECOND);
        assert_eq!(node.level(KEY, SECOND).remaining, expected, "5 and 5 of 20");
    }
    store.0.clear();
    for node in [&one, &other] {
        for told in node.begin_sharing(SECOND) {
            node.learn(store.run(told, rate, SECOND), SECOND, SECOND);
        }
    }
    assert_eq!(store.0[&KEY].0, 2 * SECOND);
    assert_eq!(one.level(KEY, SECOND).remaining, 10);
}

#[test]
fn what_is_told_is_bounded() {
    let rate = rate(10, 20);
    let node = RateLimit::new(rate, 1_000).shared(10);
    node.begin_sharing(0);
    for key in 1..=15 {
        node.try_take(key, SECOND).unwrap();
    }
    assert_eq!((node.take_untold(SECOND).len(), node.untold_dropped()), (10, 5));
    node.try_take(1, SECOND).unwrap();
    assert_eq!(node.take_untold(SECOND).len(), 1);
    node.try_take(1, SECOND).unwrap();
    node.forget_all();
    assert_eq!((node.keys(SECOND), node.begin_sharing(SECOND).len()), (0, 0));
}

/// Most requests within any time, over what the rate gives in that time.
fn largest_excess(admitted: &[u64], cost_ns: u64) -> u64 {
    let from = |start: usize| {
        let within = (start..admitted.len()).map(move |end| {
            let time_ns = admitted[end] - admitted[start];
            ((end - start + 1) as u64).saturating_sub(time_ns / cost_ns)
        });
        within.max().unwrap_or(0)
    };
    (0..admitted.len()).map(from).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The bound of decision 132: `rate * T + N * (burst + rate * d)`, in every time T, for clients that send as fast as they can or in bursts.
    #[test]
    fn the_sum_of_all_nodes_has_a_bound(
        nodes in 1_usize..5,
        (requests, burst) in (5_u32..100, 1_u32..30),
        interval_ms in 10_u64..200,
        latency_ms in 0_u64..50,
        script in proptest::collection::vec((0_usize..5, 0_u64..40, 1_usize..40), 20..200),
    ) {
        let rate = rate(requests, burst);
        let all: Vec<RateLimit> = (0..nodes).map(|_| node(rate)).collect();
        let mut store = Store::default();
        let (mut now_ns, mut admitted) = (SECOND, Vec::new());
        let mut next_exchange = vec![now_ns; nodes];
        // Answers under way: when they arrive, where, and when they were asked for.
        let mut answers: Vec<(u64, usize, SharedDebt, u64)> = Vec::new();
        for (at, pause_ms, count) in script {
            now_ns += pause_ms * MS;
            // In the order of time, by milliseconds.
            let mut step_ns = now_ns - pause_ms * MS;
            while step_ns <= now_ns {
                for (place, next) in next_exchange.iter_mut().enumerate() {
                    if *next <= step_ns {
                        *next = step_ns + (interval_ms + latency_ms) * MS;
                        for told in all[place].take_untold(step_ns) {
                            let debt = store.run(told, rate, step_ns + latency_ms * MS / 2);
                            answers.push((step_ns + latency_ms * MS, place, debt, step_ns));
                        }
                    }
                }
                answers.retain(|&(due, place, debt, asked_ns)| {
                    if due <= step_ns {
                        all[place].learn(debt, asked_ns, step_ns);
                    }
                    due > step_ns
                });
                step_ns += MS;
            }
            admitted.extend(vec![now_ns; passed(&all[at % nodes], count, now_ns)]);
        }
        let cost_ns = SECOND / u64::from(requests);
        let delay_ns = (interval_ms + 2 * latency_ms + 1) * MS;
        let bound = nodes as u64 * (u64::from(burst) + delay_ns.div_ceil(cost_ns));
        let excess = largest_excess(&admitted, cost_ns);
        prop_assert!(excess <= bound, "{excess} of {bound}");
    }
}
