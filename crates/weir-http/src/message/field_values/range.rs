//! Ranges of a representation, in bytes (RFC 9110 section 14).

/// Bytes from `start` up to, but not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
}

impl ByteRange {
    /// How many bytes it has.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What a `Range` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeSelection {
    /// The whole: the field is absent, of another unit, not valid, or asks for more than there is (RFC 9110 section 14.2 lets a server
    /// ignore it).
    Whole,
    /// This part: 206.
    One(ByteRange),
    /// These parts, in the order of the request: 206 with `multipart/byteranges`.
    Several(Vec<ByteRange>),
    /// None of it is there: 416.
    Unsatisfiable,
}

/// The parts of a representation of `len` bytes that `value`, that of `Range`, selects. Of more than `count_max` ranges that are there, the whole is sent (RFC 9110 section
/// 17.15).
pub fn select_ranges(value: &[u8], len: u64, count_max: u32) -> RangeSelection {
    let Some((unit, specifiers)) = value.split_at_checked(6) else { return RangeSelection::Whole };
    // Of nothing there are no parts, but the whole is what the client asks for: a server may ignore `Range` (RFC 9110 section 14.2).
    if !unit.eq_ignore_ascii_case(b"bytes=") || len == 0 {
        return RangeSelection::Whole;
    }
    let mut ranges = Vec::new();
    let mut count: u32 = 0;
    for specifier in specifiers.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if specifier.is_empty() {
            continue;
        }
        count += 1;
        match parse(specifier, len) {
            None => return RangeSelection::Whole,
            // One that is not there sends nothing, and counts for nothing.
            Some(range) => ranges.extend(range),
        }
        if ranges.len() > count_max as usize {
            return RangeSelection::Whole;
        }
    }
    match ranges[..] {
        [] if count == 0 => RangeSelection::Whole,
        [] => RangeSelection::Unsatisfiable,
        [only] => RangeSelection::One(only),
        // Parts that overlap or repeat themselves would make the answer larger than what they are of.
        _ if ranges.iter().map(|range| range.len()).sum::<u64>() > len => RangeSelection::Whole,
        _ => RangeSelection::Several(ranges),
    }
}

/// One range, without the part that is not there; `Some(None)` when nothing is left of it, `None` when it is not valid.
#[expect(clippy::option_option, reason = "not valid and not there are two things")]
fn parse(specifier: &[u8], len: u64) -> Option<Option<ByteRange>> {
    let dash = specifier.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (specifier[..dash].trim_ascii(), specifier[dash + 1..].trim_ascii());
    if first.is_empty() {
        let suffix = number(last)?.min(len);
        return Some((suffix > 0).then_some(ByteRange { start: len - suffix, end: len }));
    }
    let start = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if start > last {
        return None;
    }
    let end = last.saturating_add(1).min(len);
    Some((start < len).then_some(ByteRange { start, end }))
}

/// A decimal number; one that does not fit is as good as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn several(ranges: &[(u64, u64)]) -> RangeSelection {
        RangeSelection::Several(ranges.iter().map(|&(start, end)| ByteRange { start, end }).collect())
    }

    #[test]
    fn ranges_are_selected_by_the_grammar_of_the_rfc() {
        use RangeSelection::{One, Unsatisfiable, Whole};
        let one = |start, end| One(ByteRange { start, end });
        for (value, expected) in [
            ("bytes=0-499", one(0, 100)),
            ("bytes=0-0", one(0, 1)),
            ("BYTES=10-19", one(10, 20)),
            ("bytes=-10", one(90, 100)),
            ("bytes=-1000", one(0, 100)),
            ("bytes=99-", one(99, 100)),
            ("bytes= 1-2 ", one(1, 3)),
            ("bytes=1-99999999999999999999999", one(1, 100)),
            ("bytes=0-0,-1", several(&[(0, 1), (99, 100)])),
            ("bytes=50-59, ,0-9", several(&[(50, 60), (0, 10)])),
            ("bytes=0-0,200-", one(0, 1)),
            ("bytes=100-", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=100-,200-300", Unsatisfiable),
            ("bytes=0-,0-", Whole),
            ("bytes=5-4", Whole),
            ("bytes=0-1,5-4", Whole),
            ("bytes=a-b", Whole),
            ("bytes=1-2x", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=--1", Whole),
            ("bytes=", Whole),
            ("bytes=,", Whole),
            ("bytes", Whole),
            ("", Whole),
            ("items=0-1", Whole),
        ] {
            assert_eq!(select_ranges(value.as_bytes(), 100, 32), expected, "{value}");
        }
        let many = |count| format!("bytes={}", "0-0,".repeat(count));
        assert_eq!(select_ranges(many(33).as_bytes(), 100, 32), Whole);
        assert_ne!(select_ranges(many(32).as_bytes(), 100, 32), Whole);
        assert_eq!(select_ranges(b"bytes=0-0,2-2", 100, 1), Whole);
        assert_eq!(select_ranges(b"bytes=0-0", 100, 1), one(0, 1));
        assert_eq!(select_ranges(b"bytes=0-0", 100, 0), Whole);
        assert_eq!(select_ranges(b"bytes=100-", 100, 0), Unsatisfiable);
        assert_eq!(select_ranges(b"bytes=0-0,-1,100-,200-", 100, 2), several(&[(0, 1), (99, 100)]));
        assert_eq!(select_ranges(b"bytes=100-,0-0,-1,2-2", 100, 2), Whole);
        for of_nothing in ["bytes=0-", "bytes=-1", "bytes=5-9", "bytes=0-0,2-3"] {
            assert_eq!(select_ranges(of_nothing.as_bytes(), 0, 32), Whole, "{of_nothing}");
        }
    }

    proptest! {
        #[test]
        fn no_range_leads_out_of_the_representation(value in "bytes=[0-9, -]{0,40}", len in 0_u64..200) {
            let ranges = match select_ranges(value.as_bytes(), len, 32) {
                RangeSelection::One(range) => vec![range],
                RangeSelection::Several(ranges) => ranges,
                RangeSelection::Whole | RangeSelection::Unsatisfiable => vec![],
            };
            prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len));
            prop_assert!(ranges.iter().map(|range| range.len()).sum::<u64>() <= len);
        }
    }
}
