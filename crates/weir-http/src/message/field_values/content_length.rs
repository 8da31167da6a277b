//! The value of Content-Length (RFC 9110 section 8.6), read with no tolerance at all.
//!
//! Two parsers that disagree here make request smuggling, so every form that another parser could read differently
//! is refused: lists, signs, leading zeros, repetitions.

use crate::bytes::elements;
use crate::message::rule::Rule;

/// Notes the value of one Content-Length field, in a head that has this length so far.
#[inline]
pub(crate) fn add(length: &mut Option<u64>, value: &[u8]) -> Result<(), Rule> {
    let this = match parse_length(value) {
        Some(length) => length,
        None => return Err(blame_length(value)),
    };
    match length.replace(this) {
        None => Ok(()),
        Some(earlier) if earlier == this => Err(Rule::RepeatedLength),
        Some(_) => Err(Rule::ConflictingLengths),
    }
}

/// A length below 2^63, decimal, without sign or leading zeros (RFC 9110 section 8.6).
#[inline]
pub(crate) fn parse_length(digits: &[u8]) -> Option<u64> {
    // 19 digits hold every number below 2^63 and cannot overflow 2^64.
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let mut length = 0_u64;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        length = length * 10 + u64::from(value);
    }
    (length <= i64::MAX as u64).then_some(length)
}

/// Which rule a Content-Length breaks that is not one plain number.
#[cold]
fn blame_length(value: &[u8]) -> Rule {
    let mut lengths = elements(value).map(parse_length);
    let first = lengths.next().flatten();
    let mut rule = Rule::RepeatedLength;
    for length in lengths {
        match (first, length) {
            (Some(first), Some(length)) if first == length => {}
            (Some(_), Some(_)) => rule = Rule::ConflictingLengths,
            _ => return Rule::BadLength,
        }
    }
    if first.is_none() { Rule::BadLength } else { rule }
}
