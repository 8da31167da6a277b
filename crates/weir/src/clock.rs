//! The clock of the program; nothing else in it asks for the time.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}
