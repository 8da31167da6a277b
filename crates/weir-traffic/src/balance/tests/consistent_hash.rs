//! Consistent hash: the same server for the same key, minimal movement, shares by weight, bounded load.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn policy(load_factor: LoadFactor) -> Policy {
    Policy::ConsistentHash { key: HashKey::Path, load_factor }
}

fn unbounded() -> Policy {
    policy(LoadFactor::UNBOUNDED)
}

fn key(number: u64) -> Option<u64> {
    Some(hash_bytes(&number.to_le_bytes()))
}

/// Where each of `keys` keys goes when nothing else is in flight.
fn homes(upstream: &mut TestBalancer, keys: u64) -> Vec<usize> {
    (0..keys)
        .map(|number| match upstream.choose_for(key(number)) {
            BalancerChoice::Server(server) => {
                upstream.balancer.release(server);
                server.index()
            }
            choice => panic!("{choice:?}"),
        })
        .collect()
}

/// How much of `total` requests a server of this weight may be off by chance.
fn tolerance(total: f64, share: f64) -> f64 {
    5.0 * (total * share * (1.0 - share)).sqrt() + 1.0
}

#[test]
fn keys_are_where_they_were_in_every_version() {
    let mut upstream = TestBalancer::new(&unbounded(), &[1, 1, 1, 2]);
    assert_eq!(homes(&mut upstream, 16), KNOWN_HOMES, "a change here moves every client of every user");
}

/// Computed apart from this code: XXH64 by its specification, the logarithm in floating point.
const KNOWN_HOMES: [usize; 16] = [1, 0, 2, 2, 2, 1, 2, 2, 2, 3, 3, 0, 1, 3, 3, 3];

proptest! {
    #[test]
    fn keys_return_to_their_server_after_any_changes(numbers in prop::collection::vec(0..50_u64, 1..100)) {
        let mut upstream = TestBalancer::new(&unbounded(), &[1, 3, 2]);
        let mut known = HashMap::new();
        for number in numbers {
            let choice = upstream.choose_for(key(number));
            prop_assert_eq!(*known.entry(number).or_insert(choice), choice);
        }
    }

    /// When a server goes, its keys alone move, to all others by weight; when it returns, exactly they come
    /// back.
    #[test]
    fn only_the_lost_keys_move(weights in prop::collection::vec(1..=8_u32, 2..8), lost in any::<usize>()) {
        let lost = lost % weights.len();
        let mut upstream = TestBalancer::new(&unbounded(), &weights);
        let before = homes(&mut upstream, 1_000);
        upstream.state(lost).set_health(Health::Down);
        let during = homes(&mut upstream, 1_000);
        upstream.state(lost).set_health(Health::Up);
        let after = homes(&mut upstream, 1_000);
        prop_assert_eq!(&before, &after);

        let mut gained = vec![0; weights.len()];
        let mut moved = 0;
        for (old, new) in before.iter().zip(&during) {
            prop_assert!(old == new || *old == lost, "a key moved without need");
            if old != new {
                gained[*new] += 1;
                moved += 1;
            }
        }
        let total: u32 = weights.iter().sum::<u32>() - weights[lost];
        for (id, &weight) in weights.iter().enumerate().filter(|(id, _)| *id != lost) {
            let share = f64::from(weight) / f64::from(total);
            let off = (f64::from(gained[id]) - f64::from(moved) * share).abs();
            prop_assert!(off <= tolerance(f64::from(moved), share), "{gained:?} of {moved}");
        }
    }

    /// A raised weight draws keys to its server and moves no other.
    #[test]
    fn a_changed_weight_moves_the_difference(weights in prop::collection::vec(1..=8_u32, 2..6), more in 1..8_u32) {
        let mut upstream = TestBalancer::new(&unbounded(), &weights);
        let before = homes(&mut upstream, 500);
        upstream.state(0).set_weight(weights[0] + more);
        let after = homes(&mut upstream, 500);
        prop_assert!(before.iter().zip(&after).all(|(old, new)| old == new || *new == 0));
    }

    /// The order in which the config lists the servers does not matter: all nodes agree.
    #[test]
    fn the_order_of_the_servers_does_not_matter(
        weights in prop::collection::vec(1..=8_u32, 1..8),
        turned in any::<usize>(),
    ) {
        let names: Vec<String> = (0..weights.len()).map(|id| format!("10.0.0.{id}:80")).collect();
        let balancer = |shift: usize| {
            let order = (0..weights.len()).map(|id| (id + shift) % weights.len());
            let members = order.map(|id| BalancerMember::new(&names[id], Arc::new(ServerState::new(weights[id], 0))));
            Balancer::new(&unbounded(), members.collect(), 0)
        };
        let shift = turned % weights.len();
        let (straight, shifted) = (balancer(0), balancer(shift));
        for number in 0..100 {
            let pick = Pick { hash: key(number), excluded: Excluded::NONE, random: 0, now_ms: 0 };
            match (straight.choose(&pick), shifted.choose(&pick)) {
                (BalancerChoice::Server(a), BalancerChoice::Server(b)) => {
                    prop_assert_eq!(a.index(), (b.index() + shift) % weights.len());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// At no moment has a server more than its share of all requests in flight times the load factor, rounded
    /// up.
    #[test]
    fn the_bound_holds(
        weights in prop::collection::vec(1..=8_u32, 1..8),
        percent in 100..=300_u32,
        steps in prop::collection::vec((0..8_u64, any::<bool>()), 1..200),
    ) {
        let mut upstream = TestBalancer::new(&policy(LoadFactor::from_percent(percent).unwrap()), &weights);
        let total_weight: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut running = Vec::new();
        for (number, finish) in steps {
            // A request ends only from the server that has most, so that ending never pushes another above
            // its bound.
            if finish && let Some(at) = fullest(&upstream, &running) {
                upstream.balancer.release(running.swap_remove(at));
                continue;
            }
            // Few keys: without the bound they would pile up.
            let BalancerChoice::Server(server) = upstream.choose_for(key(number)) else { panic!("no limit is set") };
            running.push(server);
            let all = running.len() as u64;
            let on_it = u64::from(upstream.state(server.index()).in_flight());
            let allowed = u64::from(percent) * all * u64::from(weights[server.index()]);
            prop_assert!(on_it <= allowed.div_ceil(100 * total_weight), "{on_it} of {all} on {server:?}");
        }
    }
}

/// The index of a request on the server with the most.
fn fullest(upstream: &TestBalancer, running: &[ServerId]) -> Option<usize> {
    (0..running.len()).max_by_key(|&at| upstream.state(running[at].index()).in_flight())
}

#[test]
fn shares_follow_the_weights() {
    for weights in [&[1, 1, 1][..], &[1, 2, 3, 4], &[256, 1, 128], &[1; 40]] {
        let mut upstream = TestBalancer::new(&unbounded(), weights);
        let mut counts = vec![0_u32; weights.len()];
        homes(&mut upstream, 20_000).into_iter().for_each(|home| counts[home] += 1);
        let total: u32 = weights.iter().sum();
        for (&count, &weight) in counts.iter().zip(weights) {
            let share = f64::from(weight) / f64::from(total);
            let off = (f64::from(count) - 20_000.0 * share).abs();
            assert!(off <= tolerance(20_000.0, share), "{weights:?}: {counts:?}");
        }
    }
}

#[test]
fn the_surplus_of_a_hot_key_goes_to_one_server_after_the_other() {
    let mut upstream = TestBalancer::new(&policy(LoadFactor::from_percent(150).unwrap()), &[1; 4]);
    for _ in 0..400 {
        assert!(matches!(upstream.choose_for(key(1)), BalancerChoice::Server(_)));
    }
    let mut loads: Vec<u32> = (0..4).map(|id| upstream.state(id).in_flight()).collect();
    loads.sort_unstable();
    assert_eq!(
        loads,
        [0, 100, 150, 150],
        "its own server and the next are at the bound, the third has the rest"
    );
}

#[test]
fn a_request_without_key_goes_to_the_least_loaded() {
    let mut upstream = TestBalancer::new(&unbounded(), &[1; 3]);
    let mut taken: Vec<usize> = (0..3).map(|_| upstream.take()).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2]);
}

#[test]
fn above_the_bound_is_better_than_not_at_all() {
    // Server 1 alone has room, and is above its bound.
    let mut upstream = TestBalancer::from_policy(
        &policy(LoadFactor::default()),
        [ServerState::new(255, 1), ServerState::new(1, 0)],
    );
    for _ in 0..10 {
        assert!(matches!(upstream.choose_for(key(1)), BalancerChoice::Server(_)));
    }
    assert_eq!(upstream.state(1).in_flight(), 9);
}

#[test]
fn load_factors_are_checked() {
    for (percent, fits) in
        [(0, false), (99, false), (100, true), (125, true), (10_000, true), (10_001, false)]
    {
        assert_eq!(LoadFactor::from_percent(percent).is_ok(), fits, "{percent}");
    }
    assert_eq!(LoadFactor::default().percent(), Some(125));
    assert_eq!(LoadFactor::UNBOUNDED.percent(), None);
}
