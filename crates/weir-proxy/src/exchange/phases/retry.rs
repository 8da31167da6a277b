//! Retries: gathers the facts of a failed attempt for the decision in weir-traffic, and applies it.

use weir_config::{Feature, Stage};
use weir_observe::{Cause, Failure, ServerShard};
use weir_traffic::retry::{self, FailedAttempt, NextServer, RetryCause, RetryDecision, RetryRefusal};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::{AttemptFailure, AttemptHistory, FailureOrigin};
use crate::exchange::exchange_state::plans::Plans;
use crate::net::clock;
use crate::net::descriptors;
use crate::state::snapshot::UpstreamPlan;
use crate::state::tracing::recorder::Decision;

/// What is kept of the body of a request that goes again only if no byte of it has arrived: about as much as is on its way before the first
/// acknowledgement.
const UNREAD_BODY_MAX: usize = 16 * 1024;

/// Counts the request towards the budget, and keeps its body from now on if it may be sent again after it has reached a
/// server.
pub(in crate::exchange) fn begin<S, U>(context: &mut Context<'_, S, U>, plans: Plans<'_>) {
    let plan = plans.upstream;
    plans.config.count_towards_retries(plans.upstream_index, context.client.now);
    if context.exchange.request.body().is_empty() {
        return;
    }
    let may_go_again = plans.retry().attempts_max > 1;
    acting::note(Stage::Upstream, Feature::Retries);
    // What a server leaves unprocessed on a shared connection may go again, whatever it is.
    if plan.shares_connections() || may_go_again && plan.may_repeat(context.exchange) {
        context.exchange.replay_buffer.begin(plan.retry_body_max);
    } else if may_go_again {
        context.exchange.replay_buffer.begin(plan.retry_body_max.min(UNREAD_BODY_MAX));
    }
}

/// Prepares another attempt, with its slot if it is one on the same server.
///
/// # Errors
/// The failure of the attempt, when there must not be another.
pub(in crate::exchange) fn again<S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    failed: AttemptFailure,
) -> Result<(), Ended> {
    let plan = plans.upstream;
    let shard = &plans.server(failed.server.index()).shard;
    if !descriptors::is_local(failed.failure) {
        shard.failures.record(failed.failure.phase);
    }
    let status = match failed.origin {
        FailureOrigin::Server(retry::RetryCause::Status(status)) => status,
        FailureOrigin::Server(_) | FailureOrigin::Other => 0,
    };
    context.exchange.attempt_trace.failed(failed.failure, status, failed.sent_any, failed.received_any);
    let FailureOrigin::Server(cause) = failed.origin else { return Err(failed.failure.into()) };
    let now = clock::now();
    context.client.now = now;
    // What the attempt took is time of the phase that it failed in: left for later, it would count as the next wait or connection.
    context.exchange.record.spend(failed.failure.phase, now);
    let facts = facts_of(context.exchange, plans, history, &failed, cause);
    let millis = plan.millis(now);
    let policy = plans.retry();
    let decision = match policy.judge(&facts, || plan.retry_budget.try_take(millis)) {
        RetryDecision::Retry { counts_as_attempt: true, .. } if facts.sent_any && !history.may_repeat => {
            RetryDecision::GiveUp(RetryRefusal::NotConfigured)
        }
        decision => decision,
    };
    match decision {
        RetryDecision::GiveUp(reason) => {
            plans.upstream_shard().retries_refused[reason as usize].increment();
            context.exchange.attempt_trace.decided(Decision::GiveUp(reason), now);
            let failure = if failed.is_stale() { as_stale(failed.failure) } else { failed.failure };
            Err(failure.into())
        }
        RetryDecision::Retry { server, counts_as_attempt } => {
            if counts_as_attempt {
                count_attempt(plans, history, &facts);
                plans.upstream_shard().retries[cause.index()].increment();
                shard.retries.increment();
            } else {
                context.exchange.record.attempts -= 1;
                count_unprocessed(shard, history, cause);
            }
            go_on(context.exchange, history, failed, server);
            Ok(())
        }
    }
}

/// What the decision about another attempt depends on.
fn facts_of(
    exchange: &Exchange,
    plans: Plans<'_>,
    history: &AttemptHistory,
    failed: &AttemptFailure,
    cause: RetryCause,
) -> FailedAttempt {
    let plan = plans.upstream;
    // What other routes have tried is no matter of this one.
    let before = exchange.rerouting().and_then(|rerouting| rerouting.before);
    let (attempts_before, began) = before.unwrap_or((0, exchange.attempt_trace.first().began));
    FailedAttempt {
        cause,
        sent_any: failed.sent_any,
        received_any: failed.received_any,
        answered_any: exchange.answered,
        reused_connection: failed.reused,
        repeatable: plan.may_repeat(exchange),
        body_replayable: exchange.replay_buffer.is_whole(),
        other_server: history.leaves_other(plan, failed.server),
        untried_server: history.leaves_untried(plan, failed.server),
        was_unread: failed.unread,
        was_refused: failed.failure.cause == Cause::Refused,
        attempts: exchange.record.attempts - attempts_before - history.refused - history.unreached,
        refused: history.refused,
        unreached: history.unreached,
        stale_connections: history.stale_connections,
        unprocessed: history.unprocessed,
        // A wait in the queue before the first attempt is none of its time.
        elapsed: exchange.record.accounted.saturating_duration_since(began),
    }
}

/// Counts an attempt that was one: a server that was passed over has no pause behind it.
fn count_attempt(plans: Plans<'_>, history: &mut AttemptHistory, facts: &FailedAttempt) {
    let policy = plans.retry();
    if policy.passes_over(facts) {
        let passed = if facts.was_refused { &mut history.refused } else { &mut history.unreached };
        *passed += 1;
    } else {
        history.pause = Some(policy.pause(facts.attempts)).filter(|pause| !pause.is_zero());
    }
}

/// Counts an attempt of which the server has seen nothing.
fn count_unprocessed(shard: &ServerShard, history: &mut AttemptHistory, cause: RetryCause) {
    if cause.is_unprocessed() {
        history.unprocessed += 1;
        shard.unprocessed.increment();
    } else {
        history.stale_connections += 1;
        shard.stale_reuses.increment();
    }
}

/// Takes the exchange back to where an attempt begins, on `next`.
fn go_on(exchange: &mut Exchange, history: &mut AttemptHistory, failed: AttemptFailure, next: NextServer) {
    match next {
        NextServer::SameFresh => {}
        NextServer::OtherFirst => history.excluded.avoid(failed.server),
        NextServer::OtherOnly => history.excluded.insert(failed.server),
    }
    history.fresh = next == NextServer::SameFresh;
    let decision = if history.fresh { Decision::Fresh } else { Decision::Again };
    exchange.attempt_trace.decided(decision, exchange.record.accounted);
    history.last = Some(failed.failure);
    exchange.rewind();
    history.slot = failed.slot.filter(|_| history.fresh);
}

impl UpstreamPlan {
    /// Whether the request may be sent again although a server may have acted on it.
    pub(crate) fn may_repeat(&self, exchange: &Exchange) -> bool {
        let (method, text) = (exchange.request.method(), &exchange.request_text[..]);
        self.retry_methods.contains(method, exchange.request.method_span().of(text))
    }
}

fn as_stale(failure: Failure) -> Failure {
    Failure { cause: Cause::StaleConnection, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_reasons_have_the_same_names_everywhere() {
        let causes = [
            retry::RetryCause::Connect,
            retry::RetryCause::ConnectionError,
            retry::RetryCause::Timeout,
            retry::RetryCause::Status(503),
            retry::RetryCause::StreamRefused,
            retry::RetryCause::GoAway,
            retry::RetryCause::GrpcStatus(14),
            retry::RetryCause::Http1Required,
        ];
        for (cause, name) in causes.into_iter().zip(weir_observe::RETRY_CAUSES) {
            assert_eq!((cause.name(), weir_observe::RETRY_CAUSES[cause.index()]), (name, name));
        }
        for (reason, name) in retry::RetryRefusal::ALL.into_iter().zip(weir_observe::RETRY_REFUSALS) {
            assert_eq!((reason.name(), weir_observe::RETRY_REFUSALS[reason as usize]), (name, name));
        }
    }
}
