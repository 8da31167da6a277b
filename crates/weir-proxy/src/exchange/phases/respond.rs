//! Phase Relay: the response on its way to the client, and what is left of the request on its way to the server.

use std::task::{self, Poll};

use weir_observe::{Failure, Party, Phase, ServerShard};

use super::pacing;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::net::clock;
use crate::relay::WaitingFor;
use crate::relay::ends::RelayError;
use crate::relay::failure::{of_request_body, of_response_body};
use crate::relay::replay::Replay;
use crate::state::connections::activity::Activity;
use crate::upstream::stream::ServerStream;

/// Relays the response whose head is staged.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(in crate::exchange) async fn run<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
) -> Result<(), Ended> {
    let outcome = std::future::poll_fn(|cx| poll(cx, context, responding)).await;
    count_cut(plans, responding, outcome);
    outcome.map_err(Ended::Failed)
}

/// Counts a response that the server has cut short. It was a success when its head came: a server that cuts many short is found by its error
/// rate.
pub(in crate::exchange) fn count_cut<T: ServerStream>(
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
    outcome: Result<(), Failure>,
) {
    if outcome.is_err_and(|failure| failure.party == Party::Server) {
        server_shard(plans, responding).outlier_failures.increment();
    }
}

/// Accounts for the head of the response.
#[inline(always)]
pub(in crate::exchange) fn account<T: ServerStream, S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) {
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    context.exchange.record.status = context.exchange.response.status();
    context.exchange.replay_buffer.end();
    let shard = server_shard(plans, responding);
    shard.responses.record(context.exchange.record.status);
    shard.response_time.record(u64::from(context.exchange.record.times[Phase::Response]));
}

fn server_shard<'a, T>(plans: Plans<'a>, responding: &RespondingServer<T>) -> &'a ServerShard {
    &plans.server(responding.slot.server.index()).shard
}

#[inline(always)]
fn poll<T: ServerStream, U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    responding: &mut RespondingServer<T>,
) -> Poll<Result<(), Failure>> {
    let (relay, stock) = (&mut context.exchange.response_relay, &context.client.worker.stock);
    match responding.server.poll_response(cx, relay, &mut context.stream.reply(), stock) {
        Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_response_body(&error))),
        Poll::Pending => {}
    }
    let sending = !context.exchange.request_relay.is_done() && !responding.send_failed;
    if sending {
        let mut source =
            Replay { kept: &mut context.exchange.replay_buffer, body: context.stream.body(context.client) };
        match responding.server.poll_request(cx, &mut context.exchange.request_relay, &mut source) {
            // The server has answered and reads no further: its answer counts.
            Poll::Ready(Err(RelayError::Write(_))) => responding.send_failed = true,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_request_body(&error))),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
    }
    let sending = sending && !context.exchange.request_relay.is_done() && !responding.send_failed;
    let (awaited, moved) = match context.exchange.response_relay.waiting {
        WaitingFor::Turn => return pacing::poll_turn(cx, context).map(Err),
        WaitingFor::Sink => (Activity::ClientTakes, context.stream.taken()),
        WaitingFor::Source if sending && context.exchange.request_relay.waiting == WaitingFor::Source => {
            (Activity::RequestBody, context.exchange.request_relay.moved)
        }
        WaitingFor::Source => {
            if let Some(cause) = if sending { None } else { context.stream.poll_reset(cx, context.client) } {
                return Poll::Ready(Err(Failure::client(Phase::Relay, cause)));
            }
            (Activity::ResponseBody, context.exchange.response_relay.taken())
        }
    };
    context.report(awaited);
    context.poll_over(awaited, moved).map(Err)
}
