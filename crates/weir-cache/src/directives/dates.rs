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
    pub fn of(head: HeadView<'_>) -> Self {
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

/// A date, also one with letters of the wrong case or the wrong day of the week, as some servers send.
fn date(value: &[u8]) -> Option<u64> {
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
