//! Maps errors of sockets to failures of connections or exchanges.

use std::{fmt, io};

use rustls::{AlertDescription, CertificateError, Error};
use weir_observe::{Cause, Failure, Party, Phase};

use super::source::{NO_SOURCE, SourceError};
use super::tls::failure::of_rustls;

/// A fault of a server, in a request or a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Phase, party and cause.
    pub failure: Failure,
    /// The status, where it is what was not expected.
    pub(crate) status: Option<u16>,
}

impl Fault {
    /// A response with a status that counts as failure.
    pub const fn unexpected_status(status: u16) -> Self {
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

/// The exhausted resource behind an error, if any: a failure of this machine, not of the peer.
fn wanting(error: &io::Error) -> Option<Cause> {
    match error.raw_os_error()? {
        // ENFILE, EMFILE; ENOSPC is that of epoll_ctl(2).
        23 | 24 | 28 => Some(Cause::DescriptorLimit),
        // ENOMEM, ENOBUFS.
        12 | 105 => Some(Cause::KernelMemory),
        _ => None,
    }
}

/// The failure behind an I/O error with `party` at the other end.
pub(crate) fn of_io(phase: Phase, party: Party, error: &io::Error) -> Failure {
    if let Some(cause) = wanting(error) {
        return Failure::weir(phase, cause);
    }
    let cause = match error.kind() {
        _ if is_empty_flood(error) => Cause::TlsEmptyRecords,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Cause::Reset
        }
        io::ErrorKind::UnexpectedEof => Cause::Closed,
        _ => Cause::Io,
    };
    Failure { phase, party, cause }
}

/// Whether the peer has sent records of TLS without content, more in a row than rustls takes.
fn is_empty_flood(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner.is_some_and(|inner| of_rustls(inner) == Cause::TlsEmptyRecords)
}

/// The failure behind a connection that could not be opened (connect(2)).
pub fn of_connect(error: &io::Error) -> Failure {
    use io::ErrorKind as Kind;
    let phase = Phase::Connect;
    if let Some(cause) = wanting(error) {
        return Failure::weir(phase, cause);
    }
    if error.get_ref().is_some_and(|inner| inner.is::<SourceError>()) {
        return NO_SOURCE;
    }
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
        _ => Failure::server(phase, Cause::ConnectFailed),
    }
}

/// The failure behind an I/O error with a server, by TLS or not.
pub fn of_server(phase: Phase, error: &io::Error) -> Failure {
    let cause = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        None => return of_io(phase, Party::Server, error),
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => Cause::TlsCertificateMissing,
        Some(Error::AlertReceived(AlertDescription::UnrecognisedName)) => Cause::TlsUnrecognizedName,
        // A TLS 1.2 client gets no more specific alert.
        Some(Error::AlertReceived(
            AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion,
        )) => Cause::TlsNoSharedCipher,
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Cause::TlsCertificateNameMismatch,
        Some(error) => match of_rustls(error) {
            // The fault is in the revocation lists, not in the server.
            cause @ Cause::TlsRevocationUnknown => return Failure::weir(phase, cause),
            cause => cause,
        },
    };
    Failure::server(phase, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::descriptors::is_local;

    #[test]
    fn exhausted_resources_of_this_machine_are_no_fault_of_a_server() {
        for (number, cause) in [
            (24, Cause::DescriptorLimit),
            (23, Cause::DescriptorLimit),
            (28, Cause::DescriptorLimit),
            (12, Cause::KernelMemory),
            (105, Cause::KernelMemory),
            (99, Cause::PortsExhausted),
        ] {
            let error = io::Error::from_raw_os_error(number);
            let failure = of_connect(&error);
            assert!(is_local(failure) && failure.cause == cause, "{number}: {failure:?}");
            if cause != Cause::PortsExhausted {
                assert!(is_local(of_io(Phase::Send, Party::Server, &error)), "{number}");
            }
        }
        for number in [111, 104, 110, 113, 5] {
            let failure = of_connect(&io::Error::from_raw_os_error(number));
            assert!(!is_local(failure), "{number}: {failure:?}");
        }
    }
}
