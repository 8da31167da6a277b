//! Retries: the decision as a table, its laws over all facts there can be, and the budget.

use super::*;

/// A GET that broke on a new connection after it was sent: the first attempt.
const BROKEN_GET: FailedAttempt = FailedAttempt {
    cause: RetryCause::ConnectionError,
    sent_any: true,
    received_any: false,
    answered_any: false,
    reused_connection: false,
    repeatable: true,
    body_replayable: true,
    other_server: true,
    untried_server: true,
    was_unread: false,
    was_refused: false,
    attempts: 1,
    refused: 0,
    unreached: 0,
    stale_connections: 0,
    unprocessed: 0,
    elapsed: Duration::ZERO,
};

const SAME: RetryDecision = RetryDecision::Retry { server: NextServer::SameFresh, counts_as_attempt: false };
/// As an attempt, but for free.
const OTHER_FREE: RetryDecision =
    RetryDecision::Retry { server: NextServer::OtherFirst, counts_as_attempt: false };
const OTHER_FIRST: RetryDecision =
    RetryDecision::Retry { server: NextServer::OtherFirst, counts_as_attempt: true };
const OTHER_ONLY: RetryDecision =
    RetryDecision::Retry { server: NextServer::OtherOnly, counts_as_attempt: true };

fn judge(policy: &RetryPolicy, failed: FailedAttempt) -> RetryDecision {
    policy.judge(&failed, || true)
}

#[test]
fn the_default_policy_case_by_case() {
    let get = BROKEN_GET;
    let post = FailedAttempt { repeatable: false, ..get };
    let unsent = |failed| FailedAttempt { sent_any: false, ..failed };
    let refused = |failed| FailedAttempt { cause: RetryCause::Connect, sent_any: false, ..failed };
    let reused = |failed| FailedAttempt { reused_connection: true, ..failed };
    let unread = |failed| FailedAttempt { was_unread: true, ..failed };
    let give_up = RetryDecision::GiveUp;
    for (case, failed, expected) in [
        ("GET, refused", refused(get), OTHER_FIRST),
        ("POST, refused", refused(post), OTHER_FIRST),
        ("GET, broken", get, OTHER_FIRST),
        ("POST, broken", post, give_up(RetryRefusal::NotIdempotent)),
        ("POST, broken before a byte was sent", unsent(post), OTHER_FIRST),
        ("GET, stale connection", reused(get), SAME),
        ("POST, stale connection", reused(post), give_up(RetryRefusal::NotIdempotent)),
        ("POST, stale connection found before a byte was sent", reused(unsent(post)), SAME),
        ("POST, stale connection that was closed before a byte arrived", unread(reused(post)), SAME),
        (
            "POST, the same with a body that is gone",
            FailedAttempt { body_replayable: false, ..unread(reused(post)) },
            give_up(RetryRefusal::BodyNotReplayable),
        ),
        (
            "POST, closed before a byte arrived, new connection",
            unread(post),
            give_up(RetryRefusal::NotIdempotent),
        ),
        (
            "POST, the same for the second time in an attempt",
            FailedAttempt { stale_connections: 1, ..unread(reused(post)) },
            give_up(RetryRefusal::NotIdempotent),
        ),
        (
            "GET, kept connection broke in the head",
            FailedAttempt { received_any: true, ..reused(get) },
            OTHER_FIRST,
        ),
        ("GET, no answer in time", FailedAttempt { cause: RetryCause::Timeout, ..get }, OTHER_ONLY),
        (
            "GET, no answer in time on a kept connection",
            FailedAttempt { cause: RetryCause::Timeout, ..reused(get) },
            OTHER_ONLY,
        ),
        (
            "GET, no answer in time from the only server",
            FailedAttempt { cause: RetryCause::Timeout, other_server: false, ..get },
            give_up(RetryRefusal::NoOtherServer),
        ),
        ("GET, the only server broke", FailedAttempt { other_server: false, ..get }, OTHER_FIRST),
        (
            "GET, 503",
            FailedAttempt { cause: RetryCause::Status(503), received_any: true, ..get },
            give_up(RetryRefusal::NotConfigured),
        ),
        (
            "GET, broken in the body",
            FailedAttempt { received_any: true, answered_any: true, ..get },
            give_up(RetryRefusal::ResponseStarted),
        ),
        (
            "PUT, body gone",
            FailedAttempt { body_replayable: false, ..get },
            give_up(RetryRefusal::BodyNotReplayable),
        ),
        (
            "PUT, body gone, stale",
            FailedAttempt { body_replayable: false, ..reused(get) },
            give_up(RetryRefusal::BodyNotReplayable),
        ),
        (
            "GET, second attempt broken",
            FailedAttempt { attempts: 2, ..get },
            give_up(RetryRefusal::AttemptsExhausted),
        ),
        ("GET, second attempt stale", FailedAttempt { attempts: 2, ..reused(get) }, SAME),
        ("GET, stale twice", FailedAttempt { stale_connections: 1, ..reused(get) }, OTHER_FIRST),
        (
            "GET, both attempts stale",
            FailedAttempt { attempts: 2, stale_connections: 1, ..reused(get) },
            SAME,
        ),
        (
            "GET, stale three times",
            FailedAttempt { attempts: 2, stale_connections: 2, ..reused(get) },
            give_up(RetryRefusal::AttemptsExhausted),
        ),
        (
            "GET, unanswered for a minute",
            FailedAttempt { cause: RetryCause::Timeout, elapsed: Duration::from_secs(61), ..get },
            OTHER_ONLY,
        ),
        (
            "GET, after a minute and a half",
            FailedAttempt { elapsed: Duration::from_secs(90), ..get },
            give_up(RetryRefusal::TimeLimit),
        ),
        (
            "GET, stale after a minute and a half",
            FailedAttempt { elapsed: Duration::from_secs(90), ..reused(get) },
            SAME,
        ),
    ] {
        let policy = RetryPolicy { on_timeout: true, ..RetryPolicy::default() };
        assert_eq!(judge(&policy, failed), expected, "{case}");
    }
}

#[test]
fn a_call_goes_again_whose_status_is_listed() {
    let call = FailedAttempt { repeatable: false, received_any: true, ..BROKEN_GET };
    let policy = RetryPolicy { on_grpc_status: vec![8, 14], ..RetryPolicy::default() };
    let with = |status| FailedAttempt { cause: RetryCause::GrpcStatus(status), ..call };
    assert_eq!(judge(&policy, with(14)), OTHER_FIRST);
    assert_eq!(judge(&policy, with(13)), RetryDecision::GiveUp(RetryRefusal::NotConfigured));
    let last = FailedAttempt { attempts: 2, ..with(14) };
    assert_eq!(judge(&policy, last), RetryDecision::GiveUp(RetryRefusal::AttemptsExhausted));
}

#[test]
fn what_no_server_has_processed_goes_again_whatever_it_is() {
    let post = FailedAttempt { repeatable: false, attempts: 9, elapsed: Duration::MAX, ..BROKEN_GET };
    let never = RetryPolicy { attempts_max: 1, on_connection_error: false, ..RetryPolicy::default() };
    for (cause, expected) in [
        (RetryCause::StreamRefused, OTHER_FREE),
        (RetryCause::GoAway, SAME),
        (RetryCause::Http1Required, SAME),
    ] {
        let left = FailedAttempt { cause, ..post };
        assert_eq!(never.judge(&left, || panic!("it is free")), expected, "{cause:?}");
        let often = FailedAttempt { unprocessed: UNPROCESSED_MAX, ..left };
        assert_eq!(judge(&never, often), RetryDecision::GiveUp(RetryRefusal::AttemptsExhausted));
        let gone = FailedAttempt { body_replayable: false, ..left };
        assert_eq!(judge(&never, gone), RetryDecision::GiveUp(RetryRefusal::BodyNotReplayable));
        let answered = FailedAttempt { answered_any: true, ..left };
        assert_eq!(judge(&never, answered), RetryDecision::GiveUp(RetryRefusal::ResponseStarted));
    }
}

/// After a rollout or a scaling down, a source may still name many servers that are gone.
#[test]
fn servers_that_nothing_reaches_are_passed_over() {
    let policy = RetryPolicy::default();
    let refused =
        FailedAttempt { cause: RetryCause::Connect, sent_any: false, was_refused: true, ..BROKEN_GET };
    let exhausted = RetryDecision::GiveUp(RetryRefusal::AttemptsExhausted);
    // A POST, too: it has reached no server.
    let often = FailedAttempt { attempts: 2, refused: 30, repeatable: false, ..refused };
    assert_eq!(policy.judge(&often, || panic!("it is free")), OTHER_FIRST);
    assert!(policy.passes_over(&often));
    assert_eq!(judge(&policy, FailedAttempt { refused: REFUSED_MAX, ..often }), exhausted);
    // It has been to all of them.
    assert_eq!(judge(&policy, FailedAttempt { untried_server: false, ..often }), exhausted);
    // What takes time has a smaller limit.
    let late = FailedAttempt { was_refused: false, unreached: UNREACHED_MAX - 1, ..often };
    assert_eq!(judge(&policy, late), OTHER_FIRST);
    assert_eq!(judge(&policy, FailedAttempt { unreached: UNREACHED_MAX, ..late }), exhausted);
    assert_eq!(
        judge(&policy, FailedAttempt { elapsed: policy.elapsed_max, ..often }),
        RetryDecision::GiveUp(RetryRefusal::TimeLimit)
    );
    // A server that was reached is an attempt.
    let broke = FailedAttempt { attempts: 2, untried_server: true, ..BROKEN_GET };
    assert_eq!(judge(&policy, broke), exhausted);
    // No retries are no retries.
    let never = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
    assert_eq!(judge(&never, FailedAttempt { attempts: 1, refused: 0, ..often }), exhausted);
}

/// The server may be at work, or wait for news that the client asked for.
#[test]
fn an_answer_that_is_late_is_asked_for_again_on_request_only() {
    let late = FailedAttempt { cause: RetryCause::Timeout, ..BROKEN_GET };
    assert_eq!(judge(&RetryPolicy::default(), late), RetryDecision::GiveUp(RetryRefusal::NotConfigured));
    let unsent = FailedAttempt { sent_any: false, ..late };
    assert_eq!(judge(&RetryPolicy::default(), unsent), OTHER_ONLY);
}

#[test]
fn the_policy_decides_what_is_repeated() {
    let failed = |cause| FailedAttempt { cause, ..BROKEN_GET };
    let policy = |edit: fn(&mut RetryPolicy)| {
        let mut policy = RetryPolicy::default();
        edit(&mut policy);
        policy
    };
    let never = policy(|policy| policy.attempts_max = 1);
    assert_eq!(
        judge(&never, failed(RetryCause::ConnectionError)),
        RetryDecision::GiveUp(RetryRefusal::AttemptsExhausted)
    );
    let stale = FailedAttempt { reused_connection: true, ..BROKEN_GET };
    assert_eq!(judge(&never, stale), SAME, "a stale connection is not an attempt");

    let connect_only = policy(|policy| (policy.on_connection_error, policy.on_timeout) = (false, false));
    for cause in [RetryCause::ConnectionError, RetryCause::Timeout] {
        assert_eq!(judge(&connect_only, failed(cause)), RetryDecision::GiveUp(RetryRefusal::NotConfigured));
        let unsent = FailedAttempt { sent_any: false, ..failed(cause) };
        assert!(
            matches!(judge(&connect_only, unsent), RetryDecision::Retry { .. }),
            "nothing was sent: as a failed connect"
        );
    }

    let statuses = policy(|policy| policy.on_status = vec![502, 503]);
    assert_eq!(judge(&statuses, failed(RetryCause::Status(503))), OTHER_ONLY);
    let alone = FailedAttempt { other_server: false, ..failed(RetryCause::Status(503)) };
    assert_eq!(judge(&statuses, alone), RetryDecision::GiveUp(RetryRefusal::NoOtherServer));
    assert_eq!(
        judge(&statuses, failed(RetryCause::Status(500))),
        RetryDecision::GiveUp(RetryRefusal::NotConfigured)
    );
}

#[test]
fn the_budget_is_checked_last_and_once() {
    let policy = RetryPolicy::default();
    let refused = policy.judge(&BROKEN_GET, || false);
    assert_eq!(refused, RetryDecision::GiveUp(RetryRefusal::BudgetExhausted));
    let nothing_sent = FailedAttempt { cause: RetryCause::Connect, sent_any: false, ..BROKEN_GET };
    assert_eq!(policy.judge(&nothing_sent, || false), OTHER_FIRST, "no server has had it");
    for failed in all_facts() {
        let mut asked = 0;
        let verdict = policy.judge(&failed, || {
            asked += 1;
            true
        });
        let counted = matches!(verdict, RetryDecision::Retry { counts_as_attempt: true, .. });
        assert_eq!(asked, i32::from(counted && failed.sent_any), "{failed:?}");
    }
}

/// What must never happen, whatever the facts.
#[test]
fn no_combination_of_facts_breaks_the_invariants() {
    let eager = RetryPolicy {
        attempts_max: 3,
        elapsed_max: Duration::MAX,
        on_connection_error: true,
        on_timeout: true,
        on_status: vec![503],
        on_grpc_status: vec![14],
        ..RetryPolicy::default()
    };
    let mut retried = 0;
    for failed in all_facts() {
        let RetryDecision::Retry { server, counts_as_attempt } = judge(&eager, failed) else { continue };
        retried += 1;
        assert!(!failed.answered_any, "the client has part of an answer: {failed:?}");
        assert!(
            failed.repeatable
                || !failed.sent_any
                || failed.cause.is_unprocessed()
                || failed.was_unread && failed.reused_connection && !failed.received_any
                || failed.cause == RetryCause::GrpcStatus(14),
            "an effect could happen twice: {failed:?}"
        );
        assert!(failed.body_replayable, "the body is not complete: {failed:?}");
        if counts_as_attempt {
            assert!(failed.attempts < 3 || eager.passes_over(&failed), "{failed:?}");
            assert_ne!(server, NextServer::SameFresh, "{failed:?}");
            assert!(failed.other_server || server == NextServer::OtherFirst, "there is no other: {failed:?}");
        } else if failed.cause.is_unprocessed() {
            assert!(failed.unprocessed < UNPROCESSED_MAX, "{failed:?}");
        } else {
            assert_eq!(server, NextServer::SameFresh, "{failed:?}");
            assert!(
                failed.reused_connection && !failed.received_any,
                "only a stale connection is free: {failed:?}"
            );
            assert!(failed.stale_connections < failed.attempts, "and once per attempt: {failed:?}");
        }
    }
    assert!(retried > 100, "{retried}");
}

fn all_facts() -> impl Iterator<Item = FailedAttempt> {
    let causes = [
        RetryCause::Connect,
        RetryCause::ConnectionError,
        RetryCause::Timeout,
        RetryCause::Status(503),
        RetryCause::Status(500),
        RetryCause::StreamRefused,
        RetryCause::GoAway,
        RetryCause::Http1Required,
        RetryCause::GrpcStatus(14),
        RetryCause::GrpcStatus(13),
    ];
    let flags = 0..1_u32 << 7;
    flags.flat_map(move |flags| {
        causes.into_iter().flat_map(move |cause| {
            (1..=4).flat_map(move |attempts| {
                (0..=4).map(move |stale_connections| FailedAttempt {
                    cause,
                    sent_any: flags & 1 != 0,
                    received_any: flags & 2 != 0,
                    answered_any: flags & 4 != 0,
                    reused_connection: flags & 8 != 0,
                    repeatable: flags & 16 != 0,
                    body_replayable: flags & 32 != 0,
                    other_server: flags & 64 != 0,
                    untried_server: flags & 64 != 0,
                    was_unread: flags & 128 != 0,
                    was_refused: flags & 1 == 0,
                    attempts,
                    refused: stale_connections * 16,
                    unreached: stale_connections,
                    stale_connections,
                    unprocessed: stale_connections * 2,
                    elapsed: Duration::ZERO,
                })
            })
        })
    })
}

#[test]
fn the_budget_is_a_share_of_the_requests_of_the_window() {
    let budget = RetryBudget::new(20, 0);
    assert!(!budget.try_take(0), "no requests, no retries");
    for request in 0..100 {
        budget.record_request(request * 100);
    }
    // Now is second 9: the window holds all 100.
    let taken = (0..100).filter(|_| budget.try_take(9_999)).count();
    assert_eq!(taken, 20);
    assert_eq!(budget.left(9_999), 0);
    assert!(!budget.try_take(10_000), "90 requests, 20 retries");
    for _ in 0..60 {
        budget.record_request(10_500);
    }
    assert_eq!(budget.left(10_999), 10, "150 requests, 20 retries");
    assert_eq!(budget.left(18_999), 0, "70 requests in the window, and still the 20 retries of second 9");
    assert_eq!(budget.left(19_000), 12, "60 requests, no retries");
    assert_eq!(budget.left(60_000), 0);
}

#[test]
fn the_least_serves_a_quiet_upstream() {
    let budget = RetryBudget::new(0, 2);
    assert_eq!((0..100).filter(|_| budget.try_take(5_000)).count(), 20, "two a second for ten seconds");
    assert!(!budget.try_take(14_999));
    assert!(budget.try_take(15_000), "the window has moved on");
}

/// A thousand nodes have a thousand leasts: where there is traffic, they must not add to its share.
#[test]
fn the_least_adds_nothing_to_a_larger_share() {
    for (requests, retries) in [(0, 20), (99, 20), (100, 20), (105, 21), (1_000, 200)] {
        let budget = RetryBudget::new(20, 2);
        budget.record_requests(requests, 5_000);
        assert_eq!(budget.left(5_000), retries, "{requests} requests");
        assert_eq!(
            (0..300).filter(|_| budget.try_take(5_000)).count() as u64,
            retries,
            "{requests} requests"
        );
    }
}

#[test]
fn an_outage_is_not_amplified() {
    let budget = RetryBudget::default();
    let (mut requests, mut retries) = (0_u64, 0_u64);
    // 100 seconds of 1 000 requests each, all of which fail.
    for now_ms in 0..100_000 {
        budget.record_request(now_ms);
        requests += 1;
        retries += u64::from(budget.try_take(now_ms));
    }
    let allowed = requests / 5;
    assert!((allowed - 300..=allowed).contains(&retries), "{retries} retries of {requests}");
}

#[test]
fn threads_together_keep_within_the_budget() {
    let budget = RetryBudget::new(10, 0);
    for _ in 0..1_000 {
        budget.record_request(500);
    }
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..200).filter(|_| budget.try_take(900)).count())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(
        (97..=100).contains(&taken),
        "{taken}: never more, and at most the threads' own last tries fewer"
    );
}

#[test]
fn a_lone_server_is_asked_again_where_the_policy_allows_it() {
    let policy = RetryPolicy {
        on_timeout: true,
        on_status: vec![503],
        same_server: true,
        attempts_max: 3,
        ..RetryPolicy::default()
    };
    for cause in [RetryCause::Timeout, RetryCause::Status(503)] {
        let failed = FailedAttempt { cause, other_server: false, ..BROKEN_GET };
        assert_eq!(judge(&policy, failed), OTHER_FIRST);
        assert_eq!(judge(&policy, FailedAttempt { attempts: 2, ..failed }), OTHER_FIRST);
        let exhausted = FailedAttempt { attempts: 3, ..failed };
        assert_eq!(judge(&policy, exhausted), RetryDecision::GiveUp(RetryRefusal::AttemptsExhausted));
        let elsewhere = RetryPolicy { same_server: false, ..policy.clone() };
        assert_eq!(judge(&elsewhere, failed), RetryDecision::GiveUp(RetryRefusal::NoOtherServer));
    }
}

#[test]
fn pauses_double_up_to_a_limit() {
    let policy = RetryPolicy { backoff: Duration::from_millis(25), ..RetryPolicy::default() };
    let pauses: Vec<u128> = (1..=6).map(|attempts| policy.pause(attempts).as_millis()).collect();
    assert_eq!(pauses, [25, 50, 100, 200, 200, 200]);
    assert_eq!(RetryPolicy::default().pause(3), Duration::ZERO);
    assert_eq!(policy.pause(u32::MAX), Duration::from_millis(200));
}
