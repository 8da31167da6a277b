//! The pseudo-fields of a request that is written, and the digits of a status.

/// The pseudo-fields of a request (RFC 9113 section 8.3.1, RFC 9114 section 4.3.1).
#[derive(Debug, Clone, Copy)]
pub struct RequestPseudoFields<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The scheme; empty, and not sent, with a `CONNECT` that asks for no protocol.
    pub scheme: &'a [u8],
    /// `host[:port]`, which is sent in place of a Host field. Not sent when it is empty.
    pub authority: &'a [u8],
    /// Path and query, or `*`; empty, and not sent, with a `CONNECT` that asks for no protocol.
    pub path: &'a [u8],
    /// The protocol that an extended `CONNECT` asks for (RFC 8441, RFC 9220).
    pub protocol: Option<&'a [u8]>,
}

/// The digits of a number with three.
pub(crate) const fn status_digits(status: u16) -> [u8; 3] {
    [(status / 100) as u8 + b'0', (status / 10 % 10) as u8 + b'0', (status % 10) as u8 + b'0']
}
