//! `X-Accel-Expires`: how long nginx, and Weir where the operator wants that, keep a response, whatever it says to other caches.

use crate::head::HeadView;
use crate::time::CacheTime;

/// What a server asks of the cache in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccelExpires {
    /// `0`: the response is not stored.
    Never,
    /// It is fresh for so many seconds from now.
    Fresh(u64),
}

impl AccelExpires {
    /// What the field of a response says at `now`: seconds, or `@` and seconds since 1970. `off` and all else mean nothing.
    pub(crate) fn new(response: HeadView<'_>, now: CacheTime) -> Option<Self> {
        let value = response.first("x-accel-expires")?;
        let number = |digits: &[u8]| -> Option<u64> {
            let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            // As long as there is, if it is more than can be counted.
            is_number.then(|| str::from_utf8(digits).ok()?.parse().ok().or(Some(u64::MAX)))?
        };
        Some(match value {
            [b'@', at @ ..] => Self::Fresh(number(at)?.saturating_sub(now.seconds())),
            seconds => match number(seconds)? {
                0 => Self::Never,
                seconds => Self::Fresh(seconds),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::StoredHead;

    #[test]
    fn seconds_a_time_and_nothing_else() {
        let now = CacheTime::from_seconds(1_000);
        for (value, expected) in [
            ("0", Some(AccelExpires::Never)),
            ("60", Some(AccelExpires::Fresh(60))),
            ("@1060", Some(AccelExpires::Fresh(60))),
            ("@0", Some(AccelExpires::Fresh(0))),
            ("@999", Some(AccelExpires::Fresh(0))),
            ("99999999999999999999999", Some(AccelExpires::Fresh(u64::MAX))),
            ("off", None),
            ("", None),
            ("@", None),
            ("-1", None),
            ("+1", None),
            ("1h", None),
            ("1 ", None),
        ] {
            let mut head = StoredHead::default();
            head.append(b"X-Accel-Expires", value.as_bytes());
            assert_eq!(AccelExpires::new(head.view(), now), expected, "{value:?}");
        }
        assert_eq!(AccelExpires::new(StoredHead::default().view(), now), None);
    }
}
