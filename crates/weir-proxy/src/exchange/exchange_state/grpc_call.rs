//! What is known of a gRPC call: a request whose content type says so, and which is like any other for the rest.
//!
//! A call of gRPC-Web is one if its route translates it.

use std::time::Duration;

use weir_http::grpc::{GrpcContentType, GrpcProtocol, GrpcStatus};
use weir_http::{FieldName, Method, RequestHead};

use crate::net::clock::{self, Instant};

/// What is known of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrpcCall {
    /// How it has ended, once that is known.
    pub(crate) status: Option<GrpcStatus>,
    /// When the attempt began that is on its way or was answered.
    pub(in crate::exchange) attempt_began: Instant,
    /// How long the server wants to be left alone before another attempt.
    pub(in crate::exchange) pushback: Option<Duration>,
    /// When the client will not wait any longer, if it says so.
    pub(in crate::exchange) deadline: Option<Instant>,
    /// How the client speaks gRPC-Web, if it does.
    pub(in crate::exchange) web: Option<GrpcWeb>,
}

/// How the client of a call speaks gRPC-Web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrpcWeb {
    /// Whether the request is in text.
    pub(in crate::exchange) sends_text: bool,
    /// Whether the response has to be.
    pub(in crate::exchange) takes_text: bool,
}

impl GrpcWeb {
    /// How messages lie in the response.
    pub(in crate::exchange) const fn response_protocol(self) -> GrpcProtocol {
        if self.takes_text { GrpcProtocol::WebText } else { GrpcProtocol::Web }
    }
}

impl GrpcCall {
    /// The call that a request is, if it is one.
    #[inline(always)]
    pub(in crate::exchange) fn from_request_head(request: &RequestHead, text: &[u8]) -> Option<Self> {
        if request.method() != Method::Post {
            return None;
        }
        let value = request.fields().first(FieldName::ContentType)?.value.of(text);
        // `application/g`: nearly all others are told apart by that.
        matches!(value.get(12), Some(b'g' | b'G')).then(|| Self::of_content_type(value))?
    }

    #[cold]
    fn of_content_type(value: &[u8]) -> Option<Self> {
        (GrpcContentType::parse(value)?.protocol == GrpcProtocol::Grpc).then(|| Self::new(None))
    }

    /// The call of gRPC-Web that a request is, if it is one.
    #[cold]
    pub(in crate::exchange) fn from_web_request(request: &RequestHead, text: &[u8]) -> Option<Self> {
        if request.method() != Method::Post {
            return None;
        }
        let content_type = request.fields().first(FieldName::ContentType)?.value.of(text);
        let sends = GrpcContentType::parse(content_type)?.protocol;
        let accept = request.fields().first(FieldName::Accept);
        let takes = accept.and_then(|field| GrpcContentType::parse_accept(field.value.of(text)));
        let takes = takes.map_or(sends, |content_type| content_type.protocol);
        let is_text = |protocol| protocol == GrpcProtocol::WebText;
        let web = GrpcWeb { sends_text: is_text(sends), takes_text: is_text(takes) };
        (sends != GrpcProtocol::Grpc).then(|| Self::new(Some(web)))
    }

    fn new(web: Option<GrpcWeb>) -> Self {
        Self { status: None, attempt_began: clock::now(), pushback: None, deadline: None, web }
    }

    /// The same call made once more, with another deadline.
    pub(in crate::exchange) fn anew(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::new(self.web) }
    }

    /// An attempt begins.
    pub(in crate::exchange) fn begin_attempt(&mut self, now: Instant) {
        (self.status, self.attempt_began, self.pushback) = (None, now, None);
    }
}
