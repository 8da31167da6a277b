//! The response of a server, taken as fast as the server gives it: its slot is free before a slow client has everything.

use std::future::poll_fn;
use std::task::{self, Poll};
use weir_config::{Feature, Stage};

use weir_observe::{Cause, Failure, Party, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::{headers, mirror};
use crate::exchange::phases::end::End;
use crate::exchange::phases::{finish, pacing, respond};
use crate::net::clock;
use crate::relay::ends::RelayError;
use crate::relay::failure::of_response_body;
use crate::relay::spool::{Spool, SpoolSink, SpoolSource};
use crate::relay::{Relay, WaitingFor};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::{ServerStream, Servers};

/// Whether the response is to be taken in. The end of a call of gRPC is a matter of its stream.
#[inline]
pub(in crate::exchange) fn is_wanted(exchange: &Exchange, route: &RoutePlan) -> bool {
    route.config.buffer_responses.is_some() && exchange.grpc.is_none()
}

/// Relays the response that `responding` has begun, and gives the server free as soon as it has said everything.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(in crate::exchange) async fn run<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    mut responding: RespondingServer<U::Stream>,
) -> Result<End, Ended> {
    let Some(limits) = &plans.route.config.buffer_responses else { return Ok(End::Closed) };
    acting::note(Stage::ResponseHead, Feature::Buffering);
    headers::response::begin(context, plans, &mut responding);
    mirror::observe_bodies(context, plans);
    let mut spool = Spool::new(limits.memory.as_usize(), limits.file.bytes());
    let mut taking = Relay::new();
    let taken = poll_fn(|cx| poll_both(cx, context, &mut responding, (&mut taking, &mut spool))).await;
    // A server that answers before it has the whole request: the rest is not sent.
    if taken.is_ok() && context.exchange.request_relay.is_done() {
        finish::run(context, plans, responding);
    } else {
        respond::count_cut(plans, &responding, taken);
        context.exchange.record.sent_to_server += responding.server.sent();
        context.servers.drop_stream(responding.server);
        if !context.exchange.request_relay.is_done() && !context.stream.discard_body(context.client) {
            context.stream.close_after();
        }
    }
    if let Err(failure) = taken {
        if is_cut(failure) {
            // On the heap, since it is rare and would make every exchange larger.
            Box::pin(poll_fn(|cx| poll_cut(cx, context, &mut spool))).await?;
        }
        return Err(failure.into());
    }
    let place = usize::from(spool.has_file());
    context.client.worker.shard.responses_buffered[place].increment();
    poll_fn(|cx| poll_client(cx, context, &mut spool)).await?;
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Relay, now);
    Ok(End::Done)
}

/// Whether the server has cut its response short: what came before that is for the client.
fn is_cut(failure: Failure) -> bool {
    failure.party == Party::Server && !matches!(failure.cause, Cause::Rule(_))
}

/// Takes from the server and gives to the client, until the server has said everything.
fn poll_both<T: ServerStream, U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    responding: &mut RespondingServer<T>,
    (taking, spool): (&mut Relay, &mut Spool),
) -> Poll<Result<(), Failure>> {
    loop {
        let stock = &context.client.worker.stock;
        match responding.server.poll_response(cx, taking, &mut SpoolSink(spool), stock) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            // The file, not the client.
            Poll::Ready(Err(RelayError::Write(_))) => {
                return Poll::Ready(Err(Failure::weir(Phase::Relay, Cause::Io)));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_response_body(&error))),
            Poll::Pending => {}
        }
        let given = context.exchange.response_relay.taken();
        let polled =
            context.exchange.response_relay.poll(cx, &mut SpoolSource(spool), &mut context.stream.reply());
        if let Poll::Ready(Err(error)) = polled {
            return Poll::Ready(Err(of_spool(&error)));
        }
        // What was taken for the client may be room that the server waits for.
        if taking.waiting == WaitingFor::Source || context.exchange.response_relay.taken() == given {
            break;
        }
    }
    let (awaited, moved) = match context.exchange.response_relay.waiting {
        WaitingFor::Turn => return pacing::poll_turn(cx, context).map(Err),
        WaitingFor::Sink => (Activity::ClientTakes, context.stream.taken()),
        WaitingFor::Source => {
            if let Some(cause) = context.stream.poll_reset(cx, context.client) {
                return Poll::Ready(Err(Failure::client(Phase::Relay, cause)));
            }
            (Activity::ResponseBody, taking.moved)
        }
    };
    context.report(awaited);
    context.poll_over(awaited, moved).map(Err)
}

/// Gives the client what is left.
fn poll_client<U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    spool: &mut Spool,
) -> Poll<Result<(), Failure>> {
    match context.exchange.response_relay.poll(cx, &mut SpoolSource(spool), &mut context.stream.reply()) {
        Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_spool(&error))),
        Poll::Pending => {}
    }
    let (awaited, moved) = match context.exchange.response_relay.waiting {
        WaitingFor::Turn => return pacing::poll_turn(cx, context).map(Err),
        WaitingFor::Sink => (Activity::ClientTakes, context.stream.taken()),
        WaitingFor::Source => (Activity::Disk, context.exchange.response_relay.taken()),
    };
    context.report(awaited);
    context.poll_over(awaited, moved).map(Err)
}

/// Gives the client what came before the server has cut the body.
fn poll_cut<U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    spool: &mut Spool,
) -> Poll<Result<(), Failure>> {
    let polled = poll_client(cx, context, spool);
    // What was given to the sink has left before the relay waits for more.
    let has_all = context.exchange.response_relay.waiting == WaitingFor::Source && spool.is_drained();
    if polled.is_pending() && has_all { Poll::Ready(Ok(())) } else { polled }
}

/// What comes from the spool fails with the file only, or is not encoded as its head says.
fn of_spool(error: &RelayError) -> Failure {
    match error {
        RelayError::Write(_) | RelayError::Broken(_) => of_response_body(error),
        _ => Failure::weir(Phase::Relay, Cause::Io),
    }
}
