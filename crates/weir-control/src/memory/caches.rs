//! The caches when memory is short: they shrink first, and grow again when there is room.

use std::sync::Arc;

use weir_proxy::net::clock::Instant;
use weir_proxy::state::snapshot::{CachePlan, Snapshot};

use std::time::Duration;

/// Thousandths of the budget that are to be in use behind a shrinkage, and below which caches grow again.
const WANTED: u64 = 750;
const GROW_BELOW: u64 = 700;

/// How long freed memory may take to show, and how often caches grow by a step.
const PAUSE: Duration = Duration::from_millis(500);

/// When the caches were last changed.
#[derive(Debug, Default)]
pub(super) struct CacheBounds {
    changed: Option<Instant>,
}

/// Bytes of all caches, those of bodies in files of memory apart, which are no pages of the process.
pub(super) fn bytes(snapshot: &Snapshot) -> u64 {
    snapshot.caches.iter().map(|cache| cache.bytes()).sum()
}

/// Bytes of bodies that are in files of memory.
pub(super) fn file_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.caches.iter().map(|cache| cache.file_bytes()).sum()
}

impl CacheBounds {
    /// Adapts the caches to a use of so many thousandths of a budget of `max` bytes; `shrinks`: the step says so.
    pub(super) fn adapt(
        &mut self,
        caches: &[Arc<CachePlan>],
        used: u64,
        max: u64,
        shrinks: bool,
        now: Instant,
    ) {
        if self.changed.is_some_and(|at| now.saturating_duration_since(at) < PAUSE) {
            return;
        }
        if shrinks && used > WANTED {
            let excess = max / 1000 * (used - WANTED);
            let all: u64 = caches.iter().map(|cache| cache.bytes()).sum();
            if all == 0 {
                return;
            }
            for cache in caches {
                let wanted =
                    u128::from(all.saturating_sub(excess)) * u128::from(cache.bytes()) / u128::from(all);
                cache.bound(wanted as u64);
            }
            self.changed = Some(now);
        } else if used < GROW_BELOW && caches.iter().any(|cache| cache.grow()) {
            self.changed = Some(now);
        }
    }
}
