//! The clock of the program; nothing else in it asks for the time.

use std::time::{Duration, Instant, SystemTime};

use weir_http::WallTime;

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The date and time.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn date() -> WallTime {
    SystemTime::now().into()
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    date().seconds()
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}
