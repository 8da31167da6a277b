//! The answer to a TRACE or OPTIONS that may go no further (RFC 9110 section 7.6.2).

use weir_http::Method;

use super::Answer;

/// The answer to such a request. TRACE is not reflected: it would show what proxies before this one added.
pub(crate) fn answer(method: Method) -> Answer<'static> {
    let status = if method == Method::Options { 200 } else { 405 };
    Answer::new(status).with(b"Allow", &b"GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"[..])
}
