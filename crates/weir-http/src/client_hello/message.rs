//! A handshake message in the records it came in, read as if it lay in one piece (RFC 8446 section 5.1).
//!
//! A client may cut its message into records wherever it likes, in the middle of a name even. Nothing is copied for that:
//! the reader steps over the heads of the records. The parent module interprets the bytes.

use super::{CLIENT_HELLO, HANDSHAKE, HelloError};

/// Type, version and length of a record.
const RECORD_HEAD: usize = 5;
/// Type and length of a handshake message.
const MESSAGE_HEAD: usize = 4;
/// The longest record that is not encrypted.
const RECORD_BYTES_MAX: usize = 1 << 14;

/// How a connection starts.
pub(super) enum HelloStart<'a> {
    /// With this ClientHello, all of it received.
    Complete(HelloMessage<'a>),
    /// With a part of one.
    Incomplete {
        /// As in [`super::HelloProgress::Incomplete`].
        bytes_min: usize,
    },
    /// Otherwise.
    NotTls,
}

/// The rest of a message, or of a vector in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HelloMessage<'a> {
    /// The rest of the present record.
    record: &'a [u8],
    /// The records behind it.
    rest: &'a [u8],
    /// Bytes left of the message, all of which have been received.
    left: usize,
}

impl<'a> HelloMessage<'a> {
    /// Finds the body of the ClientHello that `received` starts with.
    pub(super) fn begin(received: &'a [u8], bytes_max: usize) -> Result<HelloStart<'a>, HelloError> {
        let is_tls = [HANDSHAKE, 3].iter().zip(received).all(|(expected, byte)| expected == byte);
        if !is_tls {
            return Ok(HelloStart::NotTls);
        }
        let mut rest = received;
        let mut head = [0; MESSAGE_HEAD];
        let mut gathered = 0;
        let mut needed = MESSAGE_HEAD;
        while gathered < needed {
            let at = received.len() - rest.len();
            if at + RECORD_HEAD > bytes_max {
                return Err(HelloError::TooLarge);
            }
            let Some(len) = record_len(rest)? else {
                return Ok(HelloStart::Incomplete { bytes_min: at + RECORD_HEAD });
            };
            let body = &rest[RECORD_HEAD..];
            let present = body.len().min(len);
            for (place, &byte) in head.iter_mut().skip(gathered).zip(&body[..present]) {
                *place = byte;
            }
            if gathered < MESSAGE_HEAD && gathered + present >= MESSAGE_HEAD {
                needed += message_len(head, bytes_max)?;
            } else if gathered == 0 && present > 0 && head[0] != CLIENT_HELLO {
                return Err(HelloError::OtherMessage);
            }
            let wanted = len.min(needed - gathered);
            if at + RECORD_HEAD + wanted > bytes_max {
                return Err(HelloError::TooLarge);
            }
            if present < wanted {
                return Ok(HelloStart::Incomplete { bytes_min: at + RECORD_HEAD + wanted });
            }
            gathered += wanted;
            rest = &body[wanted..];
        }
        let mut message = HelloMessage { record: &[], rest: received, left: needed };
        message.skip(MESSAGE_HEAD);
        Ok(HelloStart::Complete(message))
    }

    /// Bytes left.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The bytes that are left, as they lie in the records.
    pub(super) fn pieces(mut self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::from_fn(move || self.piece(usize::MAX))
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.piece(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8()?, self.u8()?]))
    }

    /// The next `len` bytes; `None` when there are fewer.
    pub(super) fn vector(&mut self, len: usize) -> Option<HelloMessage<'a>> {
        if len > self.left {
            return None;
        }
        let vector = HelloMessage { left: len, ..*self };
        self.skip(len);
        Some(vector)
    }

    /// A vector behind its length in one byte.
    pub(super) fn short_vector(&mut self) -> Option<HelloMessage<'a>> {
        let len = self.u8()?;
        self.vector(len.into())
    }

    /// A vector behind its length in two bytes.
    pub(super) fn long_vector(&mut self) -> Option<HelloMessage<'a>> {
        let len = self.u16()?;
        self.vector(len.into())
    }

    fn skip(&mut self, mut len: usize) {
        while len > 0
            && let Some(piece) = self.piece(len)
        {
            len -= piece.len();
        }
    }

    /// The next bytes that lie together, at most `max` and at least one; `None` at the end.
    fn piece(&mut self, max: usize) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        if self.record.is_empty() {
            let [_, _, _, high, low, body @ ..] = self.rest else { return None };
            let len = usize::from(u16::from_be_bytes([*high, *low])).min(body.len());
            (self.record, self.rest) = body.split_at(len);
        }
        let (piece, record) = self.record.split_at(self.record.len().min(self.left).min(max));
        self.record = record;
        self.left -= piece.len();
        (!piece.is_empty()).then_some(piece)
    }
}

/// Length of the record that `bytes` starts with; `None` while its head is incomplete.
fn record_len(bytes: &[u8]) -> Result<Option<usize>, HelloError> {
    // Version numbers of records mean nothing (RFC 8446 section 5.1), but the first byte has been 3 for ever.
    let is_handshake = [HANDSHAKE, 3].iter().zip(bytes).all(|(expected, byte)| expected == byte);
    if !is_handshake {
        return Err(HelloError::BadRecord);
    }
    let [_, _, _, high, low, ..] = bytes else { return Ok(None) };
    match usize::from(u16::from_be_bytes([*high, *low])) {
        len @ 1..=RECORD_BYTES_MAX => Ok(Some(len)),
        _ => Err(HelloError::BadRecord),
    }
}

/// Length of the body of the message that starts with `head`.
fn message_len(head: [u8; MESSAGE_HEAD], bytes_max: usize) -> Result<usize, HelloError> {
    let [kind, len @ ..] = head;
    if kind != CLIENT_HELLO {
        return Err(HelloError::OtherMessage);
    }
    let len = len.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
    if len > bytes_max { Err(HelloError::TooLarge) } else { Ok(len) }
}
