//! A request of a user as the bytes of its protocol.

use std::sync::Arc;

use bytes::Bytes;

use super::expectation::AnswerExpectation;
use super::request::{GivenFields, SiteRequest, is_repeatable};
use crate::load::http3::request::{self, Http3Request};
use crate::scenario::site::SiteProtocol;
use crate::wire::{http2, http3};

/// The bytes of a request.
#[derive(Debug, Clone)]
pub(super) enum RequestBytes {
    /// Head and body.
    Http1(Bytes),
    /// Header block and body.
    Http2(Bytes, Bytes),
    /// Frames.
    Http3(Box<Http3Request>),
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct PreparedRequest {
    /// Its bytes.
    pub(super) bytes: RequestBytes,
    /// What is expected of its answer.
    pub(super) expected: AnswerExpectation,
    /// Its answer has no body, whatever its head says.
    pub(super) is_head: bool,
    /// It may be sent again where a kept connection ended under it.
    pub(super) is_repeatable: bool,
}

/// Prepares `request` with `fields`.
pub(super) fn prepare(
    request: &SiteRequest,
    fields: &GivenFields,
    protocol: SiteProtocol,
    is_secure: bool,
    closes: bool,
) -> PreparedRequest {
    let bytes = match protocol {
        SiteProtocol::Http1 => RequestBytes::Http1(http1(request, fields, closes)),
        SiteProtocol::Http2 => {
            let lines = lines(request, fields, is_secure);
            let block = http2::block(lines.iter().map(|(name, value)| (&**name, &**value)));
            RequestBytes::Http2(block.into(), request.body.clone())
        }
        SiteProtocol::Http3 => {
            let lines = lines(request, fields, true);
            let section = http3::section(lines.iter().map(|(name, value)| (&**name, &**value)));
            let text: Option<Arc<[u8]>> = request.expected.text.clone();
            RequestBytes::Http3(Box::new(request::unknown(&section, request.body.clone(), text)))
        }
    };
    PreparedRequest {
        bytes,
        expected: request.expected.clone(),
        is_head: request.method == "HEAD",
        is_repeatable: is_repeatable(&request.method),
    }
}

/// Whether a request says how long its body is: those that have one, and those whose method expects one (RFC 9110, section 8.6).
fn says_length(request: &SiteRequest) -> bool {
    !request.body.is_empty() || matches!(&*request.method, "POST" | "PUT" | "PATCH")
}

fn http1(request: &SiteRequest, fields: &GivenFields, closes: bool) -> Bytes {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.path, fields.authority);
    fields.lines.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    if says_length(request) {
        head.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    head.push_str(if closes { "Connection: close\r\n\r\n" } else { "\r\n" });
    [head.as_bytes(), &request.body].concat().into()
}

/// The lines of a request of HTTP/2 and HTTP/3, names in lower case.
fn lines(request: &SiteRequest, fields: &GivenFields, is_secure: bool) -> Vec<(String, String)> {
    let scheme = if is_secure { "https" } else { "http" };
    let first = [
        (":method", &*request.method),
        (":scheme", scheme),
        (":authority", &*fields.authority),
        (":path", &*request.path),
    ];
    let own = first.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
    let others = fields.lines.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    let length = says_length(request).then(|| ("content-length".to_owned(), request.body.len().to_string()));
    own.chain(others).chain(length).collect()
}
