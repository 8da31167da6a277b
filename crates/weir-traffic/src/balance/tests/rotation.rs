//! Round robin: shares, smoothness, absences, changes.

use proptest::prelude::*;

use super::*;

const ROUND_ROBIN: Policy = Policy::RoundRobin;

proptest! {
    /// After any number of requests, no two servers are further apart, each by its weight, than by one request of each: the bound of
    /// start-time fair queueing (Goyal, Vin, Cheng 1996, theorem 1).
    #[test]
    fn shares_are_in_proportion_at_every_moment(
        weights in prop::collection::vec(1_u32..=WEIGHTS_MAX, 1..8),
        visits in 1..500_usize,
    ) {
        let mut upstream = TestBalancer::new(&ROUND_ROBIN, &weights);
        let mut counts = vec![0_u32; weights.len()];
        for visit in 1..=visits {
            counts[upstream.visit()] += 1;
            let parts = || counts.iter().zip(&weights).map(|(&count, &weight)| (f64::from(count), f64::from(weight)));
            for (one, weight) in parts() {
                for (other, other_weight) in parts() {
                    let apart = one / weight - other / other_weight;
                    let bound = 1.0 / weight + 1.0 / other_weight;
                    prop_assert!(apart <= bound + 1e-6, "{counts:?} after {visit}");
                }
            }
        }
    }

    /// While some servers are away, the others share in proportion to their weights, none more than another
    /// for its place in the list.
    #[test]
    fn the_share_of_absent_servers_goes_to_all_others(
        weights in prop::collection::vec(1_u32..=WEIGHTS_MAX, 2..8),
        absent in prop::collection::vec(any::<bool>(), 8),
    ) {
        prop_assume!((0..weights.len()).any(|id| !absent[id]));
        let mut upstream = TestBalancer::new(&ROUND_ROBIN, &weights);
        upstream.counts(10);
        for (state, _) in upstream.balancer.states().iter().zip(&absent).filter(|(_, absent)| **absent) {
            state.set_health(Health::Down);
        }
        let counts = upstream.counts(300);
        let total: u32 = weights.iter().enumerate().filter(|(id, _)| !absent[*id]).map(|(_, weight)| weight).sum();
        for (id, &weight) in weights.iter().enumerate() {
            let due = if absent[id] { 0.0 } else { 300.0 * f64::from(weight) / f64::from(total) };
            prop_assert!((counts[id] as f64 - due).abs() < 3.0, "{counts:?}");
        }
    }
}

const WEIGHTS_MAX: u32 = crate::server::WEIGHT_MAX;

#[test]
fn heavy_servers_are_interleaved() {
    let mut upstream = TestBalancer::new(&ROUND_ROBIN, &[5, 1, 1]);
    let visits: Vec<usize> = (0..70).map(|_| upstream.visit()).collect();
    let longest = visits.chunk_by(|a, b| a == b).map(<[usize]>::len).max();
    assert!(longest <= Some(4), "{visits:?}");
}

#[test]
fn a_server_that_returns_does_not_make_up_for_its_absence() {
    let mut upstream = TestBalancer::new(&ROUND_ROBIN, &[1, 1, 1]);
    upstream.state(0).set_health(Health::Down);
    upstream.counts(10_000);
    upstream.state(0).set_health(Health::Up);
    let counts = upstream.counts(30);
    assert!((10..=11).contains(&counts[0]), "{counts:?}");
}

/// The first of fifty visits after the return of one server of fifty, over many balancers: with most of them it would be 0 if a server
/// that was away came next, and all would send it a request at once.
#[test]
fn many_balancers_do_not_give_a_server_that_returns_their_next_request() {
    for policy in [Policy::RoundRobin, Policy::LeastRequests] {
        let mut firsts = [0_u32; 5];
        for seed in 0..500_u64 {
            let states: Vec<_> = (0..50).map(|_| Arc::new(ServerState::new(1, 0))).collect();
            let member = |(id, state): (usize, &Arc<ServerState>)| {
                BalancerMember::new(&id.to_string(), Arc::clone(state))
            };
            let members = states.iter().enumerate().map(member).collect();
            let balancer = Balancer::new(&policy, members, crate::hash::mix(seed));
            let visit = || match balancer.choose(&Pick {
                hash: None,
                excluded: Excluded::NONE,
                random: 0,
                now_ms: 0,
            }) {
                BalancerChoice::Server(server) => {
                    balancer.release(server);
                    server.index()
                }
                choice => panic!("{choice:?}"),
            };
            states[7].set_health(Health::Down);
            for _ in 0..200 {
                visit();
            }
            states[7].set_health(Health::Up);
            let first = (0..=50).position(|_| visit() == 7).expect("it has its turn within a round");
            firsts[first.min(49) / 10] += 1;
        }
        assert!(firsts.iter().all(|count| (60..=140).contains(count)), "{}: {firsts:?}", policy.name());
    }
}

/// A step of a slow start cuts the turn of its server to the new, shorter round: if all were cut to the end of it, a thousand balancers
/// would come there together.
#[test]
fn the_steps_of_a_slow_start_do_not_gather_balancers() {
    let mut lasts = [0_u32; 4];
    for seed in 0..400_u64 {
        let member = |id: u32| BalancerMember::new(&id.to_string(), Arc::new(ServerState::new(1, 0)));
        let balancer = Balancer::new(&ROUND_ROBIN, (0..40).map(member).collect(), crate::hash::mix(seed));
        let pick = Pick { hash: None, excluded: Excluded::NONE, random: 0, now_ms: 0 };
        let visit = || match balancer.choose(&pick) {
            BalancerChoice::Server(server) => server.index(),
            choice => panic!("{choice:?}"),
        };
        let returned = &balancer.states()[0];
        returned.set_health(Health::Down);
        for _ in 0..80 {
            visit();
        }
        returned.set_ramp(1);
        returned.set_health(Health::Up);
        for step in 1..=8 {
            assert_ne!((step, visit()), (1, 0), "with a small share it does not come first");
            returned.set_ramp(crate::server::RAMP_FULL * step / 8);
        }
        let next = (0..=40).position(|_| visit() == 0).expect("it has its turn within a round");
        lasts[next.min(39) / 10] += 1;
    }
    assert!(lasts.iter().all(|count| (40..=180).contains(count)), "{lasts:?}");
}

#[test]
fn a_changed_weight_counts_at_once() {
    let mut upstream = TestBalancer::new(&ROUND_ROBIN, &[1, 1]);
    upstream.counts(101);
    upstream.state(1).set_weight(9);
    let counts = upstream.counts(100);
    assert!(counts[0].abs_diff(10) <= 1, "{counts:?}");
    upstream.state(1).set_weight(1);
    upstream.state(0).set_weight(256);
    upstream.state(1).set_ramp(1);
    upstream.counts(3);
    upstream.state(1).set_ramp(crate::server::RAMP_FULL);
    upstream.state(1).set_weight(256);
    let counts = upstream.counts(100);
    assert!(counts[1].abs_diff(50) <= 1, "{counts:?}: no waiting for the end of a long stride");
}

#[test]
fn a_server_is_not_forgotten_by_a_clock_of_another_age() {
    let mut upstream = TestBalancer::new(&ROUND_ROBIN, &[1, 1]);
    // As far ahead of the clock as a turn can seem, and as far behind.
    for turn in [u64::MAX / 2, u64::MAX / 2 + 2, u64::MAX - (1 << 50), 1 << 50] {
        upstream.state(0).turn().store(turn, Ordering::Relaxed);
        assert!([upstream.visit(), upstream.visit()].contains(&0), "{turn}: it has its turn within a round");
        let counts = upstream.counts(100);
        assert!(counts[0].abs_diff(50) <= 1, "{turn}: {counts:?}");
    }
}

#[test]
fn seeds_decide_which_server_is_first() {
    let mut firsts = [0; 4];
    for seed in 0..400_u64 {
        let members =
            (0..4).map(|id| BalancerMember::new(&id.to_string(), Arc::new(ServerState::new(1, 0)))).collect();
        let balancer = Balancer::new(&ROUND_ROBIN, members, crate::hash::mix(seed));
        match balancer.choose(&Pick { hash: None, excluded: Excluded::NONE, random: 0, now_ms: 0 }) {
            BalancerChoice::Server(server) => firsts[server.index()] += 1,
            choice => panic!("{choice:?}"),
        }
    }
    assert!(firsts.iter().all(|first| (60..=140).contains(first)), "{firsts:?}");
}

/// The next in turn is where a retry goes: were it the neighbour in the list, it would meet the same rack, power supply or rollout.
#[test]
fn a_retry_seldom_goes_to_the_neighbour_in_the_list() {
    for policy in [Policy::RoundRobin, Policy::LeastRequests] {
        let (mut neighbours, tries) = (0, 500);
        for seed in 0..tries {
            let member = |id: u32| BalancerMember::new(&id.to_string(), Arc::new(ServerState::new(1, 0)));
            let balancer = Balancer::new(&policy, (0..50).map(member).collect(), crate::hash::mix(seed));
            let visit = |excluded: &Excluded| match balancer.choose(&Pick {
                hash: None,
                excluded,
                random: 0,
                now_ms: 0,
            }) {
                BalancerChoice::Server(server) => {
                    balancer.release(server);
                    server
                }
                choice => panic!("{choice:?}"),
            };
            let first = visit(Excluded::NONE);
            let mut failed = Excluded::new();
            failed.insert(first);
            neighbours += usize::from(visit(&failed).index() == (first.index() + 1) % 50);
        }
        // By chance one of 49: ten.
        assert!(neighbours < 30, "{}: {neighbours} of {tries}", policy.name());
    }
}

/// Two threads on one rotation: together they keep the shares that one alone keeps.
#[test]
fn workers_share_one_rotation() {
    let upstream = TestBalancer::new(&ROUND_ROBIN, &[1, 2, 5]);
    let counts: [AtomicU32; 3] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..4_000 {
                    match upstream.balancer.choose(&Pick {
                        hash: None,
                        excluded: Excluded::NONE,
                        random: 0,
                        now_ms: 0,
                    }) {
                        BalancerChoice::Server(server) => {
                            counts[server.index()].fetch_add(1, Ordering::Relaxed);
                            upstream.balancer.release(server);
                        }
                        choice => panic!("{choice:?}"),
                    }
                }
            });
        }
    });
    let counts = counts.map(AtomicU32::into_inner);
    for (count, due) in counts.iter().zip([1_000, 2_000, 5_000]) {
        assert!(count.abs_diff(due) <= 20, "{counts:?}");
    }
}
