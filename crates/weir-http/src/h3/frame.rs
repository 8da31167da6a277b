//! The frames of HTTP/3 (RFC 9114 section 7): a type, a length, a payload. Must not know streams.

use super::varint::{VARINT_BYTES_MAX, len_of, read_varint, write_varint};

/// The numbers of the types of frames (RFC 9114 section 7.2, RFC 9218 section 7.2).
pub(super) mod frame_type {
    pub(in crate::h3) const DATA: u64 = 0x0;
    pub(in crate::h3) const HEADERS: u64 = 0x1;
    pub(in crate::h3) const CANCEL_PUSH: u64 = 0x3;
    pub(in crate::h3) const SETTINGS: u64 = 0x4;
    pub(in crate::h3) const PUSH_PROMISE: u64 = 0x5;
    pub(in crate::h3) const GOAWAY: u64 = 0x7;
    pub(in crate::h3) const MAX_PUSH_ID: u64 = 0xd;
    pub(in crate::h3) const PRIORITY_UPDATE_REQUEST: u64 = 0xf_0700;
    pub(in crate::h3) const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

    /// Whether the type had a meaning in HTTP/2 and has none here: such a frame is a fault wherever it is (RFC 9114 section 7.2.8).
    pub(in crate::h3) const fn is_of_http2(number: u64) -> bool {
        matches!(number, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Most bytes of the header of a frame.
pub const FRAME_HEADER_BYTES_MAX: usize = 2 * VARINT_BYTES_MAX;

/// A type that means nothing, of those that are reserved for that (RFC 9114 section 7.2.8); `random` says which.
pub(super) const fn reserved_number(random: u64) -> u64 {
    0x21 + 0x1f * (random % (1 << 32))
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Http3FrameHead {
    pub(super) number: u64,
    /// Bytes of the payload.
    pub(super) len: u64,
}

/// The header of a frame that may arrive in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHeadReader {
    bytes: [u8; FRAME_HEADER_BYTES_MAX],
    len: u8,
}

impl FrameHeadReader {
    /// Before a header.
    pub(super) const fn new() -> Self {
        Self { bytes: [0; FRAME_HEADER_BYTES_MAX], len: 0 }
    }

    /// Whether a header has begun and is not complete.
    pub(super) const fn is_within(&self) -> bool {
        self.len > 0
    }

    /// Takes a header off the front of `input`; `None` when all of it was taken and more is needed.
    #[inline]
    pub(super) fn read(&mut self, input: &mut &[u8]) -> Option<Http3FrameHead> {
        if self.len == 0
            && let Some((head, len)) = parse(input)
        {
            *input = &input[len..];
            return Some(head);
        }
        self.read_pieces(input)
    }

    #[cold]
    fn read_pieces(&mut self, input: &mut &[u8]) -> Option<Http3FrameHead> {
        // A header has at most as many bytes as there is room for.
        while let (Some((&byte, rest)), Some(free)) =
            (input.split_first(), self.bytes.get_mut(usize::from(self.len)))
        {
            *free = byte;
            *input = rest;
            self.len += 1;
            if let Some((head, _)) = parse(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(head);
            }
        }
        None
    }
}

/// The header at the front of `bytes`, and how many bytes it has.
#[inline]
fn parse(bytes: &[u8]) -> Option<(Http3FrameHead, usize)> {
    let (number, number_len) = read_varint(bytes)?;
    let (len, len_len) = read_varint(bytes.get(number_len..)?)?;
    Some((Http3FrameHead { number, len }, number_len + len_len))
}

/// Appends the header of a frame.
#[inline]
pub(super) fn write_frame_head(out: &mut Vec<u8>, number: u64, len: u64) {
    write_varint(out, number);
    write_varint(out, len);
}

/// Appends the header of a DATA frame (RFC 9114 section 7.2.1), behind which `len` bytes of the body follow.
#[inline]
pub fn write_data_head(out: &mut Vec<u8>, len: u64) {
    write_frame_head(out, frame_type::DATA, len);
}

/// An integer that is the whole payload of a frame; `None` when it is anything else.
pub(super) fn only_varint(payload: &[u8]) -> Option<u64> {
    let &first = payload.first()?;
    if len_of(first) != payload.len() {
        return None;
    }
    read_varint(payload).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_in_pieces() {
        let mut bytes = Vec::new();
        write_frame_head(&mut bytes, frame_type::PRIORITY_UPDATE_REQUEST, 70);
        write_frame_head(&mut bytes, 1 << 40, 1 << 50);
        let expected =
            [Http3FrameHead { number: 0xf_0700, len: 70 }, Http3FrameHead { number: 1 << 40, len: 1 << 50 }];
        for size in 1..=bytes.len() {
            let mut reader = FrameHeadReader::new();
            let mut heads = Vec::new();
            for mut piece in bytes.chunks(size) {
                while let Some(head) = reader.read(&mut piece) {
                    heads.push(head);
                }
                assert!(piece.is_empty(), "all is taken");
            }
            assert_eq!(heads, expected, "{size}");
            assert!(!reader.is_within());
        }
    }

    #[test]
    fn a_payload_is_one_integer_or_it_is_not() {
        assert_eq!(only_varint(&[0x40, 0x01]), Some(1));
        assert_eq!(only_varint(&[0x40]), None);
        assert_eq!(only_varint(&[0x01, 0x01]), None);
        assert_eq!(only_varint(&[]), None);
    }

    #[test]
    fn reserved_numbers_are_those_of_the_rfc() {
        for random in [0, 1, 7, u64::MAX] {
            assert_eq!((reserved_number(random) - 0x21) % 0x1f, 0);
        }
        assert_eq!(reserved_number(0), 0x21);
    }
}
