//! Invariants: how many are out, for how long, and that every server comes back.

use proptest::prelude::*;

use super::*;
use crate::server::{Health, Mode};

#[derive(Debug, Clone)]
enum OutlierStep {
    Request { server: usize, succeeds: bool },
    Wait { millis: u64 },
    Health { server: usize, up: bool },
    Mode { server: usize, serving: bool },
    Compare { bad: usize },
}

fn step(servers: usize) -> impl Strategy<Value = OutlierStep> {
    let server = || 0..servers;
    prop_oneof![
        6 => (server(), prop::bool::weighted(0.3)).prop_map(|(server, succeeds)| OutlierStep::Request { server, succeeds }),
        2 => (0_u64..15_000).prop_map(|millis| OutlierStep::Wait { millis }),
        1 => (server(), any::<bool>()).prop_map(|(server, up)| OutlierStep::Health { server, up }),
        1 => (server(), any::<bool>()).prop_map(|(server, serving)| OutlierStep::Mode { server, serving }),
        1 => server().prop_map(|bad| OutlierStep::Compare { bad }),
    ]
}

fn case() -> impl Strategy<Value = (usize, u32, Vec<OutlierStep>)> {
    (2_usize..8)
        .prop_flat_map(|servers| (Just(servers), 1_u32..=100, prop::collection::vec(step(servers), 1..150)))
}

fn play(upstream: &mut TestUpstream, step: &OutlierStep) {
    match *step {
        OutlierStep::Request { server, succeeds } => {
            upstream.request(server, succeeds);
        }
        OutlierStep::Wait { millis } => upstream.wait(millis as f64 / 1000.0),
        OutlierStep::Health { server, up } => {
            upstream.states[server].set_health(if up { Health::Up } else { Health::Down });
            upstream.book.advance(upstream.now_ms);
        }
        OutlierStep::Mode { server, serving } => {
            upstream.states[server].set_mode(if serving { Mode::Serving } else { Mode::Draining });
            upstream.book.advance(upstream.now_ms);
        }
        OutlierStep::Compare { bad } => {
            let mut windows = vec![
                OutlierWindow { requests: 50, failures: 0, latency_micros: None };
                upstream.states.len()
            ];
            windows[bad].failures = 50;
            upstream.book.compare(&windows, upstream.now_ms, upstream.now_ms);
        }
    }
}

proptest! {
    #[test]
    fn never_too_many_never_the_last_and_all_come_back((servers, percent, steps) in case()) {
        let rules = OutlierRules { servers_max_percent: percent, ..outlier_rules() };
        let mut upstream = TestUpstream::new(EjectionRules::Outliers(rules), servers);
        let out_max = (servers * percent as usize / 100).max(1);
        for step in &steps {
            play(&mut upstream, step);
            let out = upstream.standing().matches('?').count()
                + upstream.states.iter().filter(|state| state.is_ejected()).count();
            prop_assert!(out <= out_max, "{out} of {servers} out after {step:?}");
            let would_serve = |state: &Arc<ServerState>| state.health() == Health::Up && state.mode() == Mode::Serving;
            let any_left = upstream.states.iter().any(|state| state.is_eligible());
            prop_assert!(any_left || !upstream.states.iter().any(would_serve), "no server is left after {step:?}");
            for change in upstream.changes() {
                if let OutlierChange::Ejected { for_ms, times, .. } = change {
                    prop_assert_eq!(for_ms, (10_000 * u64::from(times)).min(35_000));
                }
            }
        }
        // Every ejected server comes back when requests succeed, by time alone and without other events.
        for state in &upstream.states {
            state.set_health(Health::Up);
            state.set_mode(Mode::Serving);
        }
        upstream.wait(36.0);
        prop_assert!(upstream.states.iter().all(|state| state.is_eligible()), "{}", upstream.standing());
        for server in 0..servers {
            prop_assert!(upstream.request(server, true));
        }
        prop_assert!(upstream.book.is_quiet() && upstream.standing() == "+".repeat(servers));
    }

    /// In panic, and only then, servers get requests that are down or ejected.
    #[test]
    fn panic_follows_its_definition((servers, percent, steps) in case()) {
        let mut upstream = TestUpstream::with(Some(EjectionRules::Outliers(outlier_rules())), Some(percent), servers, 0);
        for step in &steps {
            play(&mut upstream, step);
            let wanted: Vec<_> = upstream.states.iter().filter(|state| state.mode() == Mode::Serving).collect();
            let usable = wanted.iter().filter(|state| state.health() == Health::Up && !state.is_ejected()).count();
            let too_few = usable * 100 < wanted.len() * percent as usize;
            // A trial that has begun is taken in at the next change.
            upstream.book.advance(upstream.now_ms);
            prop_assert_eq!(upstream.book.is_in_panic(), too_few, "after {:?}", step);
            prop_assert!(upstream.states.iter().all(|state| state.is_in_panic() == too_few));
            prop_assert!(!too_few || wanted.iter().all(|state| state.is_eligible()));
        }
    }
}
