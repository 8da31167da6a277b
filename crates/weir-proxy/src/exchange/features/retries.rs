//! Retries in place of a response: the config names statuses after which a request goes to another server.

use weir_config::{Feature, Stage};
use weir_http::Method;
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::retry::RetryCause;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::{
    AttemptFailure, AttemptHistory, FailureOrigin, HandshakeWait, RespondingServer,
};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::features::grpc;
use crate::exchange::phases::retry;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::state::tracing::recorder::Decision;
use crate::upstream::stream::ServerStream;

/// The status of a server that does not take a request before the handshake of its client is over.
const TOO_EARLY: u16 = 425;

/// Prepares another attempt behind one that has failed, as far as the condition of the upstream lets it.
///
/// # Errors
/// The failure of the attempt, when there must not be another.
#[inline]
pub(in crate::exchange) fn again<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    failed: AttemptFailure,
) -> Result<(), Ended> {
    if let Some(condition) = &plans.upstream.config.retry.when {
        history.may_repeat = condition.holds(&TemplateValues::for_attempt(context, plans, failed.server));
    }
    retry::again(context, plans, history, failed)
}

/// Prepares another attempt behind the handshake of the client, when the server does not take the request before that is over (RFC 8470 section 5.2).
/// A client that has said itself that its request is early gets the refusal, and repeats it.
#[inline(always)]
pub(in crate::exchange) fn after_handshake<T: ServerStream, S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    responding: &RespondingServer<T>,
) -> bool {
    if context.exchange.response.status() != TOO_EARLY
        || !context.stream.came_early()
        || history.handshake_wait != HandshakeWait::NotNeeded
        // What was taken of a body, and not kept, cannot be sent again.
        || !(context.exchange.request.body().is_empty() || context.exchange.replay_buffer.is_whole())
        || context
            .exchange
            .request
            .fields()
            .get_by_name(&context.exchange.request_text, "early-data")
            .is_some()
    {
        return false;
    }
    acting::note(Stage::ResponseHead, Feature::Retries);
    history.handshake_wait = HandshakeWait::Awaited;
    if let Some(used) = &mut context.exchange.cache_use {
        used.give_up_turn();
    }
    plans.server(responding.slot.server.index()).shard.responses.record(TOO_EARLY);
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    context.exchange.attempt_trace.decided(Decision::Confirmed, now);
    context.exchange.rewind();
    true
}

/// Prepares another attempt in place of the response at hand, when the config says so of its status. `false`: no
/// other server is left, and the client gets this response.
#[inline(always)]
pub(in crate::exchange) fn instead<T: ServerStream, S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    responding: &RespondingServer<T>,
) -> bool {
    let (status, method) = (context.exchange.response.status(), context.exchange.request.method());
    let policy = plans.retry();
    let cause = match context.exchange.grpc.and_then(|call| call.status) {
        Some(status) if policy.on_grpc_status.contains(&(status as u8)) => {
            if !grpc::may_go_again(context.exchange, &responding.server) {
                return false;
            }
            RetryCause::GrpcStatus(status as u8)
        }
        // No success can be among them.
        _ if status < 400 || method == Method::Connect || !policy.on_status.contains(&status) => {
            return false;
        }
        _ => RetryCause::Status(status),
    };
    acting::note(Stage::ResponseHead, Feature::Retries);
    let server = responding.slot.server;
    let failed = AttemptFailure {
        failure: Failure::server(Phase::Response, Cause::UnexpectedStatus),
        server,
        origin: FailureOrigin::Server(cause),
        sent_any: responding.sent_any,
        received_any: true,
        unread: false,
        reused: context.exchange.record.reused,
        // That of the response, until it is gone.
        slot: None,
    };
    let goes_again = again(context, plans, history, failed).is_ok();
    if goes_again {
        history.pause = context.exchange.grpc.and_then(|call| call.pushback).or(history.pause);
        plans.server(server.index()).shard.responses.record(status);
        // If that other server is gone a moment later, the failure is `no-server`, not that of this attempt.
        history.last = None;
    }
    goes_again
}
