//! Limits: bounds that hold, memory that does not grow, rates that are what they say.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::hash::mix;

const SECOND_NS: u64 = 1_000_000_000;

/// A key as data paths make them: a hash.
fn key(number: u32) -> u64 {
    mix(u64::from(number) ^ 0x5eed)
}

fn client(number: u32) -> ClientKey {
    ClientKey::from(IpAddr::V4(Ipv4Addr::from(number)))
}

#[test]
fn connections_never_exceed_their_limit() {
    let limit = ConnectionCount::new(2);
    assert!(limit.try_acquire() && limit.try_acquire() && !limit.try_acquire());
    limit.set_count_max(1);
    limit.release();
    assert!(!limit.try_acquire());
    assert_eq!((limit.count(), limit.count_max()), (1, 1));
    limit.release();
    assert!(limit.try_acquire());

    let shared = ConnectionCount::new(3);
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3_000 {
                    if shared.try_acquire() {
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        shared.release();
                    }
                }
            });
        }
    });
    assert!((1..=3).contains(&most.into_inner()));
    assert_eq!(shared.count(), 0);
}

#[test]
fn each_client_has_its_own_limit() {
    let limit = ClientLimit::new(2, 100, 0);
    for _ in 0..2 {
        assert_eq!(limit.try_acquire(client(1)), Ok(()));
    }
    assert_eq!(limit.try_acquire(client(1)), Err(ClientLimitRefusal::ClientFull));
    assert_eq!(limit.try_acquire(client(2)), Ok(()));
    assert_eq!((limit.count(client(1)), limit.clients()), (2, 2));
    limit.release(client(1));
    assert_eq!(limit.try_acquire(client(1)), Ok(()));
    limit.set_count_max(0);
    assert_eq!(limit.try_acquire(client(3)), Err(ClientLimitRefusal::ClientFull));
}

#[test]
fn the_table_of_clients_is_bounded_and_forgets_clients_that_left() {
    let limit = ClientLimit::new(1, 1_000, 7);
    let admitted = (0..100_000).filter(|&number| limit.try_acquire(client(number)).is_ok()).count();
    assert!((1_000..=3_000).contains(&admitted), "{admitted}");
    assert_eq!(limit.clients(), admitted);
    for number in 0..100_000 {
        if limit.count(client(number)) > 0 {
            limit.release(client(number));
        }
    }
    assert_eq!(limit.clients(), 0);
    let fitting = (0..1_000).filter(|&number| limit.try_acquire(client(number)).is_ok()).count();
    assert_eq!(fitting, 1_000, "as many as were asked for");
}

proptest! {
    /// Against a plain map.
    #[test]
    fn client_counts_are_right(steps in prop::collection::vec((0..5_u32, any::<bool>()), 1..200), count_max in 1..5_u32) {
        let limit = ClientLimit::new(count_max, 100, 1);
        let mut model: HashMap<u32, u32> = HashMap::new();
        for (number, acquire) in steps {
            let count = model.entry(number).or_default();
            if acquire {
                prop_assert_eq!(limit.try_acquire(client(number)).is_ok(), *count < count_max);
                *count = (*count + 1).min(count_max);
            } else if *count > 0 {
                limit.release(client(number));
                *count -= 1;
            }
            prop_assert_eq!(limit.count(client(number)), *count);
        }
        prop_assert_eq!(limit.clients(), model.values().filter(|count| **count > 0).count());
    }

    /// In no stretch of time more than the burst plus the rate, and no refusal below that: against a bucket
    /// that is filled drop by drop.
    #[test]
    fn rates_are_exact(
        requests in 1..50_u32,
        burst in 1..20_u32,
        gaps_ms in prop::collection::vec(0..300_u64, 1..200),
    ) {
        let rate = TokenRate::new(requests, Duration::from_secs(1), burst).unwrap();
        let limit = RateLimit::new(rate, 10);
        // The time of a bucket is even, since one bit is a mark: a token more is a nanosecond less.
        let cost_ns = SECOND_NS / u64::from(requests);
        let (mut level_ns, mut now_ns) = (cost_ns * u64::from(burst), SECOND_NS);
        for (step, gap_ms) in gaps_ms.into_iter().enumerate() {
            let slack_ns = step as u64;
            now_ns += gap_ms * 1_000_000;
            level_ns = (level_ns + gap_ms * 1_000_000).min(cost_ns * u64::from(burst));
            match limit.try_take(key(1), now_ns) {
                Ok(wait_ns) => {
                    prop_assert_eq!(wait_ns, 0);
                    prop_assert!(level_ns + slack_ns >= cost_ns);
                    level_ns = level_ns.saturating_sub(cost_ns);
                }
                Err(wait_ns) => prop_assert!((level_ns + wait_ns).abs_diff(cost_ns) <= slack_ns),
            }
        }
    }

    /// Requests that wait for their turn come at most as often as the rate says, and as many as the burst wait.
    #[test]
    fn turns_are_spread(
        burst in 1..20_u32,
        gaps_ms in prop::collection::vec(0..300_u64, 1..200),
    ) {
        let rate = TokenRate::new(10, Duration::from_secs(1), burst).unwrap().with_delay(Duration::from_secs(1));
        let limit = RateLimit::new(rate, 10);
        let (mut now_ns, mut turns, mut refused) = (SECOND_NS, Vec::<u64>::new(), 0);
        for gap_ms in gaps_ms {
            now_ns += gap_ms * 1_000_000;
            match limit.try_take(key(1), now_ns) {
                Ok(wait_ns) => {
                    prop_assert!(wait_ns <= SECOND_NS);
                    turns.push(now_ns + wait_ns);
                }
                Err(_) => {
                    refused += 1;
                    let waiting = turns.iter().filter(|turn| **turn > now_ns).count();
                    prop_assert!(waiting >= burst.min(10) as usize - 1, "{}", waiting);
                }
            }
        }
        prop_assert!(turns.windows(2).all(|pair| pair[1] - pair[0] >= SECOND_NS / 10 - 1));
        prop_assert!(refused == 0 || turns.len() > 1 || burst == 1);
    }
}

/// As many requests pass at once as the level says, whatever the rate; none are left then until the time that it says.
#[test]
fn the_level_says_how_many_requests_pass() {
    let rate = || TokenRate::new(10, Duration::from_secs(1), 5).unwrap();
    for rate in
        [rate(), rate().with_delay(Duration::from_millis(250)), rate().with_block(Duration::from_secs(9))]
    {
        let limit = RateLimit::new(rate, 100);
        let mut now_ns = 77 * SECOND_NS;
        for (pause_ns, key) in [(0, key(1)), (SECOND_NS / 7, key(1)), (SECOND_NS / 3, key(1)), (0, key(2))] {
            now_ns += pause_ns;
            let level = limit.level(key, now_ns);
            let passed = (0..100).take_while(|_| limit.try_take(key, now_ns).is_ok()).count();
            assert_eq!(level.remaining, passed as u64, "{rate:?} after {pause_ns}");
            let retry_ns = limit.try_take(key, now_ns).unwrap_err();
            assert_eq!(
                limit.level(key, now_ns),
                BucketLevel { remaining: 0, reset_ns: retry_ns },
                "{rate:?}"
            );
        }
        now_ns += 99 * SECOND_NS;
        let full = limit.level(key(1), now_ns);
        assert_eq!((full.reset_ns, full.remaining), (0, limit.level(key(9), now_ns).remaining));
    }
}

#[test]
fn a_refused_key_learns_when_to_retry() {
    let rate = TokenRate::new(10, Duration::from_secs(1), 1).unwrap();
    let limit = RateLimit::new(rate, 10);
    assert_eq!(limit.try_take(key(1), SECOND_NS), Ok(0));
    let wait_ns = limit.try_take(key(1), SECOND_NS).unwrap_err();
    assert_eq!(wait_ns, SECOND_NS / 10);
    assert_eq!(limit.check(key(1), SECOND_NS), Err(wait_ns));
    assert!(limit.try_take(key(1), SECOND_NS + wait_ns - 1).is_err());
    assert_eq!(limit.check(key(1), SECOND_NS + wait_ns), Ok(()));
    assert_eq!(limit.try_take(key(1), SECOND_NS + wait_ns), Ok(0));
    assert_eq!(limit.try_take(key(2), SECOND_NS), Ok(0), "another key");
    limit.give_back(key(2));
    assert_eq!(limit.try_take(key(2), SECOND_NS), Ok(0), "its token was given back");
    assert_eq!(limit.keys(SECOND_NS + wait_ns), 1, "only one is not full");
}

#[test]
fn a_blocked_key_gets_nothing_until_its_time_is_over() {
    let second = Duration::from_secs(1);
    let rate = TokenRate::new(10, second, 2).unwrap().with_block(60 * second);
    let limit = RateLimit::new(rate, 10);
    let at = |seconds: u64| seconds * SECOND_NS;
    assert_eq!([0; 2].map(|_| limit.try_take(key(1), at(1))), [Ok(0); 2]);
    assert_eq!(limit.try_take(key(1), at(1)), Err(at(60)));
    assert_eq!(limit.try_take(key(1), at(11)).map_err(|wait| wait.div_ceil(SECOND_NS) / 10 * 10), Err(50));
    assert!(limit.check(key(1), at(60)).is_err());
    assert_eq!(limit.try_take(key(1), at(61) + 1), Ok(0), "one token, as after any wait");
    assert_eq!(limit.try_take(key(1), at(61) + 1), Err(at(60)), "it was too many once more");
    limit.give_back(key(1));
    assert!(limit.check(key(1), at(100)).is_err(), "a block is not given back");
}

#[test]
fn errors_are_spent_after_they_have_happened() {
    let second = Duration::from_secs(1);
    let counted = TokenRate::new(5, 10 * second, 5).unwrap();
    let limit = RateLimit::new(counted, 10);
    for error in 1..=5 {
        assert_eq!(limit.check(key(1), SECOND_NS), Ok(()), "before error {error}");
        limit.spend(key(1), SECOND_NS);
    }
    assert_eq!(limit.check(key(1), SECOND_NS), Err(2 * SECOND_NS));
    // Requests that were on their way make it no longer than the whole bucket.
    (0..100).for_each(|_| limit.spend(key(1), SECOND_NS));
    assert_eq!(limit.check(key(1), SECOND_NS), Err(2 * SECOND_NS));
    assert_eq!(limit.check(key(1), 3 * SECOND_NS), Ok(()));

    let blocking = RateLimit::new(counted.with_block(60 * second), 10);
    (0..5).for_each(|_| blocking.spend(key(1), SECOND_NS));
    assert_eq!(blocking.check(key(1), SECOND_NS).map_err(|wait| wait / SECOND_NS), Err(60));
    blocking.spend(key(1), 30 * SECOND_NS);
    assert_eq!(
        blocking.check(key(1), 30 * SECOND_NS).map_err(|wait| wait / SECOND_NS),
        Err(31),
        "blocked once"
    );
    assert_eq!(blocking.check(key(1), 62 * SECOND_NS), Ok(()));
}

#[test]
fn many_keys_never_cost_one_key_its_requests() {
    let rate = TokenRate::new(1, Duration::from_secs(1), 5).unwrap();
    let limit = RateLimit::new(rate, 64);
    for number in 0..100_000 {
        assert_eq!(limit.try_take(key(number), u64::from(number)), Ok(0), "the first request of {number}");
    }
    assert!(limit.evictions() > 90_000);
    assert!(limit.keys(0) <= limit.buckets());
}

#[test]
fn a_busy_key_stays_limited_among_quiet_ones() {
    let rate = TokenRate::new(1, Duration::from_secs(1), 20).unwrap();
    let limit = RateLimit::new(rate, 512);
    let taken = (0..10_000_u32)
        .filter(|&step| {
            let _ = limit.try_take(key(1_000 + step), SECOND_NS);
            limit.try_take(key(1), SECOND_NS).is_ok()
        })
        .count();
    assert_eq!(taken, 20, "its empty bucket never gives way to the fuller ones of others");
}

#[test]
fn a_table_holds_the_keys_that_it_is_made_for() {
    let rate = TokenRate::new(1, Duration::from_secs(60), 1).unwrap();
    let limit = RateLimit::new(rate, 100_000);
    for number in 0..100_000 {
        limit.try_take(key(number), SECOND_NS).unwrap();
    }
    let again = (0..100_000).filter(|number| limit.try_take(key(*number), SECOND_NS).is_ok()).count();
    assert!(again < 300, "{again} of 100 000 got a second token");
    assert!(limit.buckets() * 128 / 7 <= 64 * 100_000 && RateLimit::BYTES_PER_KEY <= 64);
}

/// Several threads on one table, each with its own idea of the time, as workers have it.
#[test]
fn threads_never_share_a_token_and_leave_none() {
    const KEYS: u32 = 50;
    const THREADS: u64 = 4;
    let (requests, burst, time_ns) = (100_u64, 10, 2 * SECOND_NS);
    let rate = TokenRate::new(requests as u32, Duration::from_secs(1), burst).unwrap();
    let limit = RateLimit::new(rate, 100);
    let passed: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let clock = std::sync::atomic::AtomicU64::new(SECOND_NS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    // Each step is taken by one thread, and asked for by all at about the same time.
                    let now_ns = clock.fetch_add(time_ns / 40_000, Ordering::Relaxed);
                    if now_ns > SECOND_NS + time_ns {
                        break;
                    }
                    for number in 0..KEYS {
                        if limit.try_take(key(number), now_ns).is_ok() {
                            passed[number as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let most = (requests * time_ns / SECOND_NS) as u32 + burst;
    for count in passed {
        let count = count.into_inner();
        assert!((most * 95 / 100..=most).contains(&count), "{count} of {most}");
    }
}

#[test]
fn rates_are_checked() {
    let second = Duration::from_secs(1);
    for (requests, period, burst, expected) in [
        (0, second, 1, Err(RateError::Rate)),
        (u32::MAX, second, 1, Err(RateError::Rate)),
        (1, Duration::ZERO, 1, Err(RateError::Period)),
        (1, Duration::from_secs(86_401), 1, Err(RateError::Period)),
        (1, second, 0, Err(RateError::Burst)),
        (1, second, 86_401, Err(RateError::Burst)),
        (1, second, 86_400, Ok(())),
        (1_000_000_000, second, u32::MAX, Ok(())),
    ] {
        assert_eq!(
            TokenRate::new(requests, period, burst).map(|_| ()),
            expected,
            "{requests} {period:?} {burst}"
        );
    }
}

#[test]
fn debts_go_on_in_another_table() {
    const SECOND: u64 = SECOND_NS;
    let rate = TokenRate::new(1, Duration::from_secs(1), 3).unwrap();
    let (before, after) = (RateLimit::new(rate, 10), RateLimit::new(rate, 20));
    for key in [1, 1, 1, 2] {
        assert_eq!(before.try_take(key, 100 * SECOND), Ok(0));
    }
    let mut debts = before.debts(101 * SECOND);
    debts.sort_by_key(|debt| debt.key);
    assert_eq!(
        debts,
        [KeyDebt { key: 1, full_in_ns: 2 * SECOND, is_blocked: false }],
        "the bucket of 2 is full"
    );
    // The clock of the other table begins elsewhere.
    debts.iter().for_each(|debt| after.owe(*debt, 5 * SECOND));
    assert_eq!(after.level(1, 5 * SECOND).remaining, 1);
    assert_eq!((after.try_take(1, 5 * SECOND), after.try_take(1, 5 * SECOND)), (Ok(0), Err(SECOND)));
    let blocking = rate.with_block(Duration::from_secs(60));
    let (before, after) = (RateLimit::new(blocking, 10), RateLimit::new(blocking, 10));
    let taken = (0..4).filter(|_| before.try_take(7, 100 * SECOND).is_ok()).count();
    assert_eq!(taken, 3);
    let debts = before.debts(110 * SECOND);
    assert!(debts[0].is_blocked, "{debts:?}");
    debts.iter().for_each(|debt| after.owe(*debt, SECOND));
    assert!(after.try_take(7, 40 * SECOND).is_err(), "it is blocked for 50 s");
    assert_eq!(after.try_take(7, 60 * SECOND), Ok(0));
}
