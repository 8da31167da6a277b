//! Least requests: never a busier server than need be, and an even rotation among equals.

use proptest::prelude::*;

use super::*;

const LEAST_REQUESTS: Policy = Policy::LeastRequests;

#[derive(Debug, Clone)]
enum LoadStep {
    Choose,
    /// Ends one request on this server (modulo their number), if there is one.
    Finish(usize),
    SetWeight(usize, u32),
}

fn step() -> impl Strategy<Value = LoadStep> {
    prop_oneof![
        4 => Just(LoadStep::Choose),
        2 => any::<usize>().prop_map(LoadStep::Finish),
        1 => (any::<usize>(), 0..=8_u32).prop_map(|(id, weight)| LoadStep::SetWeight(id, weight)),
    ]
}

proptest! {
    /// Whatever happened before, no eligible server had strictly fewer requests for its weight than the
    /// chosen one.
    #[test]
    fn no_client_had_less(
        servers in prop::collection::vec((1..=8_u32, 0..6_u32), 1..8),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let states = servers.iter().map(|&(weight, max_requests)| ServerState::new(weight, max_requests));
        let mut upstream = TestBalancer::from_policy(&LEAST_REQUESTS, states);
        for step in steps {
            match step {
                LoadStep::Choose => {
                    let before: Vec<u32> = upstream.balancer.states().iter().map(|state| state.in_flight()).collect();
                    let open: Vec<usize> = (0..servers.len())
                        .filter(|&id| upstream.state(id).is_eligible() && !upstream.state(id).is_full())
                        .collect();
                    match upstream.choose() {
                        BalancerChoice::Server(chosen) => {
                            let load = |id: usize| f64::from(before[id]) / f64::from(upstream.state(id).weight());
                            prop_assert!(open.contains(&chosen.index()));
                            prop_assert!(open.iter().all(|&id| load(id) >= load(chosen.index())), "{before:?}");
                        }
                        other => prop_assert!(open.is_empty(), "{other:?}"),
                    }
                }
                LoadStep::Finish(id) => {
                    let state = upstream.state(id % servers.len());
                    if state.in_flight() > 0 {
                        state.release();
                    }
                }
                LoadStep::SetWeight(id, weight) => upstream.state(id % servers.len()).set_weight(weight),
            }
        }
    }

    /// With one request at a time all servers are always equal: then they share by weight.
    #[test]
    fn idle_servers_share_by_weight(weights in prop::collection::vec(1_u32..=256, 1..8)) {
        let mut upstream = TestBalancer::new(&LEAST_REQUESTS, &weights);
        let counts = upstream.counts(500);
        let total: u32 = weights.iter().sum();
        for (count, &weight) in counts.iter().zip(&weights) {
            let due = 500.0 * f64::from(weight) / f64::from(total);
            prop_assert!((*count as f64 - due).abs() < 2.0, "{counts:?}");
        }
    }

    /// Requests that stay fill the servers in proportion to their weights.
    #[test]
    fn busy_servers_are_filled_by_weight(weights in prop::collection::vec(1_u32..=16, 1..8), rounds in 1..20_u32) {
        let mut upstream = TestBalancer::new(&LEAST_REQUESTS, &weights);
        let total: u32 = weights.iter().sum();
        for _ in 0..total * rounds {
            upstream.take();
        }
        for (id, &weight) in weights.iter().enumerate() {
            prop_assert_eq!(upstream.state(id).in_flight(), weight * rounds);
        }
    }
}

/// One server always busy: the turns it misses go to all others alike, not to the one behind it.
#[test]
fn the_turns_of_a_busy_server_are_spread() {
    let mut upstream = TestBalancer::new(&LEAST_REQUESTS, &[1; 4]);
    assert!(upstream.state(1).try_acquire());
    assert_eq!(upstream.counts(300), [100, 0, 100, 100]);
}

/// Forced choices (a server with strictly less) do not disturb the rotation among the others.
#[test]
fn equals_rotate_also_between_forced_choices() {
    let mut upstream = TestBalancer::new(&LEAST_REQUESTS, &[1; 3]);
    let mut counts = [0_u32; 3];
    for id in 0..3 {
        assert!(upstream.state(id).try_acquire());
    }
    for _ in 0..200 {
        upstream.state(0).release();
        assert_eq!(upstream.take(), 0, "it alone is idle");
        // All have one: the next goes to the server that was passed over longest.
        counts[upstream.visit()] += 1;
    }
    assert!(counts[1].abs_diff(counts[2]) <= 1, "{counts:?}");
}

/// Two threads choose between two idle servers at the same moment: each gets one of its own, every time.
#[test]
fn two_workers_do_not_take_the_same_idle_server() {
    const ROUNDS: u32 = 20_000;
    let upstream = TestBalancer::new(&LEAST_REQUESTS, &[1; 2]);
    let arrived = AtomicU32::new(0);
    // Threads that wait in the kernel do not wake at the same moment; these spin.
    let meet = |times: u32| {
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < 2 * times {
            std::thread::yield_now();
        }
    };
    let unfair = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    meet(3 * round + 1);
                    let choice = upstream.balancer.choose(&Pick {
                        hash: None,
                        excluded: Excluded::NONE,
                        random: 0,
                        now_ms: 0,
                    });
                    meet(3 * round + 2);
                    // Counted, not asserted: a thread that panics would leave the other one waiting.
                    let is_alone = |server| upstream.balancer.state(server).in_flight() == 1;
                    let is_fair = matches!(choice, BalancerChoice::Server(server) if is_alone(server));
                    unfair.fetch_add(u32::from(!is_fair), Ordering::Relaxed);
                    meet(3 * round + 3);
                    if let BalancerChoice::Server(server) = choice {
                        upstream.balancer.release(server);
                    }
                }
            });
        }
    });
    assert_eq!(unfair.into_inner(), 0);
}
