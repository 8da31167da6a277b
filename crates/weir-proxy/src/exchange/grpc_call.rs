//! What is known of a gRPC call: a request whose content type says so, and which is like any other for the rest.

use std::time::Duration;

use weir_http::grpc::{GrpcContentType, GrpcProtocol, GrpcStatus};
use weir_http::{FieldName, Method, RequestHead};
use weir_observe::Party;

use super::Exchange;
use crate::net::clock::{self, Instant};

/// What is known of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrpcCall {
    /// How it has ended, once that is known.
    pub(crate) status: Option<GrpcStatus>,
    /// When the attempt began that is on its way or was answered.
    pub(super) attempt_began: Instant,
    /// How long the server wants to be left alone before another attempt.
    pub(super) pushback: Option<Duration>,
}

impl GrpcCall {
    /// The call that a request is, if it is one.
    #[inline(always)]
    pub(super) fn of(request: &RequestHead, text: &[u8]) -> Option<Self> {
        if request.method() != Method::Post {
            return None;
        }
        let value = request.fields().first(FieldName::ContentType)?.value.of(text);
        // `application/g`: nearly all others are told apart by that.
        matches!(value.get(12), Some(b'g' | b'G')).then(|| Self::of_content_type(value))?
    }

    #[cold]
    fn of_content_type(value: &[u8]) -> Option<Self> {
        let is_grpc = GrpcContentType::parse(value)?.protocol == GrpcProtocol::Grpc;
        is_grpc.then(|| Self { status: None, attempt_began: clock::now(), pushback: None })
    }

    /// An attempt begins.
    pub(super) fn begin_attempt(&mut self, now: Instant) {
        (self.status, self.attempt_began, self.pushback) = (None, now, None);
    }
}

/// How the call of an exchange has ended, as its client sees it; `None` for other requests. One that the client has given up is cancelled, and
/// one that has broken off (RST_STREAM) an internal error.
pub(super) fn final_status(exchange: &Exchange) -> Option<GrpcStatus> {
    let call = exchange.grpc.as_ref()?;
    let is_cancelled = exchange.record.failure.is_some_and(|failure| failure.party == Party::Client);
    Some(call.status.unwrap_or(if is_cancelled { GrpcStatus::Cancelled } else { GrpcStatus::Internal }))
}
