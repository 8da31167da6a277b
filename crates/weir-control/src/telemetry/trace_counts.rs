//! Counts of the spans of sampled exchanges: exported, dropped and why, and how many exports failed.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_observe::{TraceLoss, TraceStats};

/// The counters of the thread that exports.
#[derive(Debug, Default)]
pub(crate) struct TraceCounts {
    exported: AtomicU64,
    dropped: [AtomicU64; TraceLoss::COUNT],
    exports_failed: AtomicU64,
}

impl TraceCounts {
    pub(crate) fn figures(&self) -> TraceStats {
        TraceStats {
            spans_exported: self.exported.load(Ordering::Relaxed),
            spans_dropped: std::array::from_fn(|loss| self.dropped[loss].load(Ordering::Relaxed)),
            exports_failed: self.exports_failed.load(Ordering::Relaxed),
        }
    }

    #[cfg(feature = "traces")]
    pub(crate) fn exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    #[cfg(feature = "traces")]
    pub(crate) fn dropped(&self, loss: TraceLoss, spans: u64) {
        self.dropped[loss as usize].fetch_add(spans, Ordering::Relaxed);
    }

    #[cfg(feature = "traces")]
    pub(crate) fn export_failed(&self) {
        self.exports_failed.fetch_add(1, Ordering::Relaxed);
    }
}
