//! A failure as the answer to a gRPC call: a status, and the text for the client as its message.

use weir_http::grpc::{GrpcStatus, write_status_message};
use weir_observe::{Failure, LocalReply};

use super::Answer;

/// The answer to a call that failed so (Trailers-Only); `None` when no response can be sent.
pub(crate) fn answer(failure: Failure, request_id: &[u8]) -> Option<(Answer<'static>, GrpcStatus)> {
    let page = LocalReply::for_failure(failure, request_id)?;
    let status = GrpcStatus::from_failure(page.status);
    let mut message = Vec::new();
    write_status_message(&mut message, page.text.as_bytes());
    let answer = Answer::of(200)
        .with(b"content-type", &b"application/grpc"[..])
        .with(b"grpc-status", status.code().to_string().into_bytes())
        .with(b"grpc-message", message)
        .with(b"weir-reason", failure.reason().as_bytes());
    Some((answer, status))
}
