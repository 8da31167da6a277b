//! The answers to the watchdog of a supervisor: only while the control thread and all workers make progress, and the main thread, which gives them.

use crate::proxy::{ProgressCheck, Proxy};

/// What the last question has come to.
#[derive(Default)]
pub(super) struct Watchdog {
    check: Option<ProgressCheck>,
    is_silent: bool,
}

impl Watchdog {
    /// Whether to answer: all threads have answered since the last time.
    pub(super) fn is_alive(&mut self, proxy: &Proxy) -> bool {
        let silent = self.check.as_mut().map(ProgressCheck::silent).unwrap_or_default();
        if silent.is_empty() {
            self.check = Some(proxy.ask_progress());
            self.is_silent = false;
            return true;
        }
        if !std::mem::replace(&mut self.is_silent, true) {
            let threads = silent.join(", ");
            tracing::error!(
                threads,
                "no progress: the watchdog of the supervisor is not answered, and restarts Weir in the end"
            );
        }
        false
    }
}
