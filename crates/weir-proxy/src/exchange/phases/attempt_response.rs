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
    /// The request goes to a server again in its place.
    GoesAgain,
}

impl<T> AttemptResponse<T> {
    /// Whether there is a response to pass on.
    #[inline(always)]
    pub(in crate::exchange) fn passes(&self) -> bool {
        matches!(self, Self::Passes(_))
    }
}
