//! Which exchanges make a server connection private: those with NTLM or Negotiate, which authenticate the connection.
//!
//! Every later request on such a connection is answered as that user, so no other client connection may ever have it. Must not
//! decide where the connection is kept.

use weir_http::{FieldName, ResponseHead, authenticates_connection};

use crate::exchange::exchange_state::exchange::Exchange;

/// Whether the request carries credentials that authenticate the connection it is sent on.
#[inline]
pub(in crate::exchange) fn has_credentials(exchange: &Exchange) -> bool {
    let fields = exchange.request.fields();
    let asks = fields.contains(FieldName::Authorization) || fields.contains(FieldName::ProxyAuthorization);
    asks && find_credentials(exchange)
}

#[cold]
fn find_credentials(exchange: &Exchange) -> bool {
    let (fields, text) = (exchange.request.fields(), &exchange.request_text[..]);
    let mut values = fields.all(FieldName::Authorization).chain(fields.all(FieldName::ProxyAuthorization));
    values.any(|field| authenticates_connection(field.value.of(text)))
}

/// Whether a response with this status can request authentication.
#[inline]
pub(in crate::exchange) fn may_challenge(response: &ResponseHead) -> bool {
    matches!(response.status(), 401 | 407)
}

/// Whether a response that may do so, of which `text` is the head, requests authentication of the connection, or continues it.
#[cold]
pub(in crate::exchange) fn has_challenge(response: &ResponseHead, text: &[u8]) -> bool {
    let fields = response.fields();
    let mut values = fields.all(FieldName::WwwAuthenticate).chain(fields.all(FieldName::ProxyAuthenticate));
    values.any(|field| authenticates_connection(field.value.of(text)))
}
