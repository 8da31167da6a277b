//! Weir's own rules: which server is ejected when, for how long, and how it comes back.

use super::*;
use crate::server::{Health, Mode};

const RULES: fn() -> EjectionRules = || EjectionRules::Outliers(outlier_rules());

#[test]
fn failures_in_a_row_eject_and_a_trial_brings_back() {
    let mut upstream = TestUpstream::new(RULES(), 3);
    upstream.fail(0, 2);
    upstream.request(0, true);
    upstream.fail(0, 2);
    assert_eq!(upstream.standing(), "+++", "no three in a row");
    upstream.fail(0, 1);
    assert_eq!(upstream.standing(), "-++");
    let grounds = EjectionReason::ConsecutiveFailures(3);
    let server = ServerId(0);
    assert_eq!(upstream.changes(), [OutlierChange::Ejected { server, grounds, for_ms: 10_000, times: 1 }]);
    upstream.wait(9.999);
    assert_eq!(upstream.standing(), "-++");
    upstream.wait(0.001);
    assert_eq!(upstream.standing(), "?++");
    assert!(upstream.begin(0), "one request may try");
    assert_eq!(upstream.standing(), "-++", "and no second one");
    upstream.end(0, upstream.now_ms, true);
    assert_eq!(upstream.standing(), "+++");
    assert_eq!(
        upstream.changes(),
        [
            OutlierChange::OnTrial { server },
            OutlierChange::Returned { server, how: ReturnReason::TrialPassed }
        ]
    );
    assert!(upstream.book.is_quiet() && upstream.book.next_ms().is_none());
}

#[test]
fn ejections_grow_and_are_forgotten() {
    let mut upstream = TestUpstream::new(RULES(), 2);
    upstream.fail(0, 3);
    let mut lengths = Vec::new();
    for _ in 0..5 {
        let began_ms = upstream.now_ms;
        while upstream.standing() == "-+" {
            upstream.wait(0.5);
        }
        lengths.push((upstream.now_ms - began_ms) / 1000);
        assert!(upstream.request(0, false), "the trial");
    }
    assert_eq!(lengths, [10, 20, 30, 35, 35], "up to the longest");
    upstream.wait(35.0);
    assert!(upstream.request(0, true));
    // Six in a row so far. After 42 s in good standing four are forgotten.
    upstream.wait(42.0);
    upstream.changes();
    upstream.fail(0, 3);
    let changes = upstream.changes();
    assert!(matches!(changes[..], [OutlierChange::Ejected { for_ms: 30_000, times: 3, .. }]), "{changes:?}");
    upstream.wait(30.0);
    upstream.request(0, true);
    upstream.wait(1000.0);
    upstream.fail(0, 3);
    assert!(matches!(upstream.changes()[..], [.., OutlierChange::Ejected { for_ms: 10_000, times: 1, .. }]));
}

#[test]
fn a_trial_without_a_result_is_followed_by_another() {
    let mut upstream = TestUpstream::new(RULES(), 2);
    upstream.fail(0, 3);
    upstream.wait(10.0);
    let first_ms = upstream.now_ms;
    assert!(upstream.begin(0) && !upstream.begin(0));
    upstream.wait(19.999);
    assert_eq!(upstream.standing(), "-+", "as long as after a failure");
    upstream.wait(0.001);
    assert!(upstream.begin(0), "the first may be gone for good");
    upstream.wait(29.999);
    assert_eq!(upstream.standing(), "-+", "and longer each time");
    upstream.wait(0.001);
    assert_eq!(upstream.standing(), "?+");
    upstream.changes();
    // It hung, and so did the second: the first to be heard of counts.
    upstream.end(0, first_ms, false);
    upstream.end(0, first_ms + 20_000, false);
    let changes = upstream.changes();
    assert!(
        matches!(
            changes[..],
            [OutlierChange::Ejected { grounds: EjectionReason::Trial, times: 4, for_ms: 35_000, .. }]
        ),
        "{changes:?}"
    );
    upstream.wait(35.0);
    upstream.end(0, first_ms + 20_000, true);
    assert_eq!(upstream.standing(), "?+", "not a trial since then");
    assert!(upstream.request(0, true));
    assert_eq!(upstream.standing(), "++");
}

#[test]
fn a_trial_without_a_verdict_is_given_to_the_next() {
    let mut upstream = TestUpstream::new(RULES(), 2);
    let before_ms = upstream.now_ms;
    upstream.fail(0, 3);
    upstream.wait(10.0);
    assert!(upstream.begin(0));
    upstream.book.withdraw(ServerId(0), before_ms, upstream.now_ms);
    assert_eq!(upstream.standing(), "-+", "that was another request");
    upstream.book.withdraw(ServerId(0), upstream.now_ms, upstream.now_ms);
    assert_eq!(upstream.standing(), "?+");
    assert!(upstream.request(0, true));
    assert_eq!(upstream.standing(), "++");
}

/// Requests that were under way say nothing about how the server is now.
#[test]
fn what_began_before_does_not_count() {
    let mut upstream = TestUpstream::new(RULES(), 2);
    let before_ms = upstream.now_ms;
    upstream.fail(0, 3);
    for succeeds in [true, false, false, false] {
        upstream.end(0, before_ms, succeeds);
    }
    assert!(matches!(upstream.changes()[..], [OutlierChange::Ejected { times: 1, .. }]), "nothing more");
    upstream.wait(10.0);
    assert!(upstream.begin(0));
    upstream.end(0, before_ms, false);
    upstream.end(0, before_ms, true);
    assert_eq!(upstream.standing(), "-+", "neither passes nor fails the trial");
    upstream.end(0, upstream.now_ms, true);
    for _ in 0..3 {
        upstream.end(0, before_ms, false);
    }
    assert_eq!(upstream.standing(), "++");
}

#[test]
fn no_more_than_the_limit_and_never_the_last() {
    for (servers, backups, out) in [
        (1, 0, "+"),
        (2, 0, "-+"),
        (3, 0, "-++"),
        (5, 0, "--+++"),
        (6, 0, "---+++"),
        // With one server and one backup, the backup is the last.
        (2, 1, "-+"),
        (4, 1, "-++-"),
    ] {
        let mut upstream = TestUpstream::with(Some(RULES()), None, servers, backups);
        for server in 0..servers {
            upstream.fail(server, 10);
        }
        assert_eq!(upstream.standing(), out, "{servers} servers, {backups} of them backups");
    }
    let all = OutlierRules { servers_max_percent: 100, ..outlier_rules() };
    let mut upstream = TestUpstream::new(EjectionRules::Outliers(all), 4);
    (0..4).for_each(|server| upstream.fail(server, 10));
    assert_eq!(upstream.standing(), "---+");
    upstream.wait(10.0);
    upstream.fail(3, 10);
    assert_eq!(upstream.standing(), "???+", "those on trial may be as bad");
}

/// A server that is down, drained or without weight does not count as left.
#[test]
fn the_last_is_the_last_that_gets_requests() {
    let spoil: [fn(&ServerState); 4] = [
        |state| state.set_health(Health::Down),
        |state| state.set_mode(Mode::Draining),
        |state| state.set_mode(Mode::Maintenance),
        |state| state.set_weight(0),
    ];
    for (case, spoil) in spoil.into_iter().enumerate() {
        let mut upstream = TestUpstream::new(RULES(), 3);
        spoil(&upstream.states[1]);
        spoil(&upstream.states[2]);
        upstream.fail(0, 10);
        assert_eq!(upstream.standing(), "+--", "case {case}");
        // The other way round: ejected first, then the others go.
        let mut upstream = TestUpstream::new(RULES(), 3);
        upstream.fail(0, 10);
        spoil(&upstream.states[1]);
        upstream.book.advance(upstream.now_ms);
        assert_eq!(upstream.standing(), "--+", "case {case}");
        spoil(&upstream.states[2]);
        upstream.book.advance(upstream.now_ms);
        assert_eq!(upstream.standing(), "+--", "case {case}");
        let returned = OutlierChange::Returned { server: ServerId(0), how: ReturnReason::LastOne };
        assert_eq!(upstream.changes().last(), Some(&returned), "case {case}");
    }
}

#[test]
fn an_exempt_server_stays() {
    let states = [(); 2].map(|()| Arc::new(ServerState::new(1, 0)));
    let members = states.iter().zip([true, false]);
    let members = members
        .map(|(state, exempt)| OutlierMember {
            state: Arc::clone(state),
            tier: ServerTier::Primary,
            exempt,
            leaving: false,
        })
        .collect();
    let book = OutlierTable::new(Some(RULES()), None, false, members);
    let mut upstream = TestUpstream { book, states: states.to_vec(), now_ms: 0 };
    upstream.fail(0, 10);
    upstream.book.compare(&[OutlierWindow { requests: 99, failures: 99, latency_micros: None }; 2], 0, 0);
    assert_eq!(upstream.standing(), "++");
    upstream.fail(1, 10);
    assert_eq!(upstream.standing(), "+-");
}

#[test]
fn health_and_ejection_are_independent() {
    let mut upstream = TestUpstream::new(RULES(), 3);
    upstream.fail(0, 3);
    upstream.states[0].set_health(Health::Down);
    upstream.states[0].set_health(Health::Up);
    assert_eq!(upstream.standing(), "-++", "a probe that passes ends no ejection");
    upstream.states[0].set_health(Health::Down);
    upstream.wait(10.0);
    assert_eq!(
        upstream.standing(),
        "-++",
        "nor does the end of an ejection bring back a server that is down"
    );
    upstream.states[0].set_health(Health::Up);
    assert_eq!(upstream.standing(), "?++");
}

#[test]
fn a_server_that_the_health_checks_bring_back_is_tried_at_once() {
    let mut upstream = TestUpstream::new(RULES(), 2);
    upstream.fail(0, 3);
    upstream.states[0].set_health(Health::Down);
    upstream.wait(2.0);
    upstream.book.recover(ServerId(0), upstream.now_ms);
    upstream.states[0].set_health(Health::Up);
    assert_eq!(upstream.standing(), "?+", "eight seconds before its time");
    let began_before = upstream.now_ms - 1;
    upstream.book.fail(ServerId(0), began_before, upstream.now_ms);
    assert_eq!(upstream.standing(), "?+", "what began before does not count");
    upstream.wait(0.1);
    assert!(upstream.request(0, true));
    assert_eq!(upstream.standing(), "++");
    upstream.book.recover(ServerId(0), upstream.now_ms);
    assert_eq!(upstream.standing(), "++", "one that is not out stays as it is");
    let server = ServerId(0);
    let changes = upstream.changes();
    assert_eq!(
        changes[1..],
        [
            OutlierChange::OnTrial { server },
            OutlierChange::Returned { server, how: ReturnReason::TrialPassed }
        ]
    );
}

#[test]
fn only_servers_that_were_present_are_compared() {
    let mut upstream = TestUpstream::new(RULES(), 4);
    let (good, bad) = (
        OutlierWindow { requests: 100, failures: 0, latency_micros: None },
        OutlierWindow { requests: 100, failures: 60, latency_micros: None },
    );
    let began_ms = upstream.now_ms;
    upstream.wait(10.0);
    upstream.book.compare(&[bad, good, good, good], began_ms, upstream.now_ms);
    assert_eq!(upstream.standing(), "-+++");
    let grounds = EjectionReason::ErrorRate { percent: 60, others_percent: 0 };
    let ejected = OutlierChange::Ejected { server: ServerId(0), grounds, for_ms: 10_000, times: 1 };
    assert_eq!(upstream.changes(), [ejected]);
    assert_eq!(upstream.book.ejections(ServerId(0)), [0, 1, 0, 0, 0]);
    let began_ms = upstream.now_ms;
    upstream.wait(10.0);
    upstream.request(0, true);
    upstream.book.compare(&[bad, good, good, good], began_ms, upstream.now_ms);
    assert_eq!(upstream.standing(), "++++", "it came back in the middle of the window");
    let began_ms = upstream.now_ms;
    upstream.wait(10.0);
    upstream.book.compare(&[bad, good, good, good], began_ms, upstream.now_ms);
    assert_eq!(upstream.standing(), "-+++");
}

#[test]
fn slow_start_begins_with_the_return() {
    let states = [(); 2].map(|()| Arc::new(ServerState::new(100, 0)));
    let members = states.iter().map(|state| OutlierMember {
        state: Arc::clone(state),
        tier: ServerTier::Primary,
        exempt: false,
        leaving: false,
    });
    let book = OutlierTable::new(Some(RULES()), None, true, members.collect());
    let mut upstream = TestUpstream { book, states: states.to_vec(), now_ms: 0 };
    upstream.fail(0, 3);
    upstream.wait(10.0);
    upstream.request(0, true);
    assert_eq!((upstream.standing(), upstream.states[0].ramp()), ("++".to_owned(), 1));
}

#[test]
fn in_panic_all_get_requests() {
    let health = |upstream: &mut TestUpstream, server: usize, health| {
        upstream.states[server].set_health(health);
        upstream.book.advance(upstream.now_ms);
    };
    let mut upstream = TestUpstream::with(Some(RULES()), Some(50), 4, 0);
    upstream.fail(0, 3);
    health(&mut upstream, 1, Health::Down);
    assert_eq!(
        (upstream.standing().as_str(), upstream.book.is_in_panic()),
        ("--++", false),
        "half is enough"
    );
    health(&mut upstream, 2, Health::Down);
    assert!(upstream.book.is_in_panic() && upstream.states.iter().all(|state| state.is_eligible()));
    assert!(upstream.begin(0), "also those that are watched");
    assert_eq!(upstream.changes().last(), Some(&OutlierChange::Panic { began: true }));
    health(&mut upstream, 2, Health::Up);
    assert_eq!(upstream.standing(), "--++");
    assert_eq!(upstream.changes(), [OutlierChange::Panic { began: false }]);
    // Servers out of service by the operator do not count.
    upstream.states[2].set_mode(Mode::Maintenance);
    upstream.states[3].set_mode(Mode::Maintenance);
    health(&mut upstream, 0, Health::Down);
    assert!(upstream.book.is_in_panic());
    (0..2).for_each(|server| upstream.states[server].set_mode(Mode::Maintenance));
    upstream.book.advance(upstream.now_ms);
    assert!(!upstream.book.is_in_panic(), "no server is in service");
}

#[test]
fn backups_that_are_well_keep_from_panic() {
    let mut upstream = TestUpstream::with(None, Some(50), 3, 1);
    for server in [0, 1] {
        upstream.states[server].set_health(Health::Down);
    }
    upstream.book.advance(0);
    assert_eq!((upstream.book.is_in_panic(), upstream.standing().as_str()), (false, "--+"));
    upstream.states[2].set_health(Health::Down);
    upstream.book.advance(0);
    assert_eq!((upstream.book.is_in_panic(), upstream.standing().as_str()), (true, "+++"));
}

#[test]
fn a_table_of_another_process_goes_on() {
    let mut before = TestUpstream::new(RULES(), 3);
    before.fail(0, 3);
    before.wait(4.0);
    let ejected = before.book.ejected(ServerId(0), before.now_ms).expect("it is out");
    assert_eq!(
        (ejected, before.book.ejected(ServerId(1), before.now_ms)),
        (EjectedServer { left_ms: 6_000, times: 1 }, None)
    );
    let mut after = TestUpstream::new(RULES(), 3);
    assert!(after.book.resume(ServerId(0), ejected, after.now_ms));
    assert_eq!((after.standing().as_str(), after.changes().len()), ("-++", 0), "no event tells of it");
    after.wait(5.999);
    assert_eq!(after.standing(), "-++");
    after.wait(0.001);
    assert_eq!(after.standing(), "?++");
    assert!(after.request(0, false), "the trial");
    after.wait(19.999);
    assert_eq!(after.standing(), "-++", "it is the second ejection in a row");
    after.wait(0.001);
    assert_eq!(after.standing(), "?++");
}

#[test]
fn the_last_server_of_another_process_is_not_out() {
    let mut upstream = TestUpstream::new(RULES(), 2);
    let ejected = EjectedServer { left_ms: 6_000, times: 1 };
    assert!(upstream.book.resume(ServerId(0), ejected, upstream.now_ms));
    assert!(!upstream.book.resume(ServerId(1), ejected, upstream.now_ms));
    assert_eq!(upstream.standing(), "++");
    let mut without_rules = TestUpstream::new(RULES(), 1);
    assert!(!without_rules.book.resume(ServerId(0), ejected, 0), "one alone is never ejected");
}
