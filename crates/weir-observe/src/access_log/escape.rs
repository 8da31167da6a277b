//! The only way that bytes of a peer get into a line or a page.
//!
//! None of these functions lets a byte through that could end a line, a quoted string, a column or a tag. Each takes any
//! bytes at all, copies clean runs whole and allocates nothing itself.

use crate::printable;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The kind of line that a value is written into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EscapeRule {
    /// Between double quotes: spaces are harmless.
    Quoted,
    /// In the open: a space would begin a new column.
    Bare,
    /// As a value in a JSON object.
    Json,
}

/// Appends a value to a line of text: printable ASCII as it is, everything else, quotes and backslashes as `\xHH`.
pub(crate) fn text(value: &[u8], place: EscapeRule, out: &mut Vec<u8>) {
    let is_clean = |byte: u8| match byte {
        b'"' | b'\\' => false,
        b' ' => place == EscapeRule::Quoted,
        _ => byte.is_ascii_graphic(),
    };
    by_runs(value, out, is_clean, push_escape);
}

/// Appends a value to a JSON string, without its quotes.
///
/// Valid UTF-8 stays as it is; a byte that is not part of any becomes `\u00HH`, the character with the number of the
/// byte, so that no byte is lost to the eye. Characters that mislead readers are escaped as well.
pub(crate) fn json(value: &[u8], out: &mut Vec<u8>) {
    for chunk in value.utf8_chunks() {
        json_text(chunk.valid(), out);
        for byte in chunk.invalid() {
            json_byte(*byte, out);
        }
    }
}

fn json_text(text: &str, out: &mut Vec<u8>) {
    if text.is_ascii() {
        return json_ascii(text.as_bytes(), out);
    }
    for part in text.split_inclusive(misleads) {
        let clean = part.trim_end_matches(misleads);
        json_ascii(clean.as_bytes(), out);
        for char in part[clean.len()..].chars() {
            let [high, low] = (char as u16).to_be_bytes();
            out.extend_from_slice(b"\\u");
            push_hex(high, out);
            push_hex(low, out);
        }
    }
}

/// Characters beyond ASCII that end a line for some readers, steer a terminal, or turn the text around them. All of them
/// are below U+10000.
fn misleads(char: char) -> bool {
    !char.is_ascii() && printable::misleads(char)
}

fn json_ascii(text: &[u8], out: &mut Vec<u8>) {
    let is_clean = |byte: u8| !matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x7f);
    by_runs(text, out, is_clean, |byte, out| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => json_byte(byte, out),
    });
}

fn json_byte(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\u00");
    push_hex(byte, out);
}

/// Appends a value to the text of an HTML element or to a quoted attribute; bytes that are not printable ASCII become `\xHH`.
pub(crate) fn html(value: &[u8], out: &mut Vec<u8>) {
    let is_clean = |byte: u8| match byte {
        b'<' | b'>' | b'&' | b'"' | b'\'' => false,
        b' ' => true,
        _ => byte.is_ascii_graphic(),
    };
    by_runs(value, out, is_clean, |byte, out| match byte {
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'&' => out.extend_from_slice(b"&amp;"),
        b'"' => out.extend_from_slice(b"&quot;"),
        b'\'' => out.extend_from_slice(b"&#39;"),
        _ => push_escape(byte, out),
    });
}

/// Appends `\xHH`.
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    push_hex(byte, out);
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Copies clean runs whole and hands each other byte to `escape`.
fn by_runs(
    value: &[u8],
    out: &mut Vec<u8>,
    is_clean: impl Fn(u8) -> bool,
    escape: impl Fn(u8, &mut Vec<u8>),
) {
    let mut rest = value;
    while let Some(at) = rest.iter().position(|byte| !is_clean(*byte)) {
        out.extend_from_slice(&rest[..at]);
        escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(escape: impl Fn(&[u8], &mut Vec<u8>), value: &[u8]) -> String {
        let mut out = Vec::new();
        escape(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_keeps_printable_ascii_and_spells_out_the_rest() {
        let quoted = |value: &[u8]| escaped(|value, out| text(value, EscapeRule::Quoted, out), value);
        let bare = |value: &[u8]| escaped(|value, out| text(value, EscapeRule::Bare, out), value);
        assert_eq!(quoted(b"GET /a?b=c HTTP/1.1"), "GET /a?b=c HTTP/1.1");
        assert_eq!(quoted(b"a\"b\\c\r\n\t\0\x7f\xc3\xa9"), r"a\x22b\x5cc\x0d\x0a\x09\x00\x7f\xc3\xa9");
        assert_eq!(bare(b"two words"), r"two\x20words");
    }

    #[test]
    fn json_keeps_utf8_and_spells_out_what_misleads() {
        let cases: &[(&[u8], &str)] = &[
            (b"plain", "plain"),
            (b"a\"b\\c\r\n\t\0\x1b\x7f", r#"a\"b\\c\r\n\t\u0000\u001b\u007f"#),
            ("été ∑ 🦀".as_bytes(), "été ∑ 🦀"),
            (b"\xe9t\xe9", r"\u00e9t\u00e9"),
            ("a\u{85}b\u{2028}\u{2029}c".as_bytes(), r"a\u0085b\u2028\u2029c"),
            ("\u{9b}31m\u{202e}txt\u{feff}é".as_bytes(), r"\u009b31m\u202etxt\ufeffé"),
            (b"\xf0\x9f\xa6", r"\u00f0\u009f\u00a6"),
        ];
        for (value, expected) in cases {
            assert_eq!(escaped(json, value), *expected);
        }
    }

    #[test]
    fn html_opens_no_tag_and_ends_no_attribute() {
        assert_eq!(
            escaped(html, b"<a b='c' d=\"e\">&\xff\n"),
            r"&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\xff\x0a"
        );
    }
}
