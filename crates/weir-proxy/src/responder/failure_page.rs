//! The page of a failure, in the format that the client accepts.
//!
//! What the client reads says what it can do; what the log says is for the operator. Both name the same reason code.

use weir_observe::{Failure, LocalReply, choose_format};

use super::Answer;

/// The page of `failure`; `None` when nothing can be said to the client. `accept` is what the client takes, `retry_after` when it
/// may try again with more hope, in seconds.
pub(crate) fn answer(
    failure: Failure,
    request_id: &[u8],
    accept: Option<&[u8]>,
    retry_after: Option<u32>,
) -> Option<Answer<'static>> {
    let page = LocalReply::for_failure(failure, request_id)?;
    let format = choose_format(accept);
    let mut body = Vec::new();
    page.render(format, &mut body);
    let mut answer = Answer::of(page.status)
        .with(b"Content-Type", format.content_type().as_bytes())
        .with(b"Cache-Control", &b"no-store"[..])
        .with(b"weir-reason", failure.reason().as_bytes());
    if let Some(seconds) = retry_after {
        answer = answer.with(b"Retry-After", seconds.to_string().into_bytes());
    }
    answer.body = body.into();
    Some(answer)
}
