//! Maps errors of a relay to the failure of its exchange.

use weir_observe::{Cause, Failure, Party, Phase};

use super::ends::RelayError;
use crate::net::failure::{of_io, of_server};

/// The failure behind a request body that stopped moving.
pub(crate) fn of_request_body(error: &RelayError) -> Failure {
    match error {
        RelayError::Read(error) => of_io(Phase::Send, Party::Client, error),
        RelayError::Truncated => Failure::client(Phase::Send, Cause::Closed),
        RelayError::Broken(rule) => Failure::client(Phase::Send, Cause::Rule(*rule)),
        RelayError::TooLarge => Failure::client(Phase::Send, Cause::BodyTooLarge),
        RelayError::Write(error) => of_io(Phase::Send, Party::Server, error),
        RelayError::Framing => Failure::weir(Phase::Send, Cause::FramingViolation),
    }
}

/// The failure behind a response body that stopped moving.
pub(crate) fn of_response_body(error: &RelayError) -> Failure {
    match error {
        RelayError::Read(error) => of_server(Phase::Relay, error),
        RelayError::Truncated | RelayError::TooLarge => {
            Failure::server(Phase::Relay, Cause::ResponseIncomplete)
        }
        RelayError::Broken(rule) => Failure::server(Phase::Relay, Cause::Rule(*rule)),
        RelayError::Write(error) => of_io(Phase::Relay, Party::Client, error),
        RelayError::Framing => Failure::weir(Phase::Relay, Cause::FramingViolation),
    }
}

/// The failure behind the body of a response of which the client has nothing yet: it is as if its head were at fault.
pub(crate) fn of_unsent_body(error: &RelayError) -> Failure {
    Failure::server(
        Phase::Response,
        match error {
            RelayError::Broken(rule) => Cause::Rule(*rule),
            RelayError::Read(_)
            | RelayError::Truncated
            | RelayError::TooLarge
            | RelayError::Write(_)
            | RelayError::Framing => Cause::BodyIncomplete,
        },
    )
}
