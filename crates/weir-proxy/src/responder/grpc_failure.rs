//! A failure as the end of a gRPC call: a status, and the text for the client as its message.

use weir_http::grpc::{GrpcStatus, write_status_message};
use weir_observe::{Failure, LocalReply};

use super::Answer;

/// How a call ends that failed so, in fields.
pub(crate) struct GrpcFailure {
    pub(crate) status: GrpcStatus,
    pub(crate) fields: [(&'static [u8], Vec<u8>); 3],
}

impl GrpcFailure {
    /// In place of a response; `None` when nothing can be sent.
    pub(crate) fn from_failure(failure: Failure, request_id: &[u8]) -> Option<Self> {
        let page = LocalReply::for_failure(failure, request_id)?;
        Some(Self::new(failure, page.status, page.text))
    }

    /// Behind a response that has begun.
    pub(crate) fn of_broken_response(failure: Failure) -> Self {
        Self::new(failure, failure.log_status(), "The response has broken off.")
    }

    fn new(failure: Failure, http_status: u16, text: &str) -> Self {
        let status = GrpcStatus::from_failure(http_status);
        let mut message = Vec::new();
        write_status_message(&mut message, text.as_bytes());
        let fields = [
            (&b"grpc-status"[..], status.code().to_string().into_bytes()),
            (b"grpc-message", message),
            (b"weir-reason", failure.reason().as_bytes().to_vec()),
        ];
        Self { status, fields }
    }

    /// The answer to a call of which nothing was answered (Trailers-Only).
    pub(crate) fn into_answer(self, content_type: Vec<u8>) -> Answer<'static> {
        let answer = Answer::new(200).with(b"content-type", content_type);
        self.fields.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value))
    }
}
