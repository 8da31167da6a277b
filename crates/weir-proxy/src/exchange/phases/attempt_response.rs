//! What has become of the response of an attempt.

use crate::exchange::exchange_state::outcome::{AttemptFailure, RespondingServer};
use crate::exchange::phases::end::End;

/// What has become of a response.
pub(in crate::exchange) enum AttemptResponse<T> {
    /// The client has its answer.
    Done(End),
    /// It passes as it is.
    Passes(RespondingServer<T>),
    /// The server has broken it off, and the client has nothing of it.
    BrokenOff(AttemptFailure),
}

impl<T> AttemptResponse<T> {
    /// Before anything has become of it.
    pub(in crate::exchange) fn new(attempted: Result<RespondingServer<T>, AttemptFailure>) -> Self {
        attempted.map_or_else(Self::BrokenOff, Self::Passes)
    }
}
