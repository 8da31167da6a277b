//! How many reloads succeeded and failed, and since when the config in use is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_observe::ReloadStats;

use weir_proxy::net::clock;

/// The counts of reloads.
#[derive(Debug)]
pub(crate) struct ReloadCounts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_succeeded: AtomicBool,
    /// When the config in use was taken over, in seconds since 1970.
    since: AtomicU64,
}

impl Default for ReloadCounts {
    fn default() -> Self {
        Self {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_succeeded: AtomicBool::new(true),
            since: AtomicU64::new(clock::unix_now().as_secs()),
        }
    }
}

impl ReloadCounts {
    pub(crate) fn count(&self, succeeded: bool) {
        self.last_succeeded.store(succeeded, Ordering::Relaxed);
        if succeeded {
            self.succeeded.fetch_add(1, Ordering::Relaxed);
            self.since.store(clock::unix_now().as_secs(), Ordering::Relaxed);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The figures, with those of the snapshots.
    pub(crate) fn figures(&self, generation: u64, snapshots: usize) -> ReloadStats {
        ReloadStats {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_succeeded: self.last_succeeded.load(Ordering::Relaxed),
            since_seconds: self.since.load(Ordering::Relaxed),
            generation,
            snapshots: snapshots as u64,
        }
    }
}
