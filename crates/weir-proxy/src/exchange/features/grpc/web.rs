//! gRPC-Web: calls of browsers and of HTTP/1 clients, for servers that speak gRPC (`PROTOCOL-WEB.md` in the repository grpc/grpc).
//!
//! A route that asks for it makes such a request a call, whose bodies are changed on their way. Must not know how that is done.

use weir_http::Framing;

use super::fields;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::relay::filter::BodyFilter;
use crate::relay::filter::grpc_web::{GrpcWebRequest, GrpcWebResponse};

/// Makes a request of gRPC-Web a call, on a route that translates it.
#[cold]
pub(in crate::exchange) fn begin(exchange: &mut Exchange) {
    if exchange.grpc.is_none() {
        exchange.grpc = GrpcCall::from_web_request(&exchange.request, &exchange.request_text);
    }
}

/// Prepares for the body of the request, from its first byte.
pub(in crate::exchange) fn begin_request_body(exchange: &mut Exchange) {
    let Some(web) = exchange.grpc.and_then(|call| call.web) else { return };
    if web.sends_text && !exchange.request.body().is_empty() {
        exchange.request_relay.add_filter(BodyFilter::GrpcWebRequest(GrpcWebRequest::default()));
    }
}

/// Prepares for the body of the response, whose head is `head`; gives the length that it has for the client.
pub(in crate::exchange) fn begin_response_body(
    exchange: &mut Exchange,
    head: &[u8],
    length: Framing,
) -> Framing {
    let Some(web) = exchange.grpc.and_then(|call| call.web) else { return length };
    if length.is_empty() || fields::web_response_type(exchange, head).is_none() {
        return length;
    }
    exchange.response_relay.add_filter(BodyFilter::GrpcWebResponse(GrpcWebResponse::new(web.takes_text)));
    Framing::Delimited
}
