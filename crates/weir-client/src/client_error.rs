//! Why there is no response. Never says what a request held.

use std::error::Error as _;
use std::io;

/// Why there is no response. Each user has words of its own for most of them.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The name of the host has no address now.
    #[error("its name cannot be resolved: {0}")]
    Unresolved(io::Error),
    /// There is no connection, or none in time.
    #[error("it cannot be connected to: {0}")]
    Unconnected(io::Error),
    /// There is a connection, but no TLS on it.
    #[error("there is no TLS with it: {0}")]
    NoTls(io::Error),
    /// The response did not come in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// The connection ended, or failed, before the response did; at its end, the kind is `UnexpectedEof`.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// What came is no response of HTTP/1.
    #[error("it sent something that is no HTTP response: {0}")]
    Malformed(String),
    /// The body is longer than it may be.
    #[error("its response is too long")]
    TooLong,
}

impl ClientError {
    /// The same as an error of the system.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Unresolved(error) | Self::Unconnected(error) | Self::NoTls(error) | Self::Broken(error) => {
                error
            }
            Self::TimedOut => io::ErrorKind::TimedOut.into(),
            Self::Malformed(_) | Self::TooLong => io::Error::other(self.to_string()),
        }
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        match cause {
            _ if error.is_parse() => Self::Malformed(error.to_string()),
            // What the decoder of chunks does not accept.
            Some(cause) if cause.kind() == io::ErrorKind::InvalidInput => Self::Malformed(cause.to_string()),
            Some(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Self::closed(),
            Some(cause) => Self::Broken(copy(cause)),
            None if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
                Self::closed()
            }
            None => Self::Broken(io::Error::other(error.to_string())),
        }
    }
}

impl ClientError {
    fn closed() -> Self {
        Self::Broken(io::ErrorKind::UnexpectedEof.into())
    }
}

/// An error as it is where it cannot be taken out.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
