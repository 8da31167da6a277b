//! The PROXY protocol, versions 1 and 2: the proxy that opens a connection names its client.
//!
//! A header is the first thing on a connection and comes before TLS or HTTP. It is a claim: the caller decides whether to
//! trust it, from the address of the peer and never from the bytes. Specification: `proxy-protocol.txt` of HAProxy,
//! whose sections are named here.

mod v1;
mod v2;
mod tlv;
mod checksum;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

pub use tlv::{SslTlv, Tlv, TlvValues, Tlvs};
pub use v1::{LINE_BYTES_MAX, write_v1};
pub use v2::{HEADER_BYTES_MAX, HEADER_BYTES_MIN, write_v2};

/// Room for the path of a Unix socket (section 2.2), filled up with zeros.
pub const PATH_BYTES: usize = 108;

/// The two ends of the client's connection: its source and its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoints<'a> {
    /// The connection is the sender's own, as for a health check: use the addresses of the connection.
    Local,
    /// The addresses of the client are unknown to the sender: use the addresses of the connection.
    Unknown,
    /// A TCP connection's.
    Inet {
        /// The end that opened it: the client.
        source: SocketAddr,
        /// The end that accepted it.
        destination: SocketAddr,
    },
    /// A Unix socket connection's. Paths are without the zeros behind them; one that begins with a zero is abstract.
    Unix {
        /// The end that opened it; empty as a rule.
        source: &'a [u8],
        /// The end that accepted it.
        destination: &'a [u8],
    },
}

/// Version of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyHeaderVersion {
    /// One line of text.
    V1,
    /// Binary, with room for more than addresses.
    V2,
}

/// A whole valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader<'a> {
    /// Bytes of the header; the bytes behind it belong to the connection proper.
    pub len: usize,
    /// How it is written.
    pub version: ProxyHeaderVersion,
    /// The ends of the connection that it speaks of.
    pub endpoints: Endpoints<'a>,
    /// Its other values; none unless the endpoints are addresses.
    pub tlvs: Tlvs<'a>,
}

/// The state of the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeaderProgress<'a> {
    /// The beginning of a header.
    Incomplete,
    /// A header, and perhaps more behind it.
    Complete(ProxyHeader<'a>),
}

/// How a header can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyHeaderError {
    /// The bytes begin no header.
    Missing,
    /// A header of version 1 is not one line of 107 bytes at most that CR LF ends (section 2.1).
    BadLine,
    /// A header of version 1 names another protocol than TCP4, TCP6 and UNKNOWN (section 2.1).
    BadProtocol,
    /// An address or port of a header of version 1 is malformed, or of another family than it says (section 2.1).
    BadAddress,
    /// The binary header has a version other than 2 (section 2.2).
    BadVersion,
    /// The command is neither LOCAL nor PROXY (section 2.2).
    BadCommand,
    /// The address family or the transport is unknown (section 2.2).
    BadFamily,
    /// The header is too short for the addresses it announces (section 2.2).
    BadLength,
    /// The header is longer than the limit.
    TooLarge,
    /// A TLV does not fit the header, or its value breaks the rules for its type (section 2.2).
    BadTlv,
    /// The checksum is not that of the header (section 2.2.3).
    BadChecksum,
}

impl ProxyHeaderError {
    /// The error in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            ProxyHeaderError::Missing => "The connection does not begin with a PROXY protocol header.",
            ProxyHeaderError::BadLine => "The header is not one line of 107 bytes at most that CR LF ends.",
            ProxyHeaderError::BadProtocol => "The header names another protocol than TCP4, TCP6 and UNKNOWN.",
            ProxyHeaderError::BadAddress => "An address or port of the header is malformed.",
            ProxyHeaderError::BadVersion => "The version of the header is unknown.",
            ProxyHeaderError::BadCommand => "The command of the header is neither LOCAL nor PROXY.",
            ProxyHeaderError::BadFamily => "The address family or the transport of the header is unknown.",
            ProxyHeaderError::BadLength => "The header is too short for its addresses.",
            ProxyHeaderError::TooLarge => "The header is longer than the limit.",
            ProxyHeaderError::BadTlv => "A TLV of the header is malformed.",
            ProxyHeaderError::BadChecksum => "The checksum is not that of the header.",
        }
    }
}

/// Parses `received`, all bytes of the connection since its start. A header takes `bytes_max` bytes at most, and one of
/// version 1 never more than [`LINE_BYTES_MAX`].
///
/// # Errors
/// The error in the header, as soon as that is certain; further bytes do not make it better.
pub fn parse(received: &[u8], bytes_max: usize) -> Result<ProxyHeaderProgress<'_>, ProxyHeaderError> {
    if begins(received, v2::SIGNATURE) {
        v2::parse(received, bytes_max)
    } else if begins(received, v1::PREFIX) {
        v1::parse(received)
    } else {
        Err(ProxyHeaderError::Missing)
    }
}

/// Whether `received` begins with `expected`, or may yet.
fn begins(received: &[u8], expected: &[u8]) -> bool {
    received.iter().zip(expected).all(|(byte, expected)| byte == expected)
}
