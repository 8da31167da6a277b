//! The only door to the clock: limits on waits, and pauses that are part of what a peer does.

use std::time::{Duration, Instant};

/// The longest that a step may take before it counts as hung: longer than the limits of the configs, so that Weir answers first.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(20);

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets `length` pass: what a slow peer does, or the breath between two looks at a process.
#[expect(clippy::disallowed_methods, reason = "a late body is late; nothing is waited for by this")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}
