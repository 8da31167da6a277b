//! The `Via` field (RFC 9110 section 7.6.3): read only to recognise ourselves, so that a request that goes in circles
//! is noticed.

use crate::bytes::is_space;

/// Whether one element of a `Via` value was written by the proxy called `token`, compared without regard to case.
///
/// A comment that is never closed runs to the end of the value.
pub fn via_names(value: &[u8], token: &[u8]) -> bool {
    let mut rest = value;
    while !rest.is_empty() {
        let (element, comma) = split_element(rest);
        rest = comma.get(1..).unwrap_or_default();
        let mut words = element.split(|&byte| is_space(byte)).filter(|word| !word.is_empty());
        let (_protocol, received_by) = (words.next(), words.next());
        if received_by.is_some_and(|name| name.eq_ignore_ascii_case(token)) {
            return true;
        }
    }
    false
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
    use super::via_names;

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
            ("1.1 (weir-1)", false),
            (",, ,1.1 weir-1", true),
            ("", false),
        ];
        for (value, expected) in rows {
            assert_eq!(via_names(value.as_bytes(), b"weir-1"), *expected, "{value}");
        }
    }
}
