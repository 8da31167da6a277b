//! `grpc-message`: the text of a status, percent-encoded (`PROTOCOL-HTTP2.md`, Responses).
//!
//! The encoding is that of RFC 3986 section 2.1 with other bytes that stay as they are: space and visible ASCII, except `%`.

use crate::digits::percent_encoded;

/// Whether `byte` means itself in a value (Percent-Byte-Unencoded).
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'%'
}

/// Appends `message`, which should be UTF-8, as the value of a `grpc-message`.
///
/// A space at either end is encoded as well, since no field value may begin or end with one (RFC 9110 section 5.5).
pub fn write_status_message(out: &mut Vec<u8>, message: &[u8]) {
    let last = message.len().saturating_sub(1);
    for (index, &byte) in message.iter().enumerate() {
        let is_edge_space = byte == b' ' && (index == 0 || index == last);
        if is_plain(byte) && !is_edge_space {
            out.push(byte);
        } else {
            percent_encoded(out, byte);
        }
    }
}

/// Appends the message in the value of a `grpc-message`.
///
/// A `%` without two hexadecimal digits behind it stays, and so does every byte that should have been encoded: a message is never
/// rejected. It need not be UTF-8.
pub fn read_status_message(out: &mut Vec<u8>, value: &[u8]) {
    let mut rest = value;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if let ([high, low, tail @ ..], b'%') = (tail, byte)
            && let (Some(high), Some(low)) = (hexadecimal_digit(*high), hexadecimal_digit(*low))
        {
            out.push(high << 4 | low);
            rest = tail;
        } else {
            out.push(*byte);
        }
    }
}

/// The value of a hexadecimal digit.
const fn hexadecimal_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn written(message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_status_message(&mut out, message);
        out
    }

    fn read(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        read_status_message(&mut out, value);
        out
    }

    #[test]
    fn messages_are_encoded() {
        for (message, value) in [
            ("", ""),
            ("no healthy server", "no healthy server"),
            ("100%", "100%25"),
            ("a\tb\r\nc", "a%09b%0D%0Ac"),
            ("caf\u{e9} \u{2615}", "caf%C3%A9 %E2%98%95"),
            ("~\u{7f}", "~%7F"),
            (" ", "%20"),
            ("  ", "%20%20"),
            (" a b ", "%20a b%20"),
            ("%20", "%2520"),
        ] {
            assert_eq!(written(message.as_bytes()), value.as_bytes(), "{message}");
            assert_eq!(read(value.as_bytes()), message.as_bytes(), "{value}");
        }
    }

    #[test]
    fn each_byte_is_plain_or_encoded() {
        for byte in 0..=255_u8 {
            let value = written(&[b'<', byte, b'>']);
            if (0x20..=0x7e).contains(&byte) && byte != b'%' {
                assert_eq!(value, [b'<', byte, b'>']);
            } else {
                assert_eq!(value, format!("<%{byte:02X}>").as_bytes());
            }
            assert_eq!(read(format!("%{byte:02x}").as_bytes()), [byte]);
        }
    }

    #[test]
    fn broken_encodings_stay() {
        for value in ["%", "%%", "%2", "a%", "%g0", "%0g", "% 20", "%+1", "caf\u{e9}", "\0"] {
            assert_eq!(read(value.as_bytes()), value.as_bytes(), "{value}");
        }
        assert_eq!(read(b"%%41%4%42%"), b"%A%4B%");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(message in proptest::collection::vec(any::<u8>(), 0..40)) {
            let value = written(&message);
            prop_assert!(value.iter().all(|byte| matches!(byte, 0x20..=0x7e)));
            prop_assert_eq!(value.trim_ascii(), &value[..]);
            prop_assert_eq!(read(&value), message);
        }

        #[test]
        fn no_value_grows(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(read(&value).len() <= value.len());
        }
    }
}
