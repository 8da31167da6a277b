//! How many reloads succeeded and failed, and since when the config in use is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use weir_observe::ReloadStats;
use weir_observe::overview::RoutesFromOverview;

use weir_proxy::net::clock;

/// The counts of reloads.
#[derive(Debug)]
pub(crate) struct ReloadCounts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_succeeded: AtomicBool,
    /// When the config in use was taken over, in seconds since 1970.
    since: AtomicU64,
    /// The stores whose keys hold routes, as they were last.
    pub(crate) routes_from: ArcSwap<Vec<RoutesFromOverview>>,
}

impl Default for ReloadCounts {
    fn default() -> Self {
        Self {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_succeeded: AtomicBool::new(true),
            since: AtomicU64::new(clock::unix_now().as_secs()),
            routes_from: ArcSwap::default(),
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
        let routes_from = self.routes_from.load();
        let earliest = |of: fn(&RoutesFromOverview) -> Option<u64>| {
            routes_from.iter().filter_map(of).min().map(|millis| millis / 1000)
        };
        let count = |of: fn(&RoutesFromOverview) -> usize| routes_from.iter().map(of).sum::<usize>() as u64;
        ReloadStats {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_succeeded: self.last_succeeded.load(Ordering::Relaxed),
            since_seconds: self.since.load(Ordering::Relaxed),
            generation,
            snapshots: snapshots as u64,
            fragments: count(|source| source.keys.len()),
            fragments_refused: count(|source| source.refused.len()),
            // As for sources of servers: an empty answer that is not believed yet is an answer.
            route_stores_stale: count(|source| usize::from(source.lost_at_ms.is_some())),
            routes_said_seconds: earliest(|source| source.said_at_ms),
            routes_lost_seconds: earliest(|source| source.lost_at_ms),
        }
    }
}
