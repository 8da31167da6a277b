//! The clock of pauses, and the pause of a thread.

use std::time::{Duration, Instant};

/// The time since some moment.
#[expect(clippy::disallowed_methods, reason = "this is the clock module of the crate")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets the calling thread wait.
#[expect(clippy::disallowed_methods, reason = "this is the clock module of the crate")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
