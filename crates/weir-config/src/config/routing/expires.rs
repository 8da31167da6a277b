//! `expires`: how long clients may keep responses, by media type, status and origin.

use std::time::Duration;

use super::compression::MediaPattern;

/// How long clients may keep a response: `Cache-Control` and `Expires`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expires {
    /// The media types; empty: all, and responses without one.
    pub types: Vec<MediaPattern>,
    /// For how long.
    pub time: ExpiresTime,
    /// Whether the fields of a server that say `no-store`, `no-cache` or `private` give way, too.
    pub overrides: bool,
}

/// For how long a response may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiresTime {
    /// What the response says itself stays.
    Off,
    /// It has to be confirmed before each use: `Cache-Control: no-cache`, and a date in 1970.
    Epoch,
    /// As long as this, from when the client gets it.
    After(Duration),
    /// As long as this, from when it was last changed (`Last-Modified`); without that, nothing is said.
    Modified(Duration),
    /// Until it is this time of day, in UTC.
    Daily(Duration),
}

impl ExpiresTime {
    /// Ten years, as nginx has it.
    pub const MAX: Duration = Duration::from_secs(315_360_000);

    /// What `Expires` says for those, as nginx has it: 31 December 2037, 23:55:55 GMT.
    pub const MAX_DATE: Duration = Duration::from_secs(2_145_916_555);

    /// A day.
    pub const DAY: Duration = Duration::from_secs(86_400);

    /// How long a response may be kept from `now` on, and when that is over, both since 1970. It was changed at `modified`; `None` if nothing is said.
    pub fn until(
        self,
        now: Duration,
        modified: impl Fn() -> Option<Duration>,
    ) -> Option<(Duration, Duration)> {
        let ends = match self {
            Self::Off | Self::Epoch => return None,
            Self::After(Self::MAX) => return Some((Self::MAX, Self::MAX_DATE)),
            Self::After(time) => now + time,
            Self::Modified(time) => modified()? + time,
            Self::Daily(clock) => {
                let midnight = now.as_secs() - now.as_secs() % Self::DAY.as_secs();
                let today = Duration::from_secs(midnight) + clock;
                if today > now { today } else { today + Self::DAY }
            }
        };
        Some((ends.saturating_sub(now), ends))
    }
}

impl Expires {
    /// Whether it is for this `Content-Type`.
    pub fn is_for_type(&self, content_type: Option<&[u8]>) -> bool {
        self.types.is_empty()
            || content_type.is_some_and(|content_type| {
                let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                self.types.iter().any(|pattern| pattern.matches(media))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_end_at_a_date() {
        // 1 January 2026, 12:00:00.
        let (noon, hour) = (Duration::from_secs(1_767_268_800), Duration::from_secs(3600));
        let ends = |time: ExpiresTime, modified: Option<Duration>| time.until(noon, || modified);
        let after = |time: Duration| Some((time, noon + time));
        for (time, modified, expected) in [
            (ExpiresTime::Off, Some(noon), None),
            (ExpiresTime::Epoch, Some(noon), None),
            (ExpiresTime::After(hour), None, after(hour)),
            (ExpiresTime::After(ExpiresTime::MAX), None, Some((ExpiresTime::MAX, ExpiresTime::MAX_DATE))),
            (ExpiresTime::Modified(hour), None, None),
            (ExpiresTime::Modified(3 * hour), Some(noon - hour), after(2 * hour)),
            // Of long ago: stale by either field.
            (ExpiresTime::Modified(hour), Some(2 * hour), Some((Duration::ZERO, 3 * hour))),
            (ExpiresTime::Daily(13 * hour), None, after(hour)),
            (ExpiresTime::Daily(12 * hour), None, after(24 * hour)),
            (ExpiresTime::Daily(Duration::ZERO), None, after(12 * hour)),
        ] {
            assert_eq!(ends(time, modified), expected, "{time:?}");
        }
    }
}
