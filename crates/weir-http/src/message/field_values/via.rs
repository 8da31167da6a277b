//! The `Via` field (RFC 9110 section 7.6.3): read only to recognise ourselves, so that a request that goes in circles
//! is noticed.

use crate::bytes::is_space;

/// Whether an element of a `Via` value says that the message has come in by the same way before: it was written by the proxy called `token`,
/// compared without regard to case, and not at another of its entrances, which `is_elsewhere` knows by the comment behind the name.
///
/// A comment that is never closed runs to the end of the value.
pub fn via_repeats(value: &[u8], token: &[u8], is_elsewhere: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = value;
    while !rest.is_empty() {
        let (element, comma) = split_element(rest);
        rest = comma.get(1..).unwrap_or_default();
        let (_protocol, rest) = split_word(element);
        let (received_by, rest) = split_word(rest);
        if received_by.eq_ignore_ascii_case(token) && !comment_in(rest).is_some_and(&is_elsewhere) {
            return true;
        }
    }
    false
}

/// The first word, and what follows it.
fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    text.split_at(text.iter().position(|&byte| is_space(byte)).unwrap_or(text.len()))
}

/// The comment that this is, without its parentheses.
fn comment_in(text: &[u8]) -> Option<&[u8]> {
    text.trim_ascii().strip_prefix(b"(")?.strip_suffix(b")")
}

/// Splits before the first comma that is not inside a comment.
fn split_element(value: &[u8]) -> (&[u8], &[u8]) {
    let (mut depth, mut escaped) = (0_usize, false);
    let end = value.iter().position(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = depth > 0,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' => return depth == 0,
            _ => {}
        }
        false
    });
    value.split_at(end.unwrap_or(value.len()))
}

#[cfg(test)]
mod tests {
    use super::via_repeats;

    #[test]
    fn our_own_token_is_recognised_where_it_counts() {
        let rows: &[(&str, bool)] = &[
            ("1.1 weir-1", true),
            ("1.1 WEIR-1", true),
            ("1.0 a, HTTP/1.1 weir-1 (x, y)", true),
            ("1.1 a (b, (c)), 1.1\tweir-1", true),
            ("1.1 a (\\), 1.1 weir-1), 1.1 b", false),
            ("1.1 weir-10", false),
            ("1.1 a weir-1", false),
            ("1.1 a (1.1 weir-1)", false),
            ("1.1 a (, 1.1 weir-1", false),
            ("weir-1", false),
            ("1.1 weir-1 (web)", true),
            ("1.1 weir-1 (other)", false),
            ("1.1 weir-1 (other), 1.1 weir-1\t( other)", true),
            ("1.1 weir-1 (other), 1.0 weir-1 (web)", true),
            ("1.1 weir-1 (other) more", true),
            ("1.1 weir-1 other", true),
            ("1.1 weir-1 (other", true),
            ("1.1 weir-1(other)", false),
            ("1.1 (weir-1)", false),
            (",, ,1.1 weir-1", true),
            ("", false),
        ];
        for (value, expected) in rows {
            let is_elsewhere = |comment: &[u8]| comment == b"other";
            assert_eq!(via_repeats(value.as_bytes(), b"weir-1", is_elsewhere), *expected, "{value}");
        }
    }
}
