//! How often a map was asked in a process that serves, by what it found.
//!
//! Each thread counts in a place of its own, as far as there are places, so that workers do not take a line of the cache from each other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Places in which threads count.
const PLACES: usize = 16;

/// What a lookup has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapOutcome {
    /// An entry.
    Entry,
    /// A record of the database.
    Database,
    /// Nothing: the default counts.
    Default,
}

/// Lookups of a map, by what they found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapLookups {
    /// An entry.
    pub entry: u64,
    /// A record of the database.
    pub database: u64,
    /// Nothing: the default counted.
    pub default: u64,
}

/// The counters of a map.
#[derive(Debug, Default)]
pub(super) struct MapCounts([CountPlace; PLACES]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct CountPlace([AtomicU64; 3]);

thread_local! {
    static PLACE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % PLACES
    };
}

impl MapCounts {
    pub(super) fn count(&self, outcome: MapOutcome) {
        self.0[PLACE.with(|place| *place)].0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sums(&self) -> MapLookups {
        let sum = |outcome: MapOutcome| {
            self.0.iter().map(|place| place.0[outcome as usize].load(Ordering::Relaxed)).sum()
        };
        MapLookups {
            entry: sum(MapOutcome::Entry),
            database: sum(MapOutcome::Database),
            default: sum(MapOutcome::Default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let counts = MapCounts::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * PLACES {
                scope.spawn(|| {
                    counts.count(MapOutcome::Entry);
                    counts.count(MapOutcome::Entry);
                    counts.count(MapOutcome::Default);
                });
            }
        });
        let places = PLACES as u64;
        assert_eq!(counts.sums(), MapLookups { entry: 4 * places, database: 0, default: 2 * places });
    }
}
