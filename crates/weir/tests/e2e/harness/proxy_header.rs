//! Headers of the PROXY protocol, written and read by hand, from the specification and not with Weir's own codec.

use super::origin::Connection;

/// The first 12 bytes of a header of version 2.
pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2 with this command, family and content.
pub(crate) fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("a header is short");
    [SIGNATURE, &[0x20 | command, family], &len.to_be_bytes(), content].concat()
}

/// A header of version 2 for a client at 192.0.2.1:4660 that connected to 198.51.100.2:443, with `tlvs`.
pub(crate) fn binary4(tlvs: &[u8]) -> Vec<u8> {
    binary(1, 0x11, &[b"\xc0\0\x02\x01\xc6\x33\x64\x02\x12\x34\x01\xbb", tlvs].concat())
}

/// Takes a header of version 1 off a connection, without its line end.
pub(crate) fn take_line(conn: &mut Connection) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend_from_slice(&conn.take(1)?);
    }
    line.truncate(line.len() - 2);
    Some(String::from_utf8(line).expect("a header is ASCII"))
}

/// Takes a header of version 2 off a connection: command and family, and what follows the length.
pub(crate) fn take_binary(conn: &mut Connection) -> Option<([u8; 2], Vec<u8>)> {
    let fixed = conn.take(16)?;
    assert_eq!(&fixed[..12], SIGNATURE);
    let content = conn.take(usize::from(u16::from_be_bytes([fixed[14], fixed[15]])))?;
    Some(([fixed[12], fixed[13]], content))
}
