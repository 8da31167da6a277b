//! Which request is admitted, which waits and for what, and that no request waits while a server could take it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use proptest::prelude::*;

use super::*;
use crate::balance::HashKey;
use crate::balance::{BalancerMember, LoadFactor, Policy};
use crate::queue::PriorityClass;
use crate::server::ServerState;
use crate::server::{EjectionState, Health, Mode};

const FOREVER: u64 = u64::MAX;

/// An upstream with one slot on each of `servers` servers.
fn admission(policy: &Policy, servers: usize) -> Admission<u32> {
    let member = |id: usize| BalancerMember::new(&format!("s{id}"), Arc::new(ServerState::new(1, 1)));
    Admission::new(Balancer::new(policy, (0..servers).map(member).collect(), 7), 1_000_000, None)
}

fn hashing() -> Policy {
    Policy::ConsistentHash { key: HashKey::Path, load_factor: LoadFactor::UNBOUNDED }
}

fn arrival(bound: Option<u32>, hash: Option<u64>) -> AdmissionRequest<'static> {
    let pick = Pick { hash, excluded: Excluded::NONE, random: 0, now_ms: 0 };
    AdmissionRequest { pick, bound: bound.map(ServerId), when_full: WhenFull::Queue }
}

fn wait_for(own: Option<ServerId>) -> QueueWait {
    QueueWait { own, class: QueueClass::default(), now_ms: 0, deadline_ms: FOREVER }
}

/// Enters the queue for what `try_admit` said.
fn enter(admission: &Admission<u32>, arrival: &AdmissionRequest<'_>, item: u32) -> Ticket {
    let AdmissionDecision::Wait(own) = admission.try_admit(arrival) else { panic!("{item} need not wait") };
    admission.enter(&arrival.pick, wait_for(own), item).unwrap().ticket
}

/// Releases a slot and serves; returns each request with its outcome.
fn release(admission: &Admission<u32>, server: u32) -> Vec<(u32, WaitOutcome)> {
    if admission.release(ServerId(server)) { serve(admission) } else { Vec::new() }
}

fn serve(admission: &Admission<u32>) -> Vec<(u32, WaitOutcome)> {
    let mut outcomes = Vec::new();
    admission.serve(0, |item, outcome| {
        outcomes.push((item, outcome));
        true
    });
    outcomes
}

const fn server(id: u32) -> WaitOutcome {
    WaitOutcome::Server(ServerId(id))
}

#[test]
fn one_bound_to_a_full_server_waits_for_that_one() {
    let upstream = admission(&Policy::LeastRequests, 2);
    assert_eq!(upstream.try_admit(&arrival(Some(1), None)), AdmissionDecision::Server(ServerId(1)));
    enter(&upstream, &arrival(Some(1), None), 10);
    let any = upstream.try_admit(&arrival(None, None));
    assert_eq!(any, AdmissionDecision::Server(ServerId(0)), "no other request waits for that one");
    enter(&upstream, &arrival(None, None), 11);
    assert_eq!(release(&upstream, 0), [(11, server(0))], "the first in the queue waits for the other");
    assert_eq!(release(&upstream, 1), [(10, server(1))]);
    assert!(!upstream.has_waiters());
}

#[test]
fn arrival_order_holds_between_bound_and_unbound() {
    let upstream = admission(&Policy::LeastRequests, 1);
    assert_eq!(upstream.try_admit(&arrival(None, None)), AdmissionDecision::Server(ServerId(0)));
    for item in 0..6 {
        enter(&upstream, &arrival((item % 2 == 0).then_some(0), None), item);
    }
    let order: Vec<_> = (0..6).flat_map(|_| release(&upstream, 0)).map(|(item, _)| item).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn an_unbound_request_takes_any_server() {
    let upstream = admission(&Policy::LeastRequests, 2);
    assert_eq!(upstream.try_admit(&arrival(Some(0), None)), AdmissionDecision::Server(ServerId(0)));
    let ticket = enter(&upstream, &arrival(Some(0), None), 10);
    assert_eq!(serve(&upstream), [], "server 1 is free, but not its own");
    upstream.unbind(ticket);
    assert_eq!(serve(&upstream), [(10, server(1))]);
    let impatient = AdmissionRequest { when_full: WhenFull::Spill, ..arrival(Some(0), None) };
    assert_eq!(upstream.try_admit(&impatient), AdmissionDecision::Wait(None));
}

#[test]
fn when_its_own_server_goes_any_will_do() {
    let upstream = admission(&Policy::LeastRequests, 2);
    let state = |id| upstream.balancer().state(ServerId(id));
    assert_eq!(upstream.try_admit(&arrival(Some(0), None)), AdmissionDecision::Server(ServerId(0)));
    enter(&upstream, &arrival(Some(0), None), 10);
    state(0).set_health(Health::Down);
    assert_eq!(serve(&upstream), [(10, server(1))]);
    enter(&upstream, &arrival(Some(0), None), 11);
    assert_eq!(release(&upstream, 1), [(11, server(1))], "it does not wait for one that is down");
    enter(&upstream, &arrival(None, None), 12);
    state(1).set_health(Health::Down);
    assert_eq!(serve(&upstream), [(12, WaitOutcome::NoServer)]);
    assert_eq!(upstream.try_admit(&arrival(Some(0), None)), AdmissionDecision::NoneEligible);
}

#[test]
fn a_request_that_may_have_no_other_server_gets_none() {
    let upstream = admission(&Policy::LeastRequests, 2);
    let never = |bound| AdmissionRequest { when_full: WhenFull::Never, ..arrival(bound, None) };
    assert_eq!(upstream.try_admit(&never(Some(0))), AdmissionDecision::Server(ServerId(0)));
    assert_eq!(upstream.try_admit(&never(Some(0))), AdmissionDecision::Wait(Some(ServerId(0))));
    upstream.balancer().state(ServerId(0)).set_mode(Mode::Maintenance);
    assert_eq!(upstream.try_admit(&never(Some(0))), AdmissionDecision::NoneEligible);
    assert_eq!(upstream.try_admit(&never(Some(u32::MAX))), AdmissionDecision::NoneEligible);
    assert_eq!(upstream.try_admit(&never(None)), AdmissionDecision::Server(ServerId(1)));
}

#[test]
fn a_draining_server_serves_those_bound_to_it() {
    let upstream = admission(&Policy::LeastRequests, 1);
    upstream.balancer().state(ServerId(0)).set_mode(Mode::Draining);
    assert_eq!(upstream.try_admit(&arrival(None, None)), AdmissionDecision::NoneEligible);
    assert_eq!(upstream.try_admit(&arrival(Some(0), None)), AdmissionDecision::Server(ServerId(0)));
    enter(&upstream, &arrival(Some(0), None), 10);
    assert_eq!(serve(&upstream), [], "there is hope for it");
    assert_eq!(release(&upstream, 0), [(10, server(0))]);
    enter(&upstream, &arrival(Some(0), None), 11);
    upstream.balancer().state(ServerId(0)).set_mode(Mode::Maintenance);
    assert_eq!(serve(&upstream), [(11, WaitOutcome::NoServer)]);
}

/// A request takes a backup rather than wait; where that is full, too, it gets whichever has a slot first. A request that belongs to a
/// server waits for that, until it may take any.
#[test]
fn requests_take_a_backup_rather_than_wait() {
    let new_states = || [1, 1].map(|max_requests| Arc::new(ServerState::new(1, max_requests)));
    let balancer = |states: &[Arc<ServerState>; 2], overflows| {
        let [primary, backup] = states.each_ref().map(Arc::clone);
        let backup = BalancerMember::new("backup", backup).in_tier(crate::ServerTier::Backup);
        let members = vec![BalancerMember::new("primary", primary), backup];
        Balancer::new(&Policy::LeastRequests, members, 7).overflowing(overflows)
    };
    let upstream = Admission::new(balancer(&new_states(), true), 10, None);
    assert_eq!(upstream.try_admit(&arrival(None, None)), AdmissionDecision::Server(ServerId(0)));
    let bound = enter(&upstream, &arrival(Some(0), None), 10);
    assert_eq!(serve(&upstream), [], "it belongs to the primary, though the backup is idle");
    assert_eq!(upstream.try_admit(&arrival(None, None)), AdmissionDecision::Server(ServerId(1)));
    enter(&upstream, &arrival(None, None), 11);
    assert_eq!(release(&upstream, 1), [(11, server(1))]);
    upstream.unbind(bound);
    assert_eq!(release(&upstream, 1), [(10, server(1))]);

    // One waits when the next config begins to use backups.
    let states = new_states();
    let before = Admission::new(balancer(&states, false), 10, None);
    assert_eq!(before.try_admit(&arrival(None, None)), AdmissionDecision::Server(ServerId(0)));
    enter(&before, &arrival(None, None), 12);
    assert_eq!(serve(&before), []);
    let after = before.succeeded_by(balancer(&states, true));
    after.take_over(10, None);
    assert_eq!(serve(&after), [(12, server(1))]);
}

#[test]
fn a_key_waits_for_its_own_server() {
    let upstream = admission(&hashing(), 3);
    let AdmissionDecision::Server(own) = upstream.try_admit(&arrival(None, Some(99))) else {
        panic!("all are idle")
    };
    let ticket = enter(&upstream, &arrival(None, Some(99)), 10);
    assert_eq!(serve(&upstream), []);
    upstream.unbind(ticket);
    let outcomes = serve(&upstream);
    assert!(matches!(outcomes[..], [(10, WaitOutcome::Server(other))] if other != own), "{outcomes:?}");
    let impatient = AdmissionRequest { when_full: WhenFull::Spill, ..arrival(None, Some(99)) };
    assert!(matches!(upstream.try_admit(&impatient), AdmissionDecision::Server(third) if third != own));
}

#[test]
fn a_slot_that_is_not_accepted_goes_to_the_next() {
    let upstream = admission(&Policy::RoundRobin, 1);
    assert_eq!(upstream.try_admit(&arrival(None, None)), AdmissionDecision::Server(ServerId(0)));
    let gone = enter(&upstream, &arrival(None, None), 10);
    enter(&upstream, &arrival(None, None), 11);
    enter(&upstream, &arrival(None, None), 12);
    assert_eq!(upstream.leave(gone), Some(10));
    assert_eq!(upstream.leave(gone), None);
    let mut outcomes = Vec::new();
    assert!(upstream.release(ServerId(0)));
    upstream.serve(0, |item, _| {
        outcomes.push(item);
        item != 11
    });
    assert_eq!(outcomes, [11, 12]);
}

#[test]
fn a_trial_on_an_excluded_server_is_left_to_the_next() {
    let upstream = admission(&Policy::LeastRequests, 2);
    let state = |id| upstream.balancer().state(ServerId(id));
    let mut excluded = Excluded::new();
    excluded.insert(ServerId(1));
    let elsewhere = AdmissionRequest {
        pick: Pick { excluded: &excluded, ..arrival(None, None).pick },
        ..arrival(None, None)
    };
    assert_eq!(upstream.try_admit(&elsewhere), AdmissionDecision::Server(ServerId(0)));
    enter(&upstream, &elsewhere, 10);
    state(1).set_ejection(EjectionState::OnTrial);
    enter(&upstream, &arrival(None, None), 11);
    assert_eq!(serve(&upstream), [(11, server(1))]);
    assert!(!state(1).is_on_trial(), "it has the trial");
    upstream.give_back(ServerId(1));
    assert!(state(1).is_on_trial(), "it has left and not begun");
    assert_eq!(
        upstream.try_admit(&arrival(Some(1), None)),
        AdmissionDecision::Wait(Some(ServerId(1))),
        "one waits before it"
    );
    assert!(state(1).is_on_trial());
}

#[test]
fn a_trial_that_is_not_accepted_goes_to_the_next() {
    let upstream = admission(&Policy::LeastRequests, 1);
    let state = upstream.balancer().state(ServerId(0));
    assert_eq!(upstream.try_admit(&arrival(None, None)), AdmissionDecision::Server(ServerId(0)));
    for item in 10..12 {
        enter(&upstream, &arrival(None, None), item);
    }
    state.set_ejection(EjectionState::OnTrial);
    assert!(upstream.release(ServerId(0)));
    let mut outcomes = Vec::new();
    upstream.serve(0, |item, outcome| {
        outcomes.push((item, outcome));
        item != 10
    });
    assert_eq!(outcomes, [(10, server(0)), (11, server(0))]);
}

#[derive(Debug, Clone)]
enum AdmissionStep {
    Arrive { bound: Option<u32>, hash: Option<u64> },
    Release(usize),
    Leave(usize),
    Unbind(usize),
    Turn { server: u32, down: bool },
}

fn step() -> impl Strategy<Value = AdmissionStep> {
    prop_oneof![
        5 => (proptest::option::of(0..4_u32), proptest::option::of(0..9_u64)).prop_map(|(bound, hash)| AdmissionStep::Arrive { bound, hash }),
        4 => any::<usize>().prop_map(AdmissionStep::Release),
        1 => any::<usize>().prop_map(AdmissionStep::Leave),
        1 => any::<usize>().prop_map(AdmissionStep::Unbind),
        1 => (0..4_u32, any::<bool>()).prop_map(|(server, down)| AdmissionStep::Turn { server, down }),
    ]
}

proptest! {
    /// After every step no request waits that could be served, and no request is lost.
    #[test]
    fn no_server_is_idle_while_one_waits_that_it_may_serve(
        hashed in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let policy = if hashed { hashing() } else { Policy::LeastRequests };
        let upstream = admission(&policy, 4);
        let mut running: Vec<ServerId> = Vec::new();
        let mut waiting: Vec<(u32, Ticket, Option<ServerId>)> = Vec::new();
        for (item, step) in (0..).zip(steps) {
            match step {
                AdmissionStep::Arrive { bound, hash } => match upstream.try_admit(&arrival(bound, hash)) {
                    AdmissionDecision::Server(server) => running.push(server),
                    AdmissionDecision::NoneEligible => prop_assert!(!upstream.balancer().has_eligible()),
                    AdmissionDecision::Wait(own) => {
                        let pick = arrival(bound, hash).pick;
                        let entered = upstream.enter(&pick, wait_for(own), item).unwrap();
                        waiting.push((item, entered.ticket, own));
                    }
                },
                AdmissionStep::Release(nth) if !running.is_empty() => {
                    let server = running.swap_remove(nth % running.len());
                    let _wanted = upstream.release(server);
                }
                AdmissionStep::Leave(nth) if !waiting.is_empty() => {
                    let (item, ticket, _) = waiting.swap_remove(nth % waiting.len());
                    prop_assert_eq!(upstream.leave(ticket), Some(item));
                }
                AdmissionStep::Unbind(nth) if !waiting.is_empty() => {
                    let at = nth % waiting.len();
                    upstream.unbind(waiting[at].1);
                    waiting[at].2 = None;
                }
                AdmissionStep::Turn { server, down } => {
                    let health = if down { Health::Down } else { Health::Up };
                    upstream.balancer().state(ServerId(server)).set_health(health);
                }
                AdmissionStep::Release(_) | AdmissionStep::Leave(_) | AdmissionStep::Unbind(_) => {}
            }
            for (item, outcome) in serve(&upstream) {
                let at = waiting.iter().position(|(one, ..)| *one == item).expect("it waited");
                waiting.swap_remove(at);
                match outcome {
                    WaitOutcome::Server(server) => running.push(server),
                    other => prop_assert_eq!(other, WaitOutcome::NoServer),
                }
            }
            let free: Vec<bool> = (0..4)
                .map(|id| upstream.balancer().state(ServerId(id)))
                .map(|state| state.is_eligible() && !state.is_full())
                .collect();
            for (_, _, own) in &waiting {
                match own.filter(|own| upstream.balancer().state(*own).accepts_bound()) {
                    Some(own) => prop_assert!(!free[own.index()]),
                    None => prop_assert!(!free.contains(&true)),
                }
            }
            prop_assert_eq!(upstream.has_waiters(), !waiting.is_empty());
        }
    }
}

/// Two workers, a hundred thousand requests in three classes, three slots: the requests of a class are served in order
/// of arrival, and no slot is given twice.
#[test]
fn two_workers_keep_the_order_of_arrival() {
    const EACH: u32 = 50_000;
    let state = |_| Arc::new(ServerState::new(1, 3));
    let members = (0..1).map(|id| BalancerMember::new("s", state(id))).collect();
    let upstream = Admission::new(Balancer::new(&Policy::LeastRequests, members, 7), 2 * EACH as usize, None);
    let served = Mutex::new(Vec::new());
    let inside = AtomicUsize::new(0);
    let all_in = Barrier::new(2);
    let take_turns = || {
        upstream.serve(0, |(arrived, class): (usize, usize), outcome| {
            assert!(matches!(outcome, WaitOutcome::Server(_)));
            assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
            served.lock().unwrap().push((class, arrived));
            true
        });
    };
    let arrivals = Mutex::new(0_usize);
    // Filled, so that all have to wait.
    while let AdmissionDecision::Server(_) = upstream.try_admit(&arrival(None, None)) {
        inside.fetch_add(1, Ordering::SeqCst);
    }
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for number in 0..EACH {
                    let priority = number as usize % 3;
                    let class = QueueClass { priority: PriorityClass::ALL[priority], share: 0, client: 0 };
                    let wait = QueueWait { class, ..wait_for(None) };
                    // Numbers are given in the order in which places are.
                    let mut arrived = arrivals.lock().unwrap();
                    upstream.enter(&arrival(None, None).pick, wait, (*arrived, priority)).unwrap();
                    *arrived += 1;
                }
                all_in.wait();
                loop {
                    let running = inside.load(Ordering::SeqCst);
                    if running == 0 {
                        break;
                    }
                    if inside
                        .compare_exchange(running, running - 1, Ordering::SeqCst, Ordering::SeqCst)
                        .is_ok()
                        && upstream.release(ServerId(0))
                    {
                        take_turns();
                    }
                }
            });
        }
    });
    let served = served.into_inner().unwrap();
    assert_eq!(served.len(), 2 * EACH as usize);
    for class in 0..3 {
        let order: Vec<usize> =
            served.iter().filter(|(of, _)| *of == class).map(|(_, arrived)| *arrived).collect();
        let inversions = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert_eq!(inversions, 0, "class {class}");
    }
}

/// The only slot becomes free while requests arrive at a full queue: one of them may take the slot for a moment just when it is to
/// be handed on, and the waiting request gets it in the end.
#[test]
fn a_rejected_request_leaves_no_request_waiting_for_a_free_server() {
    const ROUNDS: u32 = 30_000;
    let members = vec![BalancerMember::new("s", Arc::new(ServerState::new(1, 1)))];
    let upstream = Admission::new(Balancer::new(&Policy::LeastRequests, members, 7), 1, None);
    let [begun, handed_on, ended, served] = [const { AtomicU32::new(0) }; 4];
    let reach = |round: &AtomicU32, number| {
        while round.load(Ordering::SeqCst) < number {
            std::thread::yield_now();
        }
    };
    let tell = |_, outcome| {
        assert_eq!(outcome, server(0));
        served.fetch_add(1, Ordering::SeqCst);
        true
    };
    let any = arrival(None, None);
    let mut left_waiting = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                reach(&begun, round);
                while handed_on.load(Ordering::SeqCst) < round {
                    assert_eq!(upstream.try_admit(&any), AdmissionDecision::Wait(None));
                    if let Ok(entered) = upstream.enter_or_serve(&any.pick, wait_for(None), 1, tell) {
                        upstream.serve(0, tell);
                        assert_eq!(upstream.leave(entered.ticket), Some(1), "the other one has the slot");
                    }
                }
                ended.store(round, Ordering::SeqCst);
            }
        });
        for round in 1..=ROUNDS {
            assert_eq!(upstream.try_admit(&any), AdmissionDecision::Server(ServerId(0)));
            enter(&upstream, &any, 0);
            begun.store(round, Ordering::SeqCst);
            if upstream.release(ServerId(0)) {
                upstream.serve(0, tell);
            }
            handed_on.store(round, Ordering::SeqCst);
            reach(&ended, round);
            if upstream.has_waiters() {
                left_waiting += 1;
                upstream.serve(0, tell);
            }
            assert!(!upstream.release(ServerId(0)));
        }
    });
    assert_eq!((left_waiting, served.into_inner()), (0, ROUNDS));
}

/// Servers for bound requests alone: no policy chooses one, not even for a request whose own server is gone.
#[test]
fn what_only_bound_requests_reach_is_reached_by_no_other() {
    let policies = [
        Policy::RoundRobin,
        Policy::LeastRequests,
        Policy::PeakEwma,
        Policy::PowerOfTwo,
        Policy::Random,
        hashing(),
    ];
    for policy in policies {
        let states: Vec<_> = (0..2).map(|_| Arc::new(ServerState::new(1, 1))).collect();
        let members =
            states.iter().map(|state| BalancerMember::new("s", Arc::clone(state)).for_bound_alone());
        let upstream: Admission<u32> = Admission::new(Balancer::new(&policy, members.collect(), 7), 9, None);
        let never =
            |bound: Option<u32>| AdmissionRequest { when_full: WhenFull::Never, ..arrival(bound, Some(3)) };
        assert_eq!(upstream.try_admit(&never(None)), AdmissionDecision::NoneEligible, "{policy:?}");
        assert_eq!(upstream.try_admit(&never(Some(9))), AdmissionDecision::NoneEligible, "{policy:?}");
        assert_eq!(upstream.try_admit(&never(Some(1))), AdmissionDecision::Server(ServerId(1)), "{policy:?}");
        let _ticket = enter(&upstream, &never(Some(1)), 10);
        assert!(serve(&upstream).is_empty(), "the other one is free, and not its own: {policy:?}");
        states[1].set_health(Health::Down);
        assert!(serve(&upstream).is_empty(), "nor when its own is gone: {policy:?}");
        states[1].set_health(Health::Up);
        assert_eq!(release(&upstream, 1), [], "it has lost its place, and none takes it over: {policy:?}");
        assert_eq!(states[0].in_flight(), 0, "{policy:?}");
    }
}
