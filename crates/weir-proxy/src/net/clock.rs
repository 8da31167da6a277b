//! The clock of the data path: the only place in this crate that reads time.
//!
//! A reading costs about 25 ns, so an exchange takes one when its head is complete, one when the response begins
//! and one when it ends; everything else compares against those.

use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use weir_http::WallTime;

/// A moment of the monotonic clock (CLOCK_MONOTONIC), in nanoseconds, for 584 years from the boot of the machine.
///
/// As the standard library's, but half its size, also where it may be missing, and compared and subtracted as a number:
/// an exchange does that some ten times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The moment with this [`Instant::since_boot_ns`].
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        match NonZeroU64::new(nanos) {
            Some(nanos) => Self(nanos),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// A moment so long after the beginning of time.
    #[cfg(test)]
    pub(crate) fn test(since: Duration) -> Self {
        Self::from_nanos(nanos(since))
    }

    /// Nanoseconds of the clock, which all processes of the machine share.
    pub const fn since_boot_ns(self) -> u64 {
        self.0.get()
    }

    /// The time from `earlier` to this moment, zero if it is no earlier one.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds.
    #[inline]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    /// The same in whole microseconds.
    #[inline]
    pub(crate) const fn micros_since(self, earlier: Self) -> u64 {
        self.nanos_since(earlier) / 1_000
    }
}

/// Nanoseconds, saturating at 584 years.
#[inline]
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

impl Sub for Instant {
    type Output = Duration;

    /// Zero if `earlier` is no earlier moment.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the last moment there is.
    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the boot of the machine.
    #[inline]
    fn sub(self, duration: Duration) -> Self {
        Self::from_nanos(self.0.get().saturating_sub(nanos(duration)))
    }
}

#[cfg(test)]
thread_local! {
    /// The time that tests have set for their thread.
    static SET: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

/// Stops the clock of this thread at a moment; `None` lets it go on.
#[cfg(test)]
pub(crate) fn set(at: Option<Instant>) {
    SET.set(at);
}

/// Monotonic time now.
#[inline]
pub fn now() -> Instant {
    #[cfg(test)]
    if let Some(at) = SET.get() {
        return at;
    }
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock begins at the boot.
    Instant::from_nanos(
        now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned()),
    )
}

/// The time until a moment of the standard library's clock.
pub fn until(moment: std::time::Instant) -> Duration {
    moment.saturating_duration_since(std_now())
}

/// A moment at which both clocks were read, one behind the other.
#[cfg(feature = "http3")]
static BOTH: std::sync::LazyLock<(Instant, std::time::Instant)> =
    std::sync::LazyLock::new(|| (now(), std_now()));

/// The same moment of the standard library's clock.
#[cfg(feature = "http3")]
pub(crate) fn std(at: Instant) -> std::time::Instant {
    let (ours, its) = *BOTH;
    match at >= ours {
        true => its + (at - ours),
        false => its.checked_sub(ours - at).unwrap_or(its),
    }
}

/// A moment of the standard library's clock as one of this.
#[cfg(feature = "http3")]
pub(crate) fn from_std(at: std::time::Instant) -> Instant {
    let (ours, its) = *BOTH;
    match at >= its {
        true => ours + at.duration_since(its),
        false => ours - its.duration_since(at),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
fn std_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Wall-clock time now, as time since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The same as a moment of the calendar.
pub fn date() -> WallTime {
    WallTime::since_1970(unix_now())
}

/// A moment of the calendar as QUIC's library has it.
#[cfg(feature = "http3")]
pub(crate) type SystemDate = SystemTime;

/// The same as Weir has it.
#[cfg(feature = "http3")]
pub(crate) fn date_of(at: SystemDate) -> WallTime {
    WallTime::since_1970(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Whole microseconds of a duration, saturating at about 71 minutes.
pub fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

/// Lets the calling thread wait; only for the control plane.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate() {
        let (first, later) = (Instant::from_nanos(0), Instant::from_nanos(2_500_001));
        assert_eq!(first, Instant::from_nanos(1), "there is no moment zero");
        assert_eq!((later - first, first - later), (Duration::from_micros(2_500), Duration::ZERO));
        assert_eq!((later.micros_since(first), later.nanos_since(first)), (2_500, 2_500_000));
        assert_eq!(first + Duration::from_micros(2_500), later);
        assert_eq!(later - Duration::from_secs(1), first);
        assert!(later + Duration::MAX > later, "the last moment there is");
        assert_eq!(size_of::<Option<Instant>>(), 8);
    }

    #[test]
    fn the_clock_is_that_of_the_standard_library() {
        let (began, until) = (now(), until(std_now() + Duration::from_secs(5)));
        assert!(until <= Duration::from_secs(5) && until > Duration::from_secs(4), "{until:?}");
        pause(Duration::from_millis(20));
        assert!(now() - began >= Duration::from_millis(20));
    }
}
