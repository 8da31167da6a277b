//! `Date`, `Expires`, `Age` and `Last-Modified` of a response.

use weir_http::parse_date;

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
        let date_of = |name: &str| head.first(name).and_then(parse_date);
        let mut expires = None;
        for value in head.all("expires") {
            let time = parse_date(value);
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
