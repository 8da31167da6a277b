//! The one place that reads the clock: how long a step took.

use std::time::{Duration, Instant};

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
