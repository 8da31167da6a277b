//! Messages to bytes: small functions that append to a buffer, without allocation of their own.
//!
//! They write what they are given. Names and values come from parsed heads or from the checked config, so neither can
//! hold a line end; debug builds check it.

use crate::bytes::{is_token, is_value_byte};
use crate::digits::decimal;
use crate::message::version::Version;

/// Appends `method target version` and the line end.
#[inline(always)]
pub fn request_line(out: &mut Vec<u8>, method: &[u8], target: &[u8], version: Version) {
    debug_assert!(is_token(method) && target.iter().all(|byte| byte.is_ascii_graphic()));
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.push(b' ');
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends `version status reason` and the line end.
#[inline]
pub fn status_line(out: &mut Vec<u8>, version: Version, status: u16, reason: &[u8]) {
    debug_assert!(reason.iter().all(|&byte| is_value_byte(byte)));
    // What nearly every response begins with.
    if status == 200 && version == Version::Http11 && reason == b"OK" {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    other_status_line(out, version, status, reason);
}

#[inline(never)]
fn other_status_line(out: &mut Vec<u8>, version: Version, status: u16, reason: &[u8]) {
    out.extend_from_slice(version.as_bytes());
    match status {
        100..=999 => out.extend_from_slice(&[
            b' ',
            b'0' + (status / 100) as u8,
            b'0' + (status / 10 % 10) as u8,
            b'0' + (status % 10) as u8,
            b' ',
        ]),
        _ => {
            out.push(b' ');
            decimal(out, u64::from(status));
            out.push(b' ');
        }
    }
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: value` and the line end.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(is_token(name) && value.iter().all(|&byte| is_value_byte(byte)));
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: value` with a decimal value, and the line end.
#[inline]
pub fn decimal_field(out: &mut Vec<u8>, name: &[u8], value: u64) {
    debug_assert!(is_token(name));
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Longest line that [`chunk_size`] writes, in bytes.
pub const CHUNK_SIZE_BYTES_MAX: usize = 18;

/// The end of the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the line that starts a chunk of `len` bytes to the front of `line`. Gives the length of the line.
///
/// The data and [`CHUNK_END`] follow. A chunk of 0 bytes would end the body: see [`last_chunk`].
#[inline]
pub fn chunk_size(len: u64, line: &mut [u8; CHUNK_SIZE_BYTES_MAX]) -> usize {
    let digits = ((u64::BITS - (len | 1).leading_zeros()) as usize).div_ceil(4);
    let mut rest = len;
    for digit in line[..digits].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xf) as usize];
        rest >>= 4;
    }
    line[digits..digits + 2].copy_from_slice(b"\r\n");
    digits + 2
}

/// Appends the last chunk with `trailers` as names and values.
pub fn last_chunk<'a>(out: &mut Vec<u8>, trailers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        field(out, name, value);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("what is written is ASCII")
    }

    #[test]
    fn lines() {
        assert_eq!(
            written(|out| request_line(out, b"GET", b"/a?b", Version::Http11)),
            "GET /a?b HTTP/1.1\r\n"
        );
        assert_eq!(
            written(|out| status_line(out, Version::Http10, 404, b"Not Found")),
            "HTTP/1.0 404 Not Found\r\n"
        );
        for (version, reason) in [(Version::Http11, "OK"), (Version::Http11, "ok"), (Version::Http10, "OK")] {
            let expected = format!("{} 200 {reason}\r\n", version.as_str());
            assert_eq!(written(|out| status_line(out, version, 200, reason.as_bytes())), expected);
        }
        assert_eq!(written(|out| status_line(out, Version::Http11, 299, b"")), "HTTP/1.1 299 \r\n");
        assert_eq!(written(|out| status_line(out, Version::Http11, 99, b"x")), "HTTP/1.1 99 x\r\n");
        assert_eq!(written(|out| field(out, b"X", b"y z")), "X: y z\r\n");
        assert_eq!(written(|out| decimal_field(out, b"Content-Length", 0)), "Content-Length: 0\r\n");
        let trailers: [(&[u8], &[u8]); 2] = [(b"A", b"1"), (b"B", b"")];
        assert_eq!(written(|out| last_chunk(out, trailers)), "0\r\nA: 1\r\nB: \r\n\r\n");
        assert_eq!(written(|out| last_chunk(out, [])).as_bytes(), LAST_CHUNK);
    }

    proptest! {
        #[test]
        fn sizes_of_chunks_are_hexadecimal(number in any::<u64>(), shift in 0..64) {
            let number = number >> shift;
            let mut line = [0; CHUNK_SIZE_BYTES_MAX];
            let len = chunk_size(number, &mut line);
            prop_assert_eq!(line[..len].to_vec(), format!("{number:x}\r\n").into_bytes());
        }
    }
}
