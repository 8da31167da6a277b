//! The end of phase Request: prepares the exchange for a well-formed head, and rejects loops and unknown expectations.

use weir_config::{Feature, Stage};
use weir_http::{Expectation, FieldName, Version, via_names};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::forwarded;

/// Prepares the exchange for the request it holds.
///
/// # Errors
/// When Weir must not forward it: an expectation it does not know (RFC 9110 section 10.1.1), or a loop.
pub(in crate::exchange) fn request<U>(context: &mut Context<'_, impl ClientStream, U>) -> Result<(), Ended> {
    context.client.requests += 1;
    context.client.worker.shard.exchanges.increment();
    context.exchange.record.accounted = context.client.now;
    context.exchange.grpc =
        GrpcCall::from_request_head(&context.exchange.request, &context.exchange.request_text);
    if context.exchange.grpc.is_some() {
        acting::note(Stage::RequestHead, Feature::Grpc);
    }
    context.stream.begin_body(context.client, context.exchange, context.listener);
    context.known_client_address = Some(context.client_address());
    forwarded::take_request_id(context);
    let unknown = context.exchange.request.expectation() == Expectation::Unknown;
    if unknown && context.exchange.request.version() != Version::Http10 {
        return Err(Failure::client(Phase::Request, Cause::ExpectationFailed).into());
    }
    let text = &context.exchange.request_text[..];
    let mut vias = context.exchange.request.fields().all(FieldName::Via);
    if vias.any(|field| via_names(field.value.of(text), context.listener.via_name.as_bytes())) {
        return Err(Failure::client(Phase::Request, Cause::LoopDetected).into());
    }
    Ok(())
}
