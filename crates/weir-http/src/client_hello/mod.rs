//! The first message of a TLS connection, read without taking part in it (RFC 8446 section 4.1.2).
//!
//! Gives the host name that the client asks for and the protocols it offers, so that a connection can be routed while its
//! bytes pass through unchanged. Only the parts that these two values depend on are checked; versions, cipher suites and unknown
//! extensions are left to the server. Must not decrypt, and must not change a byte.

mod names;
mod message;
#[cfg(test)]
mod tests;

use message::{HelloMessage, HelloStart};
use names::{AlpnExtension, ServerNameExtension};

/// The largest ClientHello that is parsed by default, in bytes as received. With post-quantum keys it is below 2 KiB.
pub const CLIENT_HELLO_BYTES_MAX: usize = 32 * 1024;

/// Type of the record that a handshake message comes in (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// Type of the handshake message (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
/// Extension with the host name (RFC 6066 section 3).
const SERVER_NAME: u16 = 0;
/// Extension with the application protocols (RFC 7301 section 3.1).
const PROTOCOLS: u16 = 16;

/// The state of the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloProgress {
    /// The beginning of a ClientHello, of which the rest is missing.
    Incomplete {
        /// The hello is not whole before this many bytes have been received, counted from the start of the connection.
        bytes_min: usize,
    },
    /// A whole ClientHello.
    Complete,
    /// Not TLS 1.0 or later: the first bytes do not begin a handshake record.
    NotTls,
}

/// How a ClientHello can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HelloError {
    /// A record is empty, longer than 16 KiB, or of another type in the middle of the message (RFC 8446 section 5.1).
    BadRecord,
    /// The first handshake message is not a ClientHello (RFC 8446 section 4).
    OtherMessage,
    /// The message is larger than the limit.
    TooLarge,
    /// The lengths in the message contradict each other (RFC 8446 section 4.1.2).
    BadMessage,
    /// The server name is none, there are several, or the extension is malformed (RFC 6066 section 3).
    BadServerName,
    /// The list of application protocols is malformed (RFC 7301 section 3.1).
    BadProtocols,
}

impl HelloError {
    /// The error in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            HelloError::BadRecord => "A record of the TLS handshake is malformed.",
            HelloError::OtherMessage => "The TLS connection does not begin with a ClientHello.",
            HelloError::TooLarge => "The ClientHello is larger than the limit.",
            HelloError::BadMessage => "The ClientHello is malformed.",
            HelloError::BadServerName => "The server name in the ClientHello is malformed.",
            HelloError::BadProtocols => "The list of application protocols in the ClientHello is malformed.",
        }
    }
}

/// The server name and application protocols of a ClientHello. Holds its own bytes and can be used again.
#[derive(Debug, Clone, Default)]
pub struct ClientHello {
    server_name: Option<ServerNameExtension>,
    protocols: AlpnExtension,
}

impl ClientHello {
    /// A hello that has not been parsed: without name and protocols.
    pub fn new() -> ClientHello {
        ClientHello::default()
    }

    /// The host name that the client asks for; `None` when it names none, or an address instead of a name.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_ref().map(ServerNameExtension::as_str)
    }

    /// The application protocols that the client offers, the one it prefers first.
    pub fn protocols(&self) -> impl Iterator<Item = &[u8]> {
        self.protocols.iter()
    }

    /// Parses `received`, all bytes of the connection since its start, of which the ClientHello takes `bytes_max` at most.
    ///
    /// Costs a step over each record while the message is incomplete, so it may be called after every read. Bytes
    /// behind the message are ignored.
    ///
    /// # Errors
    /// The error in the hello; further bytes do not make it better.
    pub fn parse(&mut self, received: &[u8], bytes_max: usize) -> Result<HelloProgress, HelloError> {
        self.clear();
        let mut message = match HelloMessage::begin(received, bytes_max)? {
            HelloStart::Complete(message) => message,
            HelloStart::Incomplete { bytes_min } => return Ok(HelloProgress::Incomplete { bytes_min }),
            HelloStart::NotTls => return Ok(HelloProgress::NotTls),
        };
        match self.read(&mut message) {
            Ok(()) => Ok(HelloProgress::Complete),
            Err(fault) => {
                self.clear();
                Err(fault)
            }
        }
    }

    fn clear(&mut self) {
        self.server_name = None;
        self.protocols.clear();
    }

    /// Reads the fields of the message in their order.
    fn read(&mut self, message: &mut HelloMessage<'_>) -> Result<(), HelloError> {
        const BAD: HelloError = HelloError::BadMessage;
        let version = message.u16().ok_or(BAD)?;
        let random = message.vector(32).ok_or(BAD)?;
        debug_assert_eq!(random.len(), 32);
        let session_id = message.short_vector().ok_or(BAD)?;
        let suites = message.long_vector().ok_or(BAD)?;
        let compressions = message.short_vector().ok_or(BAD)?;
        let lengths_fit = session_id.len() <= 32
            && suites.len() >= 2
            && suites.len().is_multiple_of(2)
            && !compressions.is_empty();
        if version >> 8 != 3 || !lengths_fit {
            return Err(BAD);
        }
        // Clients of TLS 1.0 and 1.1 need not send extensions.
        if message.is_empty() {
            return Ok(());
        }
        let extensions = message.long_vector().ok_or(BAD)?;
        if !message.is_empty() {
            return Err(BAD);
        }
        self.read_extensions(extensions)
    }

    fn read_extensions(&mut self, mut extensions: HelloMessage<'_>) -> Result<(), HelloError> {
        let (mut named, mut listed) = (false, false);
        while !extensions.is_empty() {
            let kind = extensions.u16().ok_or(HelloError::BadMessage)?;
            let body = extensions.long_vector().ok_or(HelloError::BadMessage)?;
            match kind {
                // No extension may stand twice (RFC 8446 section 4.2): two answers are none.
                SERVER_NAME if std::mem::replace(&mut named, true) => return Err(HelloError::BadServerName),
                SERVER_NAME => self.server_name = names::read_server_name(body)?,
                PROTOCOLS if std::mem::replace(&mut listed, true) => return Err(HelloError::BadProtocols),
                PROTOCOLS => self.protocols.read(body)?,
                _ => {}
            }
        }
        Ok(())
    }
}
