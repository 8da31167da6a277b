//! The one place that waits and reads the clock.

use std::time::{Duration, Instant};

/// Now.
#[expect(clippy::disallowed_methods, reason = "the clock of this crate")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[expect(
    clippy::disallowed_methods,
    reason = "programs of others tell nothing: they are asked again and again"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Asks until `found` says yes or `limit` is over.
pub(crate) fn wait_until(limit: Duration, mut found: impl FnMut() -> bool) -> bool {
    let start = now();
    loop {
        if found() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        pause(Duration::from_millis(20));
    }
}
