//! The one place that reads the clock: how long a step took, and when a program was used.

use std::time::{Duration, Instant, SystemTime};

/// Runs from its creation on.
pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
