//! The two extensions of a ClientHello that routing uses: the server name and the application protocols.
//!
//! Names are kept in room of their own, as large as a name may be, so that a hello outlives the buffer it came in.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::HelloError;
use super::message::HelloMessage;

/// Longest host name (RFC 1035 section 2.3.4, as text without the final dot).
const NAME_BYTES_MAX: usize = 253;
/// Longest label of a host name.
const LABEL_BYTES_MAX: usize = 63;
/// Type of a host name among server names.
const HOST_NAME: u8 = 0;
/// Room for the protocols of one client, each behind its length.
const PROTOCOLS_BYTES_MAX: usize = 256;

/// A host name in lower case: letters, digits, `-`, `_` and dots between labels.
#[derive(Debug, Clone)]
pub(super) struct ServerNameExtension {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl ServerNameExtension {
    /// The name as text.
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Copies `name`; `None` when it is too long.
    fn gather(name: HelloMessage<'_>) -> Option<ServerNameExtension> {
        let mut gathered =
            ServerNameExtension { bytes: [0; NAME_BYTES_MAX], len: u8::try_from(name.len()).ok()? };
        let mut at = 0;
        for piece in name.pieces() {
            gathered.bytes.get_mut(at..at + piece.len())?.copy_from_slice(piece);
            at += piece.len();
        }
        gathered.bytes.make_ascii_lowercase();
        Some(gathered)
    }

    fn is_host_name(&self) -> bool {
        let is_label = |label: &[u8]| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
                && label.first() != Some(&b'-')
                && label.last() != Some(&b'-')
        };
        self.bytes[..usize::from(self.len)].split(|&byte| byte == b'.').all(is_label)
    }

    fn is_address(&self) -> bool {
        self.as_str().parse::<Ipv4Addr>().is_ok() || self.as_str().parse::<Ipv6Addr>().is_ok()
    }
}

/// Reads the extension `server_name` (RFC 6066 section 3).
///
/// An address is not permitted as a name; clients that send one all the same mean none.
pub(super) fn read_server_name(
    mut body: HelloMessage<'_>,
) -> Result<Option<ServerNameExtension>, HelloError> {
    const BAD: HelloError = HelloError::BadServerName;
    let mut names = body.long_vector().ok_or(BAD)?;
    if names.is_empty() || !body.is_empty() {
        return Err(BAD);
    }
    let mut found = None;
    while !names.is_empty() {
        let kind = names.u8().ok_or(BAD)?;
        // Names of every type are behind their length: the RFC promises it for those to come.
        let name = names.long_vector().ok_or(BAD)?;
        if kind == HOST_NAME {
            let name = ServerNameExtension::gather(name).ok_or(BAD)?;
            if found.is_some() || !(name.is_host_name() || name.is_address()) {
                return Err(BAD);
            }
            found = Some(name);
        }
    }
    Ok(found.filter(|name| !name.is_address()))
}

/// The application protocols of a client, each behind its length in one byte.
#[derive(Debug, Clone)]
pub(super) struct AlpnExtension {
    bytes: [u8; PROTOCOLS_BYTES_MAX],
    len: usize,
}

impl Default for AlpnExtension {
    fn default() -> AlpnExtension {
        AlpnExtension { bytes: [0; PROTOCOLS_BYTES_MAX], len: 0 }
    }
}

impl AlpnExtension {
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// The names in the order of the client.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..self.len];
        std::iter::from_fn(move || {
            let (&len, behind) = rest.split_first()?;
            let (name, behind) = behind.split_at_checked(len.into())?;
            rest = behind;
            Some(name)
        })
    }

    /// Reads the extension `application_layer_protocol_negotiation` (RFC 7301 section 3.1).
    ///
    /// Of a list longer than the room for it the first names are kept, which the client prefers; a name is
    /// never cut.
    pub(super) fn read(&mut self, mut body: HelloMessage<'_>) -> Result<(), HelloError> {
        const BAD: HelloError = HelloError::BadProtocols;
        let mut list = body.long_vector().ok_or(BAD)?;
        if list.is_empty() || !body.is_empty() {
            return Err(BAD);
        }
        let mut has_room = true;
        while !list.is_empty() {
            let name = list.short_vector().ok_or(BAD)?;
            if name.is_empty() {
                return Err(BAD);
            }
            has_room = has_room && self.len + 1 + name.len() <= PROTOCOLS_BYTES_MAX;
            if has_room {
                self.push(name);
            }
        }
        Ok(())
    }

    fn push(&mut self, name: HelloMessage<'_>) {
        // A name behind a length of one byte is no longer than that.
        self.bytes[self.len] = name.len() as u8;
        self.len += 1;
        for piece in name.pieces() {
            self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
            self.len += piece.len();
        }
    }
}
