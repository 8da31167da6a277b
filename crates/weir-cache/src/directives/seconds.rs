//! Numbers of seconds (RFC 9111 section 1.2.2).

/// What a number too large counts as: 68 years.
pub(crate) const SECONDS_MAX: u64 = 1 << 31;

/// A number of seconds; `None` when it is none.
pub(crate) fn parse_seconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = value
        .iter()
        .fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.min(SECONDS_MAX))
}
