//! The header of the PROXY protocol that may come before everything else on a connection, versions 1 and 2.

/// What version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest header of version 1.
const LINE_MAX: usize = 107;

/// Bytes of the header at the front of `bytes`: 0 where there is none.
///
/// # Errors
/// It is malformed or cut off.
pub fn len(bytes: &[u8]) -> Result<usize, String> {
    if bytes.starts_with(b"PROXY ") {
        let end = bytes.windows(2).take(LINE_MAX).position(|window| window == b"\r\n");
        return end.map(|end| end + 2).ok_or_else(|| "a header of version 1 without an end".to_owned());
    }
    if !bytes.starts_with(SIGNATURE) {
        return Ok(0);
    }
    let length = bytes.get(14..16).ok_or("a header of version 2 that is cut off")?;
    let len = 16 + usize::from(u16::from_be_bytes([length[0], length[1]]));
    if bytes[12] >> 4 != 2 || bytes.len() < len {
        return Err("a header of version 2 that is cut off, or of another version".to_owned());
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::len;

    #[test]
    fn headers_are_measured() {
        assert_eq!(len(b"GET / HTTP/1.1\r\n"), Ok(0));
        assert_eq!(len(b"PROXY UNKNOWN\r\nGET"), Ok(15));
        let second = [super::SIGNATURE, &[0x20, 0, 0, 2, 9, 9, b'G']].concat();
        assert_eq!(len(&second), Ok(18));
        assert!(len(b"PROXY TCP4").is_err());
        assert!(len(&second[..17]).is_err());
    }
}
