//! Time in the tests: one generous limit on every wait, and the ways to wait for a condition.
//!
//! The limit only says that something hangs; no test measures how fast Weir is. Nothing else in the suite reads a
//! clock or sleeps.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The longest that any single step of a test may take before it counts as hung.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(20);

/// The clock of the suite.
#[expect(clippy::disallowed_methods, reason = "this is the clock module of the test suite")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Asks `condition` again and again until it holds; panics with `what` when the watchdog bites.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = now();
    while !condition() {
        assert!(start.elapsed() < WATCHDOG, "gave up after {WATCHDOG:?} waiting until {what}");
        pause();
    }
}

/// The breath between two looks at a condition that nothing announces (a counter, a file, a process).
#[expect(
    clippy::disallowed_methods,
    reason = "polling of a foreign process; the condition decides, not the nap"
)]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

/// What a scripted server does for as long as an answer takes it.
#[expect(clippy::disallowed_methods, reason = "the time that a server takes, nothing is waited for")]
pub(crate) fn work(length: Duration) {
    std::thread::sleep(length);
}

/// A latch between the threads of a test: closed until a thread opens it, open ever after.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub(crate) fn new() -> Gate {
        Gate::default()
    }

    /// Lets everyone through, now and later.
    pub(crate) fn open(&self) {
        *self.0.0.lock().expect("no thread panics while it holds the gate") = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is open; `what` names the event in the message of the watchdog.
    pub(crate) fn wait(&self, what: &str) {
        let open = self.0.0.lock().expect("no thread panics while it holds the gate");
        let (_open, timeout) = self
            .0
            .1
            .wait_timeout_while(open, WATCHDOG, |open| !*open)
            .expect("no thread panics while it holds the gate");
        assert!(!timeout.timed_out(), "gave up after {WATCHDOG:?} waiting for: {what}");
    }
}
