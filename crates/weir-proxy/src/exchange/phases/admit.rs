//! The end of phase Request: prepares the exchange for a well-formed head, and rejects loops and unknown expectations.

use weir_http::{Expectation, FieldName, Version, via_names};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::forwarded;
use crate::state::snapshot::ListenerPlan;

/// Prepares the exchange for the request it holds.
///
/// # Errors
/// When Weir must not forward it: an expectation it does not know (RFC 9110 section 10.1.1), or a loop.
pub(crate) fn request(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    listener: &ListenerPlan,
) -> Result<(), Ended> {
    client.requests += 1;
    client.worker.shard.exchanges.increment();
    exchange.record.accounted = client.now;
    exchange.grpc = GrpcCall::from_request_head(&exchange.request, &exchange.request_text);
    stream.begin_body(client, exchange, listener);
    forwarded::take_request_id(client, exchange, listener);
    let unknown = exchange.request.expectation() == Expectation::Unknown;
    if unknown && exchange.request.version() != Version::Http10 {
        return Err(Failure::client(Phase::Request, Cause::ExpectationFailed).into());
    }
    let text = &exchange.request_text[..];
    let mut vias = exchange.request.fields().all(FieldName::Via);
    if vias.any(|field| via_names(field.value.of(text), listener.via_name.as_bytes())) {
        return Err(Failure::client(Phase::Request, Cause::LoopDetected).into());
    }
    Ok(())
}
