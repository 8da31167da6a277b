//! A gRPC call on its way through the phases: its deadline, and its status in place of that of HTTP.
//!
//! Must not look into messages.

pub(in crate::exchange) mod web;
pub(in crate::exchange) mod fields;

use std::time::Duration;

use weir_config::{Feature, ProgressLimit, Stage};
use weir_http::grpc::{GrpcStatus, RetryPushback, parse_timeout};
use weir_observe::Party;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::net::clock::Instant;
use crate::state::routes::wait_limits::WaitLimits;
use crate::state::servers::upstream::outliers::AttemptOutcome;
use crate::state::snapshot::{ListenerPlan, RoutePlan, UpstreamPlan};
use crate::upstream::stream::ServerStream;

/// The longest wait before another attempt that a server may ask for: longer ones are told to the client.
const PUSHBACK_MAX: Duration = Duration::from_secs(10);

/// Recognizes the call that a request is.
#[inline(always)]
pub(in crate::exchange) fn recognize(exchange: &mut Exchange) {
    exchange.grpc = GrpcCall::from_request_head(&exchange.request, &exchange.request_text);
    if exchange.grpc.is_some() {
        acting::note(Stage::RequestHead, Feature::Grpc);
    }
}

/// Limits the time of the exchange: as its route says, and a call as its client says.
#[inline(always)]
pub(in crate::exchange) fn limit_time<S, U>(context: &mut Context<'_, S, U>, route: &RoutePlan) {
    let of_route = route.config.timeouts.exchange;
    let limit = match context.exchange.grpc {
        None => of_route,
        Some(_) => time_limit(context.exchange, context.client.now, of_route),
    };
    context.client.deadline.set_ceiling(limit.map(|limit| context.client.now + limit));
}

/// The time limit of a call that began at `now`: that of its route, or its own if that is shorter.
#[cold]
fn time_limit(exchange: &mut Exchange, now: Instant, of_route: Option<Duration>) -> Option<Duration> {
    acting::note(Stage::Route, Feature::Grpc);
    let own = time_given(exchange);
    let limit = of_route.into_iter().chain(own).min();
    if let Some(call) = &mut exchange.grpc {
        call.deadline = own.and(limit).map(|limit| now + limit);
    }
    limit
}

/// The time that the client of a call gives it, if it says so.
pub(in crate::exchange) fn time_given(exchange: &Exchange) -> Option<Duration> {
    let field = exchange.request.fields().get_by_name(&exchange.request_text, "grpc-timeout");
    field.and_then(|field| parse_timeout(field.value.of(&exchange.request_text)).ok())
}

/// Limits the silence of a call: a stream may be silent for as long as a tunnel, since its end is known by its deadline, and that of its
/// server by pings.
#[cold]
pub(in crate::exchange) fn begin(exchange: &mut Exchange, listener: &ListenerPlan, upstream: &UpstreamPlan) {
    let tunnel = upstream.config.timeouts.tunnel;
    acting::note(Stage::Upstream, Feature::Grpc);
    let silence = tunnel.map(ProgressLimit::standstill);
    let limits = listener.wait_limits(upstream);
    exchange.waits.begin(&WaitLimits { response: tunnel, relay: silence, request_body: silence, ..limits });
}

/// The status in the head of a response that has nothing else (Trailers-Only).
pub(in crate::exchange) fn status_in_head<T: ServerStream>(
    exchange: &Exchange,
    server: &T,
) -> Option<GrpcStatus> {
    if !exchange.response.body(exchange.request.method()).is_empty() {
        return None;
    }
    let head = server.head();
    let field = exchange.response.fields().get_by_name(head, "grpc-status")?;
    Some(GrpcStatus::parse(field.value.of(head)))
}

/// What the head of a response says of the server; `None` when that is told at the end of the call.
pub(in crate::exchange) fn outcome_of_head<T: ServerStream>(
    exchange: &mut Exchange,
    plans: Plans<'_>,
    server: &T,
) -> Option<AttemptOutcome> {
    let status = exchange.response.status();
    if status != 200 {
        return Some(plans.upstream.outlier_detector.classify_status(status));
    }
    let status = status_in_head(exchange, server)?;
    if let Some(call) = &mut exchange.grpc {
        call.status = Some(status);
    }
    Some(plans.upstream.outlier_detector.classify_status(status.as_http()))
}

/// Notes how long the server wants to be left alone; whether it lets the call go again at all.
pub(in crate::exchange) fn may_go_again<T: ServerStream>(exchange: &mut Exchange, server: &T) -> bool {
    let head = server.head();
    let field = exchange.response.fields().get_by_name(head, "grpc-retry-pushback-ms");
    let pushback = match field.map(|field| RetryPushback::parse(field.value.of(head))) {
        None => None,
        Some(RetryPushback::After(time)) if time <= PUSHBACK_MAX => Some(time),
        Some(RetryPushback::After(_) | RetryPushback::Never) => return false,
    };
    if let Some(call) = &mut exchange.grpc {
        call.pushback = pushback;
    }
    true
}

/// The response is over: its status is in the trailers, and says what the end of the response says of other requests.
pub(in crate::exchange) fn finish<T: ServerStream>(
    exchange: &mut Exchange,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) {
    let Some(call) = &mut exchange.grpc else { return };
    acting::note(Stage::Finish, Feature::Grpc);
    if exchange.response.status() != 200 {
        call.status.get_or_insert(GrpcStatus::from_http(exchange.response.status()));
    } else if call.status.is_none() {
        let status =
            responding.server.trailer("grpc-status", GrpcStatus::parse).unwrap_or(GrpcStatus::Unknown);
        call.status = Some(status);
        let outcome = plans.upstream.outlier_detector.classify_status(status.as_http());
        if matches!(outcome, AttemptOutcome::Failure(_)) {
            plans.server(responding.slot.server.index()).shard.outlier_failures.increment();
        }
        plans.upstream.record_outcome(responding.slot.server, outcome, call.attempt_began);
    }
}

/// The response has broken off: what its end would have said is known now.
pub(in crate::exchange) fn break_off<T>(
    exchange: &Exchange,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
    ended: Ended,
) {
    let Some(GrpcCall { status: None, attempt_began, .. }) = exchange.grpc else { return };
    if exchange.response.status() != 200 {
        // Its head has said it all.
        return;
    }
    let outcome = match ended {
        Ended::Failed(failure) if failure.party == Party::Server => AttemptOutcome::Failure(failure.into()),
        _ => AttemptOutcome::Unknown,
    };
    plans.upstream.record_outcome(responding.slot.server, outcome, attempt_began);
}
