//! The part of WebSocket that the lab needs (RFC 6455): the words of the opening, and frames, written and read.
//!
//! The opening has one key for all, that of the RFC's example, whose answer is known without a hash. A frame is read when all
//! of it has arrived; a broken rule is named, so that a proxy that alters frames is detected.

use super::fields::MalformedHead;

/// The key of every opening (RFC 6455 1.3).
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The server's answer to it.
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Longest payload of a frame that is read, in bytes.
pub const PAYLOAD_MAX: usize = 64 * 1024;

/// Opcode of a binary message.
pub const BINARY: u8 = 0x2;

/// Opcode that ends the connection.
pub const CLOSE: u8 = 0x8;

/// Opcode that asks for a sign of life.
pub const PING: u8 = 0x9;

/// Opcode of that sign.
pub const PONG: u8 = 0xa;

/// The bit of a message's last frame.
const LAST: u8 = 0x80;

/// The bits without a meaning.
const RESERVED: u8 = 0x70;

/// The bit of a length that says that the payload is masked.
const MASKED: u8 = 0x80;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// The kind.
    pub opcode: u8,
    /// It ends its message.
    pub is_last: bool,
    /// The mask of the payload; frames of clients have one, those of servers do not.
    pub mask: Option<[u8; 4]>,
    /// Its own length, in bytes.
    pub len: usize,
    /// Length of the payload behind it, in bytes.
    pub payload_len: usize,
}

/// Reads the head of the frame at the start of `bytes`; `None` while the frame has not arrived whole.
///
/// # Errors
/// The rule that was broken.
pub fn read(bytes: &[u8]) -> Result<Option<FrameHead>, MalformedHead> {
    let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
    if first & RESERVED != 0 {
        return Err(MalformedHead("a reserved bit of a frame is set"));
    }
    let (payload_len, size_len) = match second & !MASKED {
        126 => match rest.first_chunk() {
            Some(size) => (usize::from(u16::from_be_bytes(*size)), 2),
            None => return Ok(None),
        },
        127 => return Err(MalformedHead("a frame over 64 KiB")),
        short => (usize::from(short), 0),
    };
    let is_masked = second & MASKED != 0;
    let len = 2 + size_len + if is_masked { 4 } else { 0 };
    if bytes.len() < len + payload_len {
        return Ok(None);
    }
    let mask = rest[size_len..].first_chunk().copied().filter(|_| is_masked);
    Ok(Some(FrameHead { opcode: first & 0x0f, is_last: first & LAST != 0, mask, len, payload_len }))
}

/// Appends a frame with this payload, masked if a mask is given.
///
/// # Panics
/// When the payload is longer than 64 KiB less one byte: frames of the lab are small.
pub fn write(out: &mut Vec<u8>, opcode: u8, is_last: bool, mask: Option<[u8; 4]>, payload: &[u8]) {
    let size = u16::try_from(payload.len()).expect("frames of the lab are small");
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(opcode | if is_last { LAST } else { 0 });
    match size {
        0..126 => out.push(masked | size as u8),
        _ => {
            out.push(masked | 126);
            out.extend_from_slice(&size.to_be_bytes());
        }
    }
    out.extend(mask.iter().flatten());
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply(mask, &mut out[start..]);
    }
}

/// Masks a payload, or takes the mask off (RFC 6455 5.3).
pub fn apply(mask: [u8; 4], payload: &mut [u8]) {
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

#[cfg(test)]
mod tests {
    use super::{BINARY, FrameHead, apply, read, write};
    use proptest::prelude::*;

    #[test]
    fn the_frames_of_the_rfc_are_read_and_written() {
        // RFC 6455 5.7: "Hello", unmasked and masked.
        let plain = [&[0x81, 0x05][..], b"Hello"].concat();
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        for (wire, mask, len) in [(&plain[..], None, 2), (&masked[..], Some(mask), 6)] {
            let head = FrameHead { opcode: 1, is_last: true, mask, len, payload_len: 5 };
            assert_eq!(read(wire), Ok(Some(head)));
            let mut written = Vec::new();
            write(&mut written, 1, true, mask, b"Hello");
            assert_eq!(written, wire);
        }
    }

    #[test]
    fn frames_that_the_lab_does_not_use_are_named() {
        for wire in [&[0xc2, 0x00][..], &[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]] {
            assert!(read(wire).is_err(), "{wire:?}");
        }
    }

    proptest! {
        #[test]
        fn written_frames_are_read_once_they_are_whole(
            payload in prop::collection::vec(any::<u8>(), 0..400),
            mask in any::<Option<[u8; 4]>>(),
            is_last in any::<bool>(),
        ) {
            let mut wire = Vec::new();
            write(&mut wire, BINARY, is_last, mask, &payload);
            for len in 0..wire.len() {
                prop_assert_eq!(read(&wire[..len]), Ok(None));
            }
            let head = read(&wire).unwrap().unwrap();
            prop_assert_eq!((head.opcode, head.is_last, head.mask), (BINARY, is_last, mask));
            let mut got = wire[head.len..][..head.payload_len].to_vec();
            if let Some(mask) = head.mask {
                apply(mask, &mut got);
            }
            prop_assert_eq!(got, payload);
        }
    }
}
