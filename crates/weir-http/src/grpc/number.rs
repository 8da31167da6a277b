//! Decimal numbers as fields of gRPC carry them: digits only, without needless leading zeros.

/// Reads a number; `None` for anything else, and above 2^32-1.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    match value {
        [] | [b'0', _, ..] => None,
        digits => digits.iter().try_fold(0_u32, |number, digit| match digit {
            b'0'..=b'9' => number.checked_mul(10)?.checked_add(u32::from(digit - b'0')),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_and_other_values() {
        for (value, expected) in [
            ("0", Some(0)),
            ("9", Some(9)),
            ("10", Some(10)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("4294967300", None),
            ("42949672950", None),
            ("99999999999999999999", None),
            ("", None),
            ("00", None),
            ("07", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            (" 1", None),
            ("1.0", None),
            ("0x1", None),
        ] {
            assert_eq!(number(value.as_bytes()), expected, "{value}");
        }
        for byte in 0..=255_u8 {
            let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
            assert_eq!(number(&[byte]), digit);
            assert_eq!(number(&[b'1', byte]), digit.map(|digit| 10 + digit));
        }
    }
}
