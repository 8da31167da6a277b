//! The body of a request, taken in before a server is chosen: a slow client then holds no slot.

use std::future::poll_fn;
use std::task::{self, Poll};
use weir_config::{Feature, Stage};

use weir_http::Framing;
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::{ClientStream, Status};
use crate::relay::ends::{RelayError, Sink as _};
use crate::relay::failure::of_request_body;
use crate::relay::replay::Gathered;
use crate::state::connections::activity::Activity;
use crate::state::snapshot::RoutePlan;

/// Whether the body is to be taken in. The messages of a call of gRPC may wait for answers.
#[inline]
pub(in crate::exchange) fn is_wanted(exchange: &Exchange, route: &RoutePlan) -> bool {
    route.config.buffer_requests.is_some() && !exchange.request.body().is_empty() && exchange.grpc.is_none()
}

/// Takes the body in, as far as it may be kept.
///
/// # Errors
/// When the client fails or is too slow, or the file cannot be written.
pub(in crate::exchange) async fn take_request<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
) -> Result<(), Ended> {
    let Some(limits) = &plans.route.config.buffer_requests else { return Ok(()) };
    acting::note(Stage::Upstream, Feature::Buffering);
    if context.exchange.request.expects_continue() {
        // Nothing but Weir can ask for the body now (RFC 9110 section 10.1.1).
        context.exchange.body_was_asked_for = true;
        context.stream.interim(context.exchange, Status { code: 100, reason: b"Continue" }, |_| {});
    }
    // Copies are made of what is in memory, up to their own limit.
    let kept_max = context.exchange.mirror.as_ref().map_or(0, |mirrored| mirrored.kept_max);
    let maxima = (limits.memory.as_usize().max(kept_max), limits.file.bytes());
    let gathered = poll_fn(|cx| poll(cx, context, maxima)).await?;
    let place = match gathered {
        Gathered::Memory => 0,
        Gathered::File => 1,
        Gathered::Partly => 2,
    };
    context.client.worker.shard.bodies_buffered[place].increment();
    context.exchange.replay_buffer.begin_gathered();
    if plans.upstream.speaks_fastcgi() && context.exchange.request.body() == Framing::Delimited {
        if gathered == Gathered::Partly {
            // Its length is needed before its first byte, and there is no room to measure it.
            return Err(Failure::client(Phase::Request, Cause::BodyTooLarge).into());
        }
        context.exchange.request.set_body_length(context.exchange.replay_buffer.gathered_len());
    }
    Ok(())
}

fn poll<U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    maxima: (usize, u64),
) -> Poll<Result<Gathered, Failure>> {
    if context.exchange.body_was_asked_for {
        let mut sink = context.stream.reply();
        while sink.is_waiting() && matches!(sink.poll_write(cx, &[]), Poll::Ready(Ok(_))) {}
    }
    let polled =
        context.exchange.replay_buffer.poll_gather(cx, &mut context.stream.body(context.client), maxima);
    match polled {
        Poll::Ready(Ok(gathered)) => Poll::Ready(Ok(gathered)),
        // The file, not a server.
        Poll::Ready(Err(RelayError::Write(_))) => Poll::Ready(Err(Failure::weir(Phase::Request, Cause::Io))),
        Poll::Ready(Err(error)) => Poll::Ready(Err(of_request_body(&error))),
        Poll::Pending => {
            let received = context.stream.body_received();
            context.report(Activity::RequestBody);
            context.poll_over(Activity::RequestBody, received).map(Err)
        }
    }
}
