//! The end of phase Request: what a well-formed head means for the session, and which requests go no further.

use weir_http::{Expectation, FieldName, Method, RequestBody, Version, via_names};
use weir_observe::{Cause, Failure, Phase};

use super::{Ended, Exchange, forwarded};
use crate::downstream::session::Session;
use crate::relay::reframe::Incoming;
use crate::state::snapshot::ListenerPlan;

/// Prepares the exchange for the request it holds.
///
/// # Errors
/// When Weir must not forward it: an expectation it does not know (RFC 9110 section 10.1.1), or a loop.
pub(crate) fn request(
    session: &mut Session,
    exchange: &mut Exchange,
    listener: &ListenerPlan,
) -> Result<(), Ended> {
    session.requests += 1;
    session.worker.shard.exchanges.increment();
    exchange.record.accounted = session.now;
    exchange.keep_alive = may_go_on(session, exchange, listener);
    exchange.request_body = match exchange.request.body() {
        RequestBody::None => Incoming::nothing(),
        RequestBody::Length(len) => Incoming::length(len),
        RequestBody::Chunked => {
            Incoming::chunked(listener.chunked_limits).stripping(listener.stripped(session.peer))
        }
    };
    forwarded::take_request_id(session, exchange, listener);
    let unknown = exchange.request.expectation() == Expectation::Unknown;
    if unknown && exchange.request.version() == Version::Http11 {
        return Err(Failure::client(Phase::Request, Cause::ExpectationFailed).into());
    }
    let text = &exchange.request_text[..];
    let mut vias = exchange.request.fields().all(FieldName::Via);
    if vias.any(|field| via_names(field.value.of(text), listener.via_name.as_bytes())) {
        return Err(Failure::client(Phase::Request, Cause::LoopDetected).into());
    }
    Ok(())
}

/// Whether another request may follow on this connection.
fn may_go_on(session: &Session, exchange: &Exchange, listener: &ListenerPlan) -> bool {
    let used_up = listener.config.limits.requests_per_session.is_some_and(|max| session.requests >= max);
    let aged = session.ends_at().is_some_and(|end| end <= session.now);
    // RFC 9931: what stands behind a CONNECT that is refused was meant for the tunnel.
    let connects = exchange.request.method() == Method::Connect;
    exchange.request.keep_alive() && !connects && !used_up && !aged && !session.is_ending()
}
