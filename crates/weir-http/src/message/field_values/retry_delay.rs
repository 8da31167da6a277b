//! How long a peer asks to wait, as a duration that every clock can be set by.

use std::time::Duration;

use super::conditional::parse_date;
use crate::wall_time::WallTime;

/// A hundred years, which a delay from outside counts as at most: a sum with the time since the boot of a machine stays far from any limit.
const DELAY_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The delay that a `Retry-After` asks for (RFC 9110 section 10.2.3), in seconds or as a date; up to a hundred years, so that it can be added
/// to any clock.
pub fn retry_delay(value: &[u8], now: WallTime) -> Option<Duration> {
    let value = value.trim_ascii();
    if value.is_empty() {
        return None;
    }
    let delay =
        match value.iter().all(u8::is_ascii_digit) {
            true => Duration::from_secs(value.iter().fold(0_u64, |number, digit| {
                number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
            })),
            false => WallTime::from_seconds(parse_date(value)?) - now,
        };
    Some(delay.min(DELAY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_seconds_or_dates() {
        let now = WallTime::from_seconds(784_111_770);
        for (value, expected) in [
            ("0", Some(0)),
            (" 60 ", Some(60)),
            ("18446744073709551615", Some(DELAY_MAX.as_secs())),
            ("99999999999999999999999999", Some(DELAY_MAX.as_secs())),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:20 GMT", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(DELAY_MAX.as_secs())),
            ("-1", None),
            ("+60", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
            ("\u{661}", None),
        ] {
            let delay = retry_delay(value.as_bytes(), now);
            assert_eq!(delay.map(|delay| delay.as_secs()), expected, "{value}");
        }
    }
}
