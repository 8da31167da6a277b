//! Limits: bounds that hold, memory that does not grow, rates that are what they say.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

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
        let limit = RateLimit::new(rate, 10, 3);
        let cost_ns = SECOND_NS / u64::from(requests);
        let (mut level_ns, mut now_ns) = (cost_ns * u64::from(burst), SECOND_NS);
        for gap_ms in gaps_ms {
            now_ns += gap_ms * 1_000_000;
            level_ns = (level_ns + gap_ms * 1_000_000).min(cost_ns * u64::from(burst));
            match limit.try_take(client(1), now_ns) {
                Ok(()) => {
                    prop_assert!(level_ns >= cost_ns);
                    level_ns -= cost_ns;
                }
                Err(wait_ns) => prop_assert_eq!(level_ns + wait_ns, cost_ns),
            }
        }
    }
}

#[test]
fn a_rejected_client_learns_when_to_retry() {
    let rate = TokenRate::new(10, Duration::from_secs(1), 1).unwrap();
    let limit = RateLimit::new(rate, 10, 0);
    assert_eq!(limit.try_take(client(1), SECOND_NS), Ok(()));
    let wait_ns = limit.try_take(client(1), SECOND_NS).unwrap_err();
    assert_eq!(wait_ns, SECOND_NS / 10);
    assert!(limit.try_take(client(1), SECOND_NS + wait_ns - 1).is_err());
    assert_eq!(limit.try_take(client(1), SECOND_NS + wait_ns), Ok(()));
    assert_eq!(limit.try_take(client(2), SECOND_NS), Ok(()), "another client");
}

#[test]
fn many_clients_never_cost_one_client_its_requests() {
    let rate = TokenRate::new(1, Duration::from_secs(1), 5).unwrap();
    let limit = RateLimit::new(rate, 64, 0);
    for number in 0..100_000 {
        assert_eq!(
            limit.try_take(client(number), u64::from(number)),
            Ok(()),
            "the first request of {number}"
        );
    }
}

#[test]
fn a_busy_client_stays_limited_among_quiet_ones() {
    let rate = TokenRate::new(1, Duration::from_secs(1), 20).unwrap();
    let limit = RateLimit::new(rate, 512, 0);
    let taken = (0..10_000_u32)
        .filter(|&step| {
            let _ = limit.try_take(client(1_000 + step), SECOND_NS);
            limit.try_take(client(1), SECOND_NS).is_ok()
        })
        .count();
    assert_eq!(taken, 20, "its empty bucket never gives way to the fuller ones of others");
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
