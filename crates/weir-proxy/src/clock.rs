//! The clock of the data path: the only place in this crate that reads time.
//!
//! A reading costs about 25 ns, so an exchange takes one when its head is complete, one when the response begins
//! and one when it ends; everything else compares against those.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time now.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Wall-clock time now, as time since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whole microseconds of a duration, saturating at about 71 minutes.
pub(crate) fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

/// Lets the calling thread wait; only for the control plane.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
