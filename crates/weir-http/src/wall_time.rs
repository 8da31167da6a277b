//! Moments of the calendar, which peers, files and certificates name: sums saturate, and no number is out of range.
//!
//! The one type for them in all crates. The standard library's panics on sums that it cannot represent, and what comes from outside may be
//! any number: so `cargo xtask tidy` permits that one only where a clock is read or another library wants it. Must not read a clock.

use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime};

/// A moment between the begin of 1970 and the end of the year 9999, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(Duration);

/// The last second of the year 9999, after which dates of HTTP and of certificates have no form.
const LAST_SECOND: u64 = 253_402_300_799;

impl WallTime {
    /// The begin of 1970; what is earlier counts as this.
    pub const EPOCH: Self = Self(Duration::ZERO);

    /// The last second of the year 9999; what is later counts as this.
    pub const LATEST: Self = Self(Duration::from_secs(LAST_SECOND));

    /// The moment so long after 1970 began.
    pub const fn since_1970(duration: Duration) -> Self {
        if duration.as_secs() < LAST_SECOND { Self(duration) } else { Self::LATEST }
    }

    /// The moment so many seconds after 1970 began.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self::since_1970(Duration::from_secs(seconds))
    }

    /// The same, where the number may be of a moment before.
    pub const fn from_signed_seconds(seconds: i64) -> Self {
        if seconds < 0 { Self::EPOCH } else { Self::from_seconds(seconds.unsigned_abs()) }
    }

    /// Whole seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0.as_secs()
    }

    /// Whole milliseconds since 1970.
    pub const fn millis(self) -> u64 {
        // Below 2^48: the last second of the calendar is below 2^38.
        self.0.as_secs() * 1_000 + self.0.subsec_millis() as u64
    }

    /// The time since 1970.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; `None` if that is later.
    pub fn checked_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }
}

impl Add<Duration> for WallTime {
    type Output = Self;

    /// Saturates at the end of the year 9999.
    fn add(self, duration: Duration) -> Self {
        Self::since_1970(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for WallTime {
    type Output = Self;

    /// Saturates at the begin of 1970.
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl Sub for WallTime {
    type Output = Duration;

    /// Zero if `earlier` is no earlier moment.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<SystemTime> for WallTime {
    fn from(time: SystemTime) -> Self {
        Self::since_1970(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<WallTime> for SystemTime {
    fn from(time: WallTime) -> Self {
        // In range on every system: the year is below 10000.
        Self::UNIX_EPOCH + time.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers at which other types end, and their neighbours.
    fn extremes() -> Vec<u64> {
        let edges = [
            0,
            1,
            1 << 31,
            1 << 32,
            1 << 53,
            LAST_SECOND,
            292_277_026_596,
            9_223_372_036,
            18_446_744_073,
            i64::MAX.unsigned_abs(),
            u64::MAX,
        ];
        let near = |edge: u64| [edge.saturating_sub(1), edge, edge.saturating_add(1)];
        let mut all: Vec<u64> = edges.into_iter().flat_map(near).collect();
        all.dedup();
        all
    }

    #[test]
    fn no_sum_of_extremes_leaves_the_calendar() {
        let mut sums = 0;
        for moment in extremes() {
            for delay in extremes() {
                for nanos in [0, 999_999_999] {
                    let (time, delay) = (WallTime::from_seconds(moment), Duration::new(delay, nanos));
                    let (later, earlier) = (time + delay, time - delay);
                    assert!(earlier <= time && time <= later && later <= WallTime::LATEST);
                    assert!(later - time <= delay && time - later == Duration::ZERO);
                    assert_eq!(WallTime::from(SystemTime::from(later)), later);
                    assert_eq!(time.checked_since(later).is_some(), later == time);
                    sums += 1;
                }
            }
        }
        assert!(sums > 1_500, "{sums}");
    }

    #[test]
    fn numbers_with_a_sign_and_other_clocks_are_taken_into_range() {
        for (seconds, expected) in [
            (i64::MIN, 0),
            (-86_400, 0),
            (-1, 0),
            (0, 0),
            (1_700_000_000, 1_700_000_000),
            (292_277_026_596, LAST_SECOND),
            (i64::MAX, LAST_SECOND),
        ] {
            assert_eq!(WallTime::from_signed_seconds(seconds).seconds(), expected, "{seconds}");
        }
        assert_eq!(WallTime::from(SystemTime::UNIX_EPOCH - Duration::from_secs(9)), WallTime::EPOCH);
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX.unsigned_abs());
        assert_eq!(WallTime::from(far), WallTime::LATEST);
    }
}
