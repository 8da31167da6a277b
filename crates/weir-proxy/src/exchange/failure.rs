//! From what went wrong on a socket, or in a parser, to the failure of the exchange.

use std::{fmt, io};

use weir_observe::{Cause, Failure, Party, Phase};

use crate::relay::RelayError;
use crate::upstream::handshake::of_server;

/// What a server did wrong to a request or a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    /// The status, where it is what was not expected.
    pub(crate) status: Option<u16>,
}

impl Fault {
    /// It answered, with a status that says that it is not well.
    pub(crate) const fn unexpected_status(status: u16) -> Self {
        Self { failure: Failure::server(Phase::Response, Cause::UnexpectedStatus), status: Some(status) }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self { failure, status: None }
    }
}

/// The reason code, as everywhere, and the status behind it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.failure.reason())?;
        match self.status {
            Some(status) => write!(f, " {status}"),
            None => Ok(()),
        }
    }
}

/// The failure behind an I/O error with `party` at the other end.
pub(crate) fn of_io(phase: Phase, party: Party, error: &io::Error) -> Failure {
    let cause = match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Cause::Reset
        }
        io::ErrorKind::UnexpectedEof => Cause::Closed,
        _ => Cause::Io,
    };
    Failure { phase, party, cause }
}

/// The failure behind a connection that could not be opened (connect(2)).
pub(crate) fn of_connect(error: &io::Error) -> Failure {
    use io::ErrorKind as Kind;
    let phase = Phase::Connect;
    match (error.kind(), error.raw_os_error()) {
        (Kind::ConnectionRefused, _) => Failure::server(phase, Cause::Refused),
        (Kind::ConnectionReset, _) => Failure::server(phase, Cause::Reset),
        (Kind::TimedOut, _) => Failure::server(phase, Cause::TimedOut),
        (Kind::HostUnreachable | Kind::NetworkUnreachable, _) => Failure::server(phase, Cause::Unreachable),
        (Kind::PermissionDenied, _) => Failure::weir(phase, Cause::ConnectDenied),
        (Kind::AddrNotAvailable, _) => Failure::weir(phase, Cause::PortsExhausted),
        // ENOENT is the missing file of a Unix socket; without a number it is a name that has no address yet.
        (Kind::NotFound, Some(_)) => Failure::server(phase, Cause::SocketMissing),
        (Kind::NotFound, None) => Failure::server(phase, Cause::NameUnresolved),
        // EMFILE and ENFILE.
        (_, Some(23 | 24)) => Failure::weir(phase, Cause::DescriptorLimit),
        _ => Failure::server(phase, Cause::ConnectFailed),
    }
}

/// The failure behind a request body that stopped moving.
pub(crate) fn of_request_body(error: &RelayError) -> Failure {
    match error {
        RelayError::Read(error) => of_io(Phase::Send, Party::Client, error),
        RelayError::Truncated => Failure::client(Phase::Send, Cause::Closed),
        RelayError::Broken(rule) => Failure::client(Phase::Send, Cause::Rule(*rule)),
        RelayError::TooLarge => Failure::client(Phase::Send, Cause::BodyTooLarge),
        RelayError::Write(error) => of_io(Phase::Send, Party::Server, error),
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
    }
}
