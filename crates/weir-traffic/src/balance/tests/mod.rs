//! The balancers: what holds for every policy; the tests of each policy have a file of their own.

mod rotation;
mod least_requests;
mod peak_ewma;
mod chance;
mod consistent_hash;
mod map_based_hash;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::server::{EjectionState, Eligibility, Health, Mode};

/// An upstream under test: server `i` is called `server-i`.
struct TestBalancer {
    balancer: Balancer,
    random: draw::SplitMix64,
}

impl TestBalancer {
    fn new(policy: &Policy, weights: &[u32]) -> TestBalancer {
        TestBalancer::from_policy(policy, weights.iter().map(|&weight| ServerState::new(weight, 0)))
    }

    fn from_policy(policy: &Policy, states: impl IntoIterator<Item = ServerState>) -> TestBalancer {
        let members = states
            .into_iter()
            .enumerate()
            .map(|(id, state)| BalancerMember::new(&format!("server-{id}"), Arc::new(state)))
            .collect();
        TestBalancer { balancer: Balancer::new(policy, members, 0), random: draw::SplitMix64::new(1) }
    }

    fn state(&self, id: usize) -> &ServerState {
        &self.balancer.states()[id]
    }

    fn choose(&mut self) -> BalancerChoice {
        self.choose_for(None)
    }

    fn choose_for(&mut self, hash: Option<u64>) -> BalancerChoice {
        let random = self.random.next();
        self.balancer.choose(&Pick { hash, excluded: Excluded::NONE, random, now_ms: 0 })
    }

    /// Chooses a server and keeps the slot.
    fn take(&mut self) -> usize {
        match self.choose() {
            BalancerChoice::Server(server) => server.index(),
            choice => panic!("{choice:?}"),
        }
    }

    /// Chooses a server and gives the slot back at once.
    fn visit(&mut self) -> usize {
        let server = self.take();
        self.state(server).release();
        server
    }

    /// How often each server is chosen in `visits` requests one after the other.
    fn counts(&mut self, visits: usize) -> Vec<usize> {
        let mut counts = vec![0; self.balancer.states().len()];
        for _ in 0..visits {
            counts[self.visit()] += 1;
        }
        counts
    }
}

fn policies() -> [Policy; 7] {
    let load_factor = LoadFactor::default();
    [
        Policy::RoundRobin,
        Policy::LeastRequests,
        Policy::PeakEwma,
        Policy::PowerOfTwo,
        Policy::Random,
        Policy::ConsistentHash { key: HashKey::Path, load_factor },
        Policy::MapBasedHash { key: HashKey::Path },
    ]
}

/// Bound or not, one request has the trial; the others go elsewhere, and no slot is lost on the way.
#[test]
fn a_server_on_trial_gets_one_request() {
    for policy in policies() {
        let mut upstream = TestBalancer::new(&policy, &[1, 1]);
        upstream.state(0).set_ejection(EjectionState::OnTrial);
        let on_trial = (0..100).filter(|_| upstream.visit() == 0).count();
        assert_eq!((on_trial, upstream.state(0).is_ejected()), (1, true), "{policy:?}");

        upstream.state(0).set_ejection(EjectionState::OnTrial);
        let own = |upstream: &TestBalancer| upstream.balancer.choose_bound(ServerId(0), Excluded::NONE);
        assert_eq!(own(&upstream), Some(BalancerChoice::Server(ServerId(0))), "{policy:?}");
        assert_eq!((own(&upstream), upstream.visit()), (None, 1), "{policy:?}");
        upstream.balancer.release(ServerId(0));
        assert!(upstream.balancer.states().iter().all(|state| state.in_flight() == 0), "{policy:?}");
    }
}

#[test]
fn every_policy_has_its_name() {
    let mut names = policies().map(|policy| policy.name());
    let mut known: Vec<_> = Policy::NAMES.to_vec();
    assert_eq!(known[0], Policy::default().name());
    names.sort_unstable();
    known.sort_unstable();
    assert_eq!(names[..], known);
}

#[test]
fn only_available_servers_are_chosen() {
    for policy in policies() {
        let mut upstream = TestBalancer::new(&policy, &[1; 6]);
        upstream.state(0).set_health(Health::Down);
        upstream.state(1).set_mode(Mode::Draining);
        upstream.state(2).set_mode(Mode::Maintenance);
        upstream.state(3).set_weight(0);
        upstream.state(4).set_max_requests(1);
        assert!(upstream.state(4).try_acquire());
        for key in 0..100 {
            assert_eq!(upstream.choose_for(Some(key)), BalancerChoice::Server(ServerId(5)), "{policy:?}");
            upstream.state(5).release();
        }
        upstream.state(5).set_health(Health::Down);
        assert_eq!(upstream.choose_for(Some(1)), BalancerChoice::AllFull, "{policy:?}: 4 is full");
        upstream.state(4).set_health(Health::Down);
        assert_eq!(upstream.choose_for(Some(1)), BalancerChoice::NoneEligible, "{policy:?}");
        upstream.state(2).set_mode(Mode::Serving);
        assert_eq!(upstream.choose_for(Some(1)), BalancerChoice::Server(ServerId(2)), "{policy:?}");
    }
}

#[test]
fn an_upstream_without_servers_has_none_eligible() {
    for policy in policies() {
        assert_eq!(
            TestBalancer::new(&policy, &[]).choose_for(Some(1)),
            BalancerChoice::NoneEligible,
            "{policy:?}"
        );
    }
}

#[test]
fn excluded_servers_are_not_chosen() {
    for policy in policies() {
        let upstream = TestBalancer::new(&policy, &[1, 1, 1]);
        let mut excluded = Excluded::new();
        for left in (0..3).rev() {
            let pick = Pick { hash: Some(7), excluded: &excluded, random: 7, now_ms: 0 };
            let BalancerChoice::Server(server) = upstream.balancer.choose(&pick) else {
                panic!("{policy:?}: {left} servers are left")
            };
            assert!(!excluded.contains(server), "{policy:?}");
            upstream.balancer.release(server);
            excluded.insert(server);
        }
        let pick = Pick { hash: Some(7), excluded: &excluded, random: 7, now_ms: 0 };
        assert_eq!(upstream.balancer.choose(&pick), BalancerChoice::NoneEligible, "{policy:?}");
    }
}

#[test]
fn avoided_servers_are_chosen_last() {
    for policy in policies() {
        let upstream = TestBalancer::new(&policy, &[1, 1, 1]);
        let choose = |excluded: &Excluded| {
            upstream.balancer.choose(&Pick { hash: Some(7), excluded, random: 7, now_ms: 0 })
        };
        let mut excluded = Excluded::new();
        excluded.avoid(ServerId(0));
        excluded.insert(ServerId(1));
        assert_eq!(choose(&excluded), BalancerChoice::Server(ServerId(2)), "{policy:?}");
        upstream.state(2).set_max_requests(1);
        assert_eq!(choose(&excluded), BalancerChoice::AllFull, "{policy:?}: another one will be free");
        upstream.state(2).set_health(Health::Down);
        assert_eq!(choose(&excluded), BalancerChoice::Server(ServerId(0)), "{policy:?}");
        excluded.insert(ServerId(0));
        assert_eq!(choose(&excluded), BalancerChoice::NoneEligible, "{policy:?}");
    }
}

#[test]
fn servers_of_the_last_resort_serve_when_nothing_else_can() {
    let state = |max_requests| Arc::new(ServerState::new(1, max_requests));
    let members = vec![
        BalancerMember::new("ending", state(0)).in_tier(ServerTier::LastResort),
        BalancerMember::new("primary", state(0)),
        BalancerMember::new("backup", state(0)).in_tier(ServerTier::Backup),
    ];
    let balancer = Balancer::new(&Policy::RoundRobin, members, 0);
    let excluded = Excluded::new();
    let pick = Pick { hash: None, excluded: &excluded, random: 0, now_ms: 0 };
    let eligibility = || {
        let mut candidates = balancer.candidates(&pick);
        candidates.sort_by_key(|candidate| candidate.server);
        candidates.iter().map(|candidate| candidate.eligibility).collect::<Vec<_>>()
    };
    let states = balancer.states();
    assert_eq!(balancer.choose(&pick), BalancerChoice::Server(ServerId(1)));
    assert_eq!(eligibility(), [Eligibility::LastResort, Eligibility::Eligible, Eligibility::Reserve]);
    states[1].set_mode(Mode::Maintenance);
    assert_eq!(balancer.choose(&pick), BalancerChoice::Server(ServerId(2)));
    states[2].set_health(Health::Down);
    assert_eq!(balancer.choose(&pick), BalancerChoice::Server(ServerId(0)));
    assert_eq!(eligibility(), [Eligibility::Eligible, Eligibility::Maintenance, Eligibility::Down]);
    let mut failed = Excluded::new();
    failed.insert(ServerId(0));
    assert!(!balancer.has_eligible_but(&failed));
}

#[test]
fn an_upstream_without_servers_has_none_to_choose() {
    let policies = [
        Policy::RoundRobin,
        Policy::LeastRequests,
        Policy::PeakEwma,
        Policy::PowerOfTwo,
        Policy::Random,
        Policy::ConsistentHash { key: HashKey::Path, load_factor: LoadFactor::default() },
    ];
    for policy in policies {
        let balancer = Balancer::new(&policy, Vec::new(), 1);
        let excluded = Excluded::new();
        let pick = Pick { hash: Some(1), excluded: &excluded, random: 1, now_ms: 0 };
        assert_eq!(balancer.choose(&pick), BalancerChoice::NoneEligible, "{policy:?}");
        assert!(!balancer.has_eligible() && balancer.candidates(&pick).is_empty());
    }
}

#[test]
fn backups_serve_only_when_no_primary_is_eligible() {
    for policy in policies() {
        let state = |max_requests| Arc::new(ServerState::new(1, max_requests));
        let members = vec![
            BalancerMember::new("backup", state(0)).in_tier(ServerTier::Backup),
            BalancerMember::new("first", state(1)),
            BalancerMember::new("second", state(0)),
        ];
        let balancer = Balancer::new(&policy, members, 0);
        let choose =
            |excluded: &Excluded| balancer.choose(&Pick { hash: Some(3), excluded, random: 3, now_ms: 0 });

        balancer.state(ServerId(2)).set_health(Health::Down);
        assert_eq!(choose(Excluded::NONE), BalancerChoice::Server(ServerId(1)), "{policy:?}");
        assert_eq!(
            choose(Excluded::NONE),
            BalancerChoice::AllFull,
            "{policy:?}: a full primary is waited for"
        );

        let mut failed = Excluded::new();
        failed.insert(ServerId(1));
        assert_eq!(
            choose(&failed),
            BalancerChoice::Server(ServerId(0)),
            "{policy:?}: after a failed attempt"
        );
        balancer.release(ServerId(0));

        balancer.state(ServerId(1)).set_health(Health::Down);
        assert_eq!(choose(Excluded::NONE), BalancerChoice::Server(ServerId(0)), "{policy:?}");
        balancer.state(ServerId(0)).set_health(Health::Down);
        assert_eq!(choose(Excluded::NONE), BalancerChoice::NoneEligible, "{policy:?}");
    }
}

#[test]
fn backups_help_out_while_every_primary_is_full() {
    for policy in policies() {
        let state = |max_requests| Arc::new(ServerState::new(1, max_requests));
        let members = vec![
            BalancerMember::new("ending", state(0)).in_tier(ServerTier::LastResort),
            BalancerMember::new("first", state(1)),
            BalancerMember::new("second", state(1)),
            BalancerMember::new("backup", state(1)).in_tier(ServerTier::Backup),
        ];
        let balancer = Balancer::new(&policy, members, 0).overflowing(true);
        let choose =
            |excluded: &Excluded| balancer.choose(&Pick { hash: Some(3), excluded, random: 3, now_ms: 0 });
        let eligibility = || {
            let pick = Pick { hash: Some(3), excluded: Excluded::NONE, random: 3, now_ms: 0 };
            let mut candidates = balancer.candidates(&pick);
            candidates.sort_by_key(|candidate| candidate.server);
            candidates.iter().map(|candidate| candidate.eligibility).collect::<Vec<_>>()
        };
        let (ending, full) = (Eligibility::LastResort, Eligibility::Full);

        let BalancerChoice::Server(first) = choose(Excluded::NONE) else { panic!("{policy:?}") };
        assert!(matches!(first, ServerId(1 | 2)), "{policy:?}");
        assert_eq!(eligibility()[3], Eligibility::Reserve, "{policy:?}: one has room");
        assert!(matches!(choose(Excluded::NONE), BalancerChoice::Server(ServerId(1 | 2))), "{policy:?}");
        assert_eq!(eligibility(), [ending, full, full, Eligibility::Eligible], "{policy:?}");
        assert_eq!(choose(Excluded::NONE), BalancerChoice::Server(ServerId(3)), "{policy:?}");
        assert_eq!(eligibility(), [ending, full, full, full], "{policy:?}");
        assert_eq!(choose(Excluded::NONE), BalancerChoice::AllFull, "{policy:?}: the one that ends does not");

        let mut failed = Excluded::new();
        failed.insert(first);
        balancer.release(ServerId(3));
        assert_eq!(
            choose(&failed),
            BalancerChoice::Server(ServerId(3)),
            "{policy:?}: after a failed attempt"
        );
        balancer.release(ServerId(3));
        failed.insert(ServerId(3));
        assert_eq!(choose(&failed), BalancerChoice::AllFull, "{policy:?}: it has failed on the backup, too");

        balancer.state(ServerId(3)).set_mode(Mode::Draining);
        assert_eq!(choose(Excluded::NONE), BalancerChoice::AllFull, "{policy:?}: it is drained");
        balancer.release(first);
        assert_eq!(choose(Excluded::NONE), BalancerChoice::Server(first), "{policy:?}");
        let after = balancer.succeeded_by(&policy, Vec::new(), 0);
        assert!(!after.overflows, "the next config says it anew");
    }
}

/// Eight threads at once: no server ever has more than its limit, no slot is lost, and while one is free it
/// is found.
#[test]
fn limits_hold_under_concurrency() {
    for policy in policies() {
        let upstream = TestBalancer::from_policy(
            &policy,
            [1, 2, 3].map(|max_requests| ServerState::new(1, max_requests)),
        );
        let inside: [AtomicU32; 3] = Default::default();
        let served = AtomicU32::new(0);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (upstream, inside, served, barrier) = (&upstream, &inside, &served, &barrier);
                scope.spawn(move || {
                    let mut random = draw::SplitMix64::new(thread);
                    barrier.wait();
                    for _ in 0..2_000 {
                        let hash = Some(random.next());
                        let pick = Pick { hash, excluded: Excluded::NONE, random: random.next(), now_ms: 0 };
                        if let BalancerChoice::Server(server) = upstream.balancer.choose(&pick) {
                            let now = inside[server.index()].fetch_add(1, Ordering::SeqCst) + 1;
                            assert!(now <= server.0 + 1, "server {} has {now}", server.0);
                            served.fetch_add(1, Ordering::SeqCst);
                            inside[server.index()].fetch_sub(1, Ordering::SeqCst);
                            upstream.balancer.release(server);
                        }
                    }
                });
            }
        });
        assert!(upstream.balancer.states().iter().all(|state| state.in_flight() == 0), "{policy:?}");
        assert!(served.into_inner() >= 2_000, "{policy:?}");
    }
}

/// The first candidate is the server that the next request gets, wherever chance does not decide.
#[test]
fn candidates_are_in_the_order_of_choice() {
    for policy in policies() {
        if matches!(policy, Policy::Random | Policy::PowerOfTwo) {
            continue;
        }
        let mut upstream = TestBalancer::new(&policy, &[1, 2, 3, 4]);
        for step in 0..200_u64 {
            let hash = Some(hash_bytes(&step.to_le_bytes()));
            let pick = Pick { hash, excluded: Excluded::NONE, random: 0, now_ms: 0 };
            let first = upstream.balancer.candidates(&pick)[0];
            assert_eq!(first.eligibility, Eligibility::Eligible);
            assert_eq!(
                upstream.choose_for(hash),
                BalancerChoice::Server(first.server),
                "{policy:?}, step {step}"
            );
            if step % 3 == 0 {
                upstream.balancer.release(first.server);
            }
        }
    }
}

#[test]
fn candidates_say_why_not() {
    let state = || Arc::new(ServerState::new(1, 1));
    let names = ["ok", "full", "failed", "zero", "draining", "maintenance", "down", "backup"];
    let mut members: Vec<_> = names.iter().map(|name| BalancerMember::new(name, state())).collect();
    members[7].tier = ServerTier::Backup;
    let balancer = Balancer::new(&Policy::LeastRequests, members, 0);
    let states = balancer.states();
    assert!(states[1].try_acquire());
    let mut excluded = Excluded::new();
    excluded.insert(ServerId(2));
    states[3].set_weight(0);
    states[4].set_mode(Mode::Draining);
    states[5].set_mode(Mode::Maintenance);
    states[6].set_health(Health::Down);

    let mut candidates = balancer.candidates(&Pick { hash: None, excluded: &excluded, random: 0, now_ms: 0 });
    assert_eq!(candidates[0].server, ServerId(0));
    candidates.sort_by_key(|candidate| candidate.server);
    let standings: Vec<_> = candidates.iter().map(|candidate| candidate.eligibility).collect();
    assert_eq!(
        standings,
        [
            Eligibility::Eligible,
            Eligibility::Full,
            Eligibility::Excluded,
            Eligibility::WeightZero,
            Eligibility::Draining,
            Eligibility::Maintenance,
            Eligibility::Down,
            Eligibility::Reserve,
        ]
    );
    assert_eq!((candidates[1].in_flight, candidates[1].max_requests), (1, 1));
    assert_eq!((candidates[7].tier, candidates[0].tier), (ServerTier::Backup, ServerTier::Primary));
    assert_eq!(states[0].in_flight(), 0, "looking takes no slot");
}
