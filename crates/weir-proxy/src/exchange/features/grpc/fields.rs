//! What a gRPC call changes in the heads that pass: the time that is left, and the content types of gRPC-Web.

use weir_config::{Feature, Stage};
use weir_http::grpc::{GrpcContentType, GrpcProtocol, write_timeout};
use weir_http::{FieldName, FieldWriter};

use crate::exchange::acting;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::net::clock::Instant;

/// Whether the server gets this field of the request in another form.
pub(in crate::exchange) fn replaces_in_request(call: &GrpcCall, name: &[u8]) -> bool {
    call.deadline.is_some() && name.eq_ignore_ascii_case(b"grpc-timeout")
        || call.web.is_some() && name.eq_ignore_ascii_case(b"content-type")
}

/// Adds the fields that the server gets in another form.
#[cold]
pub(in crate::exchange) fn write_request(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    now: Instant,
    changes: HeadChanges<'_>,
) {
    let Some(call) = &exchange.grpc else { return };
    acting::note(Stage::Server, Feature::Grpc);
    if let Some(deadline) = call.deadline
        && changes.leave(b"grpc-timeout")
    {
        // 0 is no time limit to some servers.
        let left = deadline.saturating_duration_since(now).max(std::time::Duration::from_nanos(1));
        out.field_with(b"grpc-timeout", |value| write_timeout(value, left));
    }
    let content_type = exchange.request.fields().first(FieldName::ContentType);
    let content_type =
        content_type.and_then(|field| GrpcContentType::parse(field.value.of(&exchange.request_text)));
    if let Some(content_type) = content_type
        && call.web.is_some()
        && changes.leave(b"content-type")
    {
        let of_server = GrpcContentType { protocol: GrpcProtocol::Grpc, ..content_type };
        out.field_with(b"content-type", |value| of_server.write(value));
    }
}

/// The content type that a client of gRPC-Web gets in place of that in the head `text`; `None` when the response stays as it is.
pub(in crate::exchange) fn web_response_type<'a>(
    exchange: &Exchange,
    text: &'a [u8],
) -> Option<GrpcContentType<'a>> {
    let web = exchange.grpc.as_ref()?.web?;
    let content_type = exchange.response.fields().first(FieldName::ContentType)?.value.of(text);
    let content_type = GrpcContentType::parse(content_type)?;
    let is_grpc = content_type.protocol == GrpcProtocol::Grpc;
    is_grpc.then_some(GrpcContentType { protocol: web.response_protocol(), ..content_type })
}

/// The content type of an answer of Weir's own to the call.
pub(in crate::exchange) fn own_response_type(exchange: &Exchange) -> Vec<u8> {
    let web = exchange.grpc.as_ref().and_then(|call| call.web);
    let field = exchange.request.fields().first(FieldName::ContentType);
    let of_request = field.and_then(|field| GrpcContentType::parse(field.value.of(&exchange.request_text)));
    let content_type = GrpcContentType {
        protocol: web.map_or(GrpcProtocol::Grpc, |web| web.response_protocol()),
        message_format: of_request.map_or(b"", |content_type| content_type.message_format),
    };
    let mut value = Vec::new();
    content_type.write(&mut value);
    value
}
