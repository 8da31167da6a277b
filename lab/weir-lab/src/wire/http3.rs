//! The frames of HTTP/3 (RFC 9114) that the lab's clients write and read, and as much of QPACK (RFC 9204) as they need.
//!
//! Requests name lines of the static table, or spell them out; responses cannot do otherwise, since the clients offer no table of their
//! own. Of a response nothing but the status is read, which comes first.

use super::http2::{prefixed, three_digits};

/// What a stream of one direction is for, which it begins with.
pub mod stream {
    #![expect(
        missing_docs,
        reason = "they are called as in RFC 9114, section 6.2, and RFC 9204, section 4.2"
    )]
    pub const CONTROL: u64 = 0;
    pub const PUSH: u64 = 1;
}

/// The types of frames.
pub mod kind {
    #![expect(missing_docs, reason = "they are called as in RFC 9114, section 7.2")]
    pub const DATA: u64 = 0;
    pub const HEADERS: u64 = 1;
    pub const SETTINGS: u64 = 4;
    pub const GOAWAY: u64 = 7;
}

/// Codes with which streams and connections end.
pub mod code {
    #![expect(missing_docs, reason = "they are called as in RFC 9114, section 8.1")]
    pub const NO_ERROR: u32 = 0x100;
    pub const REQUEST_REJECTED: u32 = 0x10b;
    pub const REQUEST_CANCELLED: u32 = 0x10c;
}

/// Lines of the static table, by their index, with a value or for their name.
mod table {
    pub(super) const AUTHORITY: u64 = 0;
    pub(super) const PATH: u64 = 1;
    pub(super) const CONTENT_LENGTH: u64 = 4;
    pub(super) const GET: u64 = 17;
    pub(super) const POST: u64 = 20;
    pub(super) const HTTPS: u64 = 23;
    pub(super) const ACCEPT_ANY: u64 = 29;
    pub(super) const TEXT_PLAIN: u64 = 53;
    pub(super) const USER_AGENT: u64 = 95;
}

/// Writes an integer of one, two, four or eight bytes (RFC 9000, section 16).
pub fn write_integer(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Reads an integer from the start of `bytes`, and gives what follows it; `None` until all of it is there.
pub fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = 1_usize << (bytes.first()? >> 6);
    let (own, rest) = bytes.split_at_checked(len)?;
    let value = own.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    // The two bits that say how long it is are no part of it.
    Some((value & (u64::MAX >> (66 - 8 * len)), rest))
}

/// Writes the head of a frame, which has `len` bytes.
pub fn write_frame_head(out: &mut Vec<u8>, kind: u64, len: u64) {
    write_integer(out, kind);
    write_integer(out, len);
}

/// Reads the head of a frame from the start of `bytes`: its kind and length, and what follows; `None` until all of it is there.
pub fn frame_head(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (kind, rest) = integer(bytes)?;
    let (len, rest) = integer(rest)?;
    Some((kind, len, rest))
}

/// The field section of a request: a GET, or a POST with a body of so many bytes.
pub fn request(authority: &str, path: &str, body: Option<u64>) -> Vec<u8> {
    // No line of a dynamic table, and none to count from.
    let mut section = vec![0, 0];
    indexed(&mut section, if body.is_some() { table::POST } else { table::GET });
    indexed(&mut section, table::HTTPS);
    named(&mut section, table::AUTHORITY, authority);
    named(&mut section, table::PATH, path);
    named(&mut section, table::USER_AGENT, "weir-lab");
    indexed(&mut section, table::ACCEPT_ANY);
    if let Some(len) = body {
        indexed(&mut section, table::TEXT_PLAIN);
        named(&mut section, table::CONTENT_LENGTH, &len.to_string());
    }
    section
}

/// The field section of any request, each line spelled out; the pseudo-fields come first.
pub fn section<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in lines {
        // RFC 9204, section 4.5.6.
        prefixed(&mut section, 0x20, 3, name.len() as u64);
        section.extend_from_slice(name.as_bytes());
        prefixed(&mut section, 0, 7, value.len() as u64);
        section.extend_from_slice(value.as_bytes());
    }
    section
}

/// A line of the static table.
fn indexed(section: &mut Vec<u8>, index: u64) {
    prefixed(section, 0xc0, 6, index);
}

/// A line with the name of one of the static table, and a value of its own without Huffman coding.
fn named(section: &mut Vec<u8>, index: u64, value: &str) {
    prefixed(section, 0x50, 4, index);
    prefixed(section, 0, 7, value.len() as u64);
    section.extend_from_slice(value.as_bytes());
}

/// Reads an integer that begins in the last `bits` of a byte.
fn read_prefixed(bytes: &[u8], bits: u32) -> Option<(u64, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let full = (1_u64 << bits) - 1;
    let mut value = u64::from(*first) & full;
    if value < full {
        return Some((value, rest));
    }
    for shift in [0, 7, 14] {
        let (byte, more) = rest.split_first()?;
        (value, rest) = (value + (u64::from(byte & 0x7f) << shift), more);
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// The status at the beginning of the field section of a response; `None` when there is none, or it cannot be read without a table.
pub fn status(section: &[u8]) -> Option<u16> {
    let lines = section.strip_prefix(&[0, 0])?;
    let first = *lines.first()?;
    if first & 0xc0 == 0xc0 {
        return status_at(read_prefixed(lines, 6)?.0);
    }
    // A name of the static table with a value of its own.
    if first & 0xd0 == 0x50 {
        let (index, rest) = read_prefixed(lines, 4)?;
        status_at(index)?;
        return digits(rest);
    }
    // A name that is spelled out.
    if first & 0xe0 == 0x20 && first & 0x08 == 0 {
        let (len, rest) = read_prefixed(lines, 3)?;
        let (name, rest) = rest.split_at_checked(len as usize)?;
        return if name == b":status" { digits(rest) } else { None };
    }
    None
}

/// The status at `index` of the static table.
fn status_at(index: u64) -> Option<u16> {
    Some(match index {
        24 => 103,
        25 => 200,
        26 => 304,
        27 => 404,
        28 => 503,
        63 => 100,
        64 => 204,
        65 => 206,
        66 => 302,
        67 => 400,
        68 => 403,
        69 => 421,
        70 => 425,
        71 => 500,
        _ => return None,
    })
}

/// A value of three digits.
fn digits(value: &[u8]) -> Option<u16> {
    let is_coded = value.first()? & 0x80 != 0;
    let (len, rest) = read_prefixed(value, 7)?;
    let own = rest.get(..len as usize)?;
    if is_coded {
        return Some(three_digits(own));
    }
    let is_number = own.len() == 3 && own.iter().all(u8::is_ascii_digit);
    is_number.then(|| own.iter().fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{frame_head, integer, kind, request, section, status, write_frame_head, write_integer};

    #[test]
    fn integers_are_read_as_they_are_written() {
        for value in [0, 1, 63, 64, 16_383, 16_384, 1_073_741_823, 1_073_741_824, (1 << 62) - 1] {
            let mut out = Vec::new();
            write_integer(&mut out, value);
            for len in 0..out.len() {
                assert_eq!(integer(&out[..len]), None);
            }
            out.push(7);
            assert_eq!(integer(&out), Some((value, &[7][..])), "{value}");
        }
        // RFC 9000, A.1.
        assert_eq!(integer(&[0x7b, 0xbd]), Some((15_293, &[][..])));
        assert_eq!(integer(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, &[][..])));
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(integer(&long), Some((151_288_809_941_952_652, &[][..])));
    }

    #[test]
    fn the_head_of_a_frame_is_two_integers() {
        let mut out = Vec::new();
        write_frame_head(&mut out, kind::DATA, 10_485_760);
        assert_eq!(frame_head(&out), Some((kind::DATA, 10_485_760, &[][..])));
        assert_eq!(frame_head(&out[..4]), None);
    }

    #[test]
    fn requests_need_no_table() {
        let get = request("a:1", "/x", None);
        assert_eq!(get, b"\0\0\xd1\xd7\x50\x03a:1\x51\x02/x\x5f\x50\x08weir-lab\xdd");
        let post = request("a:1", "/x", Some(1024));
        assert!(post.starts_with(b"\0\0\xd4\xd7") && post.ends_with(b"\xf5\x54\x041024"), "{post:x?}");
        // A length that does not fit into its first byte.
        let long = "/".repeat(200);
        let section = request("a", &long, None);
        assert!(section.windows(3).any(|part| part == [0x51, 0x7f, 200 - 127]), "{section:x?}");
    }

    #[test]
    fn lines_of_any_name_are_spelled_out() {
        assert_eq!(
            section([(":path", "/x"), ("accept-language", "de")].into_iter()),
            b"\0\0\x25:path\x02/x\x27\x08accept-language\x02de"
        );
    }

    #[test]
    fn the_status_is_read_in_every_form_that_needs_no_table() {
        assert_eq!([status(b"\0\0\xd9\x01"), status(b"\0\0\xd8")], [Some(200), Some(103)]);
        // Indices 63 to 71 do not fit into the first byte.
        assert_eq!([status(b"\0\0\xff\0"), status(b"\0\0\xff\x08")], [Some(100), Some(500)]);
        assert_eq!(status(b"\0\0\x5f\x09\x03502"), Some(502));
        assert_eq!(status(b"\0\0\x27\0:status\x03429"), Some(429));
        // 503 with Huffman coding: 011011, 00000, 011001 and seven bits of padding.
        assert_eq!(status(&[0, 0, 0x5f, 0x09, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111]), Some(503));
        for wrong in [
            &b""[..],
            b"\0\0",
            // It needs a line of a dynamic table.
            b"\x02\0\x80",
            b"\0\0\x80",
            // `:authority`, a value that is no number, one that is cut off.
            b"\0\0\xc0",
            b"\0\0\x5f\x09\x03abc",
            b"\0\0\x5f\x09\x0350",
            b"\0\0\x27\0:statuz\x03429",
        ] {
            assert_eq!(status(wrong), None, "{wrong:x?}");
        }
    }
}
