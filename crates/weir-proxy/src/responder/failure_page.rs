//! The page of a failure, in the format that the client accepts.
//!
//! The text is for the client; the log has the one for the operator. Both name the same reason code.

use weir_observe::{Failure, LocalReply, choose_format};

use super::Answer;

/// The page of `failure`; `None` when no response can be sent. `accept` is the `Accept` of the client, `retry_after` the value of
/// `Retry-After`, in seconds, and `status` one that takes the place of the usual.
pub(crate) fn answer(
    failure: Failure,
    request_id: &[u8],
    accept: Option<&[u8]>,
    retry_after: Option<u32>,
    status: Option<u16>,
) -> Option<Answer<'static>> {
    let page = LocalReply::for_failure(failure, request_id)?;
    let page = LocalReply { status: status.unwrap_or(page.status), ..page };
    let format = choose_format(accept);
    let mut body = Vec::new();
    page.render(format, &mut body);
    let mut answer = Answer::new(page.status)
        .with(b"Content-Type", format.content_type().as_bytes())
        .with(b"Cache-Control", &b"no-store"[..])
        .with(b"weir-reason", failure.reason().as_bytes());
    if let Some(seconds) = retry_after {
        answer = answer.with(b"Retry-After", seconds.to_string().into_bytes());
    }
    if page.status == 405 {
        // Only routes of files refuse a method (RFC 9110 section 15.5.6).
        answer = answer.with(b"Allow", &b"GET, HEAD"[..]);
    }
    answer.body = body.into();
    Some(answer)
}
