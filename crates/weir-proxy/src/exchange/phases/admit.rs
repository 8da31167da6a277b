//! The end of phase Request: prepares the exchange for a well-formed head, and rejects loops and unknown expectations.

use weir_http::{Expectation, FieldName, Version, via_repeats};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::stream::ClientStream;

/// Counts the request, and prepares its stream for the body.
#[inline(always)]
pub(in crate::exchange) fn begin<U>(context: &mut Context<'_, impl ClientStream, U>) {
    context.client.requests += 1;
    context.client.worker.shard.exchanges.increment();
    context.exchange.record.accounted = context.client.now;
    context.stream.begin_body(context.client, context.exchange, context.listener);
}

/// Whether Weir may forward the request.
///
/// # Errors
/// When it must not: an expectation it does not know (RFC 9110 section 10.1.1), or a loop.
#[inline(always)]
pub(in crate::exchange) fn check<S, U>(context: &Context<'_, S, U>) -> Result<(), Ended> {
    let request = &context.exchange.request;
    if request.expectation() == Expectation::Unknown && request.version() != Version::Http10 {
        return Err(Failure::client(Phase::Request, Cause::ExpectationFailed).into());
    }
    let text = &context.exchange.request_text[..];
    let mut vias = request.fields().all(FieldName::Via);
    if vias.any(|field| has_come_in_here(context, field.value.of(text))) {
        return Err(Failure::client(Phase::Request, Cause::LoopDetected).into());
    }
    Ok(())
}

/// Whether a `Via` value says that this listener had the request before. That another listener of this process had it is a way that its config
/// may take; it ends, since each listener has a request once.
#[cold]
fn has_come_in_here<S, U>(context: &Context<'_, S, U>, via: &[u8]) -> bool {
    let own_name = &context.listener.config.name;
    let is_elsewhere = |comment: &[u8]| {
        let mut others = context.config.snapshot.listeners.iter().map(|other| &other.config.name);
        comment != own_name.as_bytes() && others.any(|other| other.as_bytes() == comment)
    };
    via_repeats(via, context.listener.via_name.as_bytes(), is_elsewhere)
}
