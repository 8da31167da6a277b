//! The only way that bytes of a peer get into a line or a page.
//!
//! None of these functions lets a byte through that could end a line, a quoted string, a column or a tag. Each works
//! byte by byte on whole clean runs, allocates nothing itself and is total: any input is legal.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Where a value stands in a line of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Between double quotes: spaces are harmless.
    Quoted,
    /// In the open: a space would begin a new column.
    Bare,
    /// As a value in a JSON object.
    Json,
}

/// Appends a value to a line of text: printable ASCII as it is, everything else, quotes and backslashes as `\xHH`.
pub(crate) fn text(value: &[u8], place: Place, out: &mut Vec<u8>) {
    let is_clean = |byte: u8| match byte {
        b'"' | b'\\' => false,
        b' ' => place == Place::Quoted,
        _ => byte.is_ascii_graphic(),
    };
    by_runs(value, out, is_clean, |byte, out| {
        out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    });
}

/// Appends a value to a JSON string, without its quotes.
///
/// Valid UTF-8 stays as it is; a byte that is not part of any becomes `\u00HH`, the character with the number of the
/// byte, so that no byte is lost to the eye. Line separators that some readers split at are escaped as well.
pub(crate) fn json(value: &[u8], out: &mut Vec<u8>) {
    for chunk in value.utf8_chunks() {
        json_text(chunk.valid(), out);
        for byte in chunk.invalid() {
            json_byte(*byte, out);
        }
    }
}

/// Escapes valid text. U+0085, U+2028 and U+2029 end a line for some readers, so they are looked for as well.
fn json_text(text: &str, out: &mut Vec<u8>) {
    let parts = text.split_inclusive(['\u{85}', '\u{2028}', '\u{2029}']);
    for part in parts {
        let clean = part.trim_end_matches(['\u{85}', '\u{2028}', '\u{2029}']);
        json_ascii(clean.as_bytes(), out);
        out.extend_from_slice(match part[clean.len()..].chars().next() {
            Some('\u{85}') => b"\\u0085",
            Some('\u{2028}') => b"\\u2028",
            Some(_) => b"\\u2029",
            None => b"",
        });
    }
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
    out.extend_from_slice(&[
        b'\\',
        b'u',
        b'0',
        b'0',
        HEX[usize::from(byte >> 4)],
        HEX[usize::from(byte & 15)],
    ]);
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
        _ => out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    });
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
