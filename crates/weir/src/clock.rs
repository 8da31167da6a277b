//! The clock of the program; nothing else in it asks for the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}
