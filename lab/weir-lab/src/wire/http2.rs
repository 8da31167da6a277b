//! The frames of HTTP/2 (RFC 9113) that the lab's clients write and read, and as much of HPACK (RFC 7541) as they need.
//!
//! Requests are written with a table of their own of three lines; of responses nothing but the status is read, which comes first.

/// What a client begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's head.
pub const HEAD_LEN: usize = 9;

/// The types of frames.
pub mod kind {
    #![expect(missing_docs, reason = "they are called as in RFC 9113, section 6")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flag of SETTINGS and PING that answers one.
pub const ACK: u8 = 0x1;
/// The flag of the last frame of a stream.
pub const END_STREAM: u8 = 0x1;
/// The flag of the last frame of a header block.
pub const END_HEADERS: u8 = 0x4;
/// The flag of frames with padding.
const PADDED: u8 = 0x8;
/// The flag of HEADERS with a priority.
const PRIORITY: u8 = 0x20;

/// The settings that a client of the lab may have, and those of a target that matter to it (RFC 9113, section 6.5.2).
pub mod setting {
    #![expect(missing_docs, reason = "they are called as in RFC 9113, section 6.5.2")]
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
}

/// The stream was not processed (RFC 9113, section 7).
pub const REFUSED_STREAM: u32 = 7;
/// The stream is no longer needed.
pub const CANCEL: u32 = 8;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameStart {
    /// Bytes of the payload.
    pub len: usize,
    /// See [`kind`].
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
}

/// Reads a frame from the start of `bytes`; `None` until all of it is there.
pub fn frame(bytes: &[u8]) -> Option<(FrameStart, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>()?;
    let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
    Some((FrameStart { len, kind: head[3], flags: head[4], stream }, rest.get(..len)?))
}

/// Writes a frame.
pub fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The payload without padding and priority.
pub fn content(start: FrameStart, payload: &[u8]) -> &[u8] {
    let is_padded = start.flags & PADDED != 0;
    let padding = if is_padded { payload.first().copied().unwrap_or(0) } else { 0 };
    let has_priority = start.kind == kind::HEADERS && start.flags & PRIORITY != 0;
    let from = usize::from(is_padded) + if has_priority { 5 } else { 0 };
    payload.get(from..payload.len().saturating_sub(usize::from(padding))).unwrap_or_default()
}

/// The header block of a GET. The first one of a connection puts its last three lines into the table of the peer, the others
/// name them.
pub fn get(authority: &str, path: &str, is_first: bool) -> Vec<u8> {
    // :method GET and :scheme http of the static table, :path as a literal.
    let mut block = vec![0x82, 0x86, 0x04];
    string(&mut block, path);
    if is_first {
        // :authority, user-agent and accept: names of the static table.
        for (name, value) in [(0x41, authority), (0x7a, "weir-lab"), (0x53, "*/*")] {
            block.push(name);
            string(&mut block, value);
        }
    } else {
        block.extend([0xc0, 0xbf, 0xbe]);
    }
    block
}

/// The header block of any request without a table, each line spelled out; the pseudo-fields come first.
pub fn block<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        // RFC 7541, section 6.2.2: a line that is not put into the table.
        block.push(0);
        for text in [name, value] {
            prefixed(&mut block, 0, 7, text.len() as u64);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// An integer that begins in the last `bits` of a byte (RFC 7541, section 5.1).
pub(super) fn prefixed(out: &mut Vec<u8>, first: u8, bits: u32, value: u64) {
    let full = (1_u64 << bits) - 1;
    if value < full {
        out.push(first | value as u8);
        return;
    }
    out.push(first | full as u8);
    let mut rest = value - full;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A string of fewer than 127 bytes, without Huffman coding.
fn string(block: &mut Vec<u8>, text: &str) {
    debug_assert!(text.len() < 127);
    block.push(text.len() as u8);
    block.extend_from_slice(text.as_bytes());
}

/// The status at the beginning of a header block; 0 when it is in the table that the target has made of earlier ones.
pub fn status(block: &[u8]) -> u16 {
    // Updates of the table's size may come first, of one byte where the size is small and of three where it is 4 096.
    let mut rest = block;
    while let Some((first, more)) = rest.split_first().filter(|(first, _)| **first & 0xe0 == 0x20) {
        let is_long = first & 0x1f == 0x1f;
        let len = more.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
        rest = if is_long { more.get(len..).unwrap_or_default() } else { more };
    }
    let of_table = [200, 204, 206, 304, 400, 404, 500];
    match rest {
        [first @ 0x88..=0x8e, ..] => of_table[usize::from(first - 0x88)],
        // A literal whose name is that of a line of the static table, to be put into the table, not to be, and never to be.
        [0x48..=0x4e | 0x08..=0x0e | 0x18..=0x1e, 3, digits @ ..] => {
            digits.iter().take(3).fold(0, |sum, digit| 10 * sum + u16::from(digit.wrapping_sub(b'0') % 10))
        }
        [0x48..=0x4e | 0x08..=0x0e | 0x18..=0x1e, 0x82 | 0x83, coded @ ..] => three_digits(coded),
        _ => 0,
    }
}

/// Three digits in the Huffman code of RFC 7541, appendix B: 0 to 2 have five bits, their own value; 3 to 9 have six, 22 more.
pub(super) fn three_digits(coded: &[u8]) -> u16 {
    let bits = coded.iter().chain([&0; 3]).take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let (mut left, mut status) = (24, 0);
    for _ in 0..3 {
        let five = bits >> (left - 5) & 0x1f;
        let (digit, len) =
            if five <= 2 { (five, 5) } else { ((bits >> (left - 6) & 0x3f).saturating_sub(22), 6) };
        left -= len;
        status = 10 * status + digit as u16 % 10;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::{END_STREAM, FrameStart, PADDED, block, content, frame, get, kind, status, write};

    #[test]
    fn written_frames_are_read_once_they_are_whole() {
        let mut out = Vec::new();
        write(&mut out, kind::DATA, END_STREAM, 5, b"abc");
        let start = FrameStart { len: 3, kind: kind::DATA, flags: END_STREAM, stream: 5 };
        assert_eq!(frame(&out), Some((start, &b"abc"[..])));
        for len in 0..out.len() {
            assert_eq!(frame(&out[..len]), None);
        }
    }

    #[test]
    fn padding_and_priority_are_no_content() {
        let start = FrameStart { len: 6, kind: kind::DATA, flags: PADDED, stream: 1 };
        assert_eq!(content(start, b"\x02abc\0\0"), b"abc");
        assert_eq!(content(FrameStart { flags: 0, ..start }, b"abc"), b"abc");
        let head = FrameStart { kind: kind::HEADERS, flags: 0x20, ..start };
        assert_eq!(content(head, b"\0\0\0\0\x10\x88"), b"\x88");
        assert_eq!(content(start, b"\xffa"), b"");
    }

    #[test]
    fn the_status_is_read_behind_updates_of_the_table() {
        assert_eq!(status(&[0x88, 0x76]), 200);
        assert_eq!(status(&[0x20, 0x3f, 0xe1, 0x1f, 0x88]), 200);
        assert_eq!([status(&[0x8d]), status(&[0x8e])], [404, 500]);
        // As nginx writes 502, and as RFC 7541, C.6.1, writes 302.
        assert_eq!(status(b"\x08\x03502"), 502);
        assert_eq!(status(&[0x48, 0x82, 0x64, 0x02]), 302);
        // 503: 011011, 00000, 011001 and seven bits of padding.
        assert_eq!(status(&[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111]), 503);
        assert_eq!([status(&[0xbe]), status(&[]), status(&[0x3f])], [0, 0, 0]);
    }

    #[test]
    fn lines_of_any_name_are_spelled_out() {
        assert_eq!(block([(":path", "/x"), ("a", "b")].into_iter()), b"\0\x05:path\x02/x\0\x01a\x01b");
        let long = "x".repeat(200);
        assert!(block([("a", &*long)].into_iter()).starts_with(&[0, 1, b'a', 0x7f, 200 - 127, b'x']));
        // A name of the table other than that of 200.
        assert_eq!(status(b"\x0d\x03410"), 410);
    }

    #[test]
    fn later_requests_name_the_lines_of_the_first() {
        let first = get("a:1", "/x", true);
        assert!(first.starts_with(b"\x82\x86\x04\x02/x\x41\x03a:1\x7a\x08weir-lab\x53\x03*/*"));
        assert_eq!(get("a:1", "/", false), b"\x82\x86\x04\x01/\xc0\xbf\xbe");
    }
}
