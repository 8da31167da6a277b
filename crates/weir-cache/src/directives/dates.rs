//! `Date`, `Expires`, `Age` and `Last-Modified` of a response.

use weir_http::{DATE_BYTES, parse_date};

use super::seconds::parse_seconds;
use crate::head::HeadView;

/// The times that a response names, in seconds: since 1970, and how old it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageTimes {
    /// `Date`; `None` when it is absent or malformed.
    pub date: Option<u64>,
    /// `Expires`: `Some(None)` when it is malformed, such as `0`, or there are several that differ, which means that it is in the past
    /// (RFC 9111 section 5.3).
    pub expires: Option<Option<u64>>,
    /// `Age`, 0 when it is absent or malformed; the first of several.
    pub age: u64,
    /// `Last-Modified`.
    pub last_modified: Option<u64>,
}

impl MessageTimes {
    /// Those of this head.
    pub fn new(head: HeadView<'_>) -> Self {
        let date_of = |name: &str| head.first(name).and_then(date);
        let mut expires = None;
        for value in head.all("expires") {
            let time = date(value);
            expires = match expires {
                Some(other) if other != time => Some(None),
                _ => Some(time),
            };
        }
        Self {
            date: date_of("date"),
            expires,
            age: head.first("age").and_then(age_of).unwrap_or(0),
            last_modified: date_of("last-modified"),
        }
    }
}

/// A list of ages is that of several caches which did not put theirs in place of the other: the first counts (RFC 9111 section 5.1).
fn age_of(value: &[u8]) -> Option<u64> {
    parse_seconds(value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii())
}

/// A date, also one with letters of the wrong case or the wrong day of the week, as some servers send. One before 1970 is 1970: long ago.
fn date(value: &[u8]) -> Option<u64> {
    later_date(value).or_else(|| early_date(value))
}

/// A date before 1970, which [`parse_date`] does not know.
#[cold]
fn early_date(value: &[u8]) -> Option<u64> {
    // The year is the only number of four digits in each of the formats that have one.
    let is_year = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let at = value.windows(4).position(is_year)?;
    let year: u32 = str::from_utf8(&value[at..at + 4]).ok()?.parse().ok()?;
    if year >= 1970 {
        return None;
    }
    let mut moved = value.to_vec();
    // Leap years stay leap years.
    moved[at..at + 4].copy_from_slice(if year.is_multiple_of(4) { b"1972" } else { b"1973" });
    later_date(&moved).map(|_| 0)
}

/// A date from 1970 on.
fn later_date(value: &[u8]) -> Option<u64> {
    parse_date(value).or_else(|| {
        let mut fixed = [0; DATE_BYTES];
        let fixed = fixed.get_mut(..value.len())?;
        let mut is_first = true;
        for (to, from) in fixed.iter_mut().zip(value) {
            *to = if is_first { from.to_ascii_uppercase() } else { from.to_ascii_lowercase() };
            is_first = !from.is_ascii_alphabetic();
        }
        let zone = fixed.len().checked_sub(3)?;
        fixed[zone..].make_ascii_uppercase();
        parse_date(fixed).or_else(|| {
            ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].iter().find_map(|day| {
                fixed.get_mut(..3)?.copy_from_slice(day.as_bytes());
                parse_date(fixed)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_before_1970_are_long_ago() {
        for (value, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Wed, 31 Dec 1969 23:59:59 GMT", Some(0)),
            ("Fri, 13 Dec 1901 20:45:52 GMT", Some(0)),
            ("Mon, 01 Jan 0001 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 1968 00:00:00 GMT", Some(0)),
            ("Wed Dec 31 23:59:59 1969", Some(0)),
            ("Wed, 31 Foo 1969 23:59:59 GMT", None),
            ("Wed, 31 Dec 1969", None),
            ("1969", None),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(date(value.as_bytes()), expected, "{value}");
        }
    }
}
