//! Failures in a row of one server, counted by all workers without a lock.
//!
//! Zero as long as nothing is wrong, so that a success costs one load. Must not decide anything.

use std::sync::atomic::{AtomicU32, Ordering};

/// Set while the table of the upstream must be informed of every request to the server.
const WATCHED: u32 = 1 << 31;

/// Failures in a row, and whether the server is watched.
#[derive(Debug, Default)]
pub struct ConsecutiveFailures(AtomicU32);

impl ConsecutiveFailures {
    /// Whether requests have to tell that they begin, and how they end: see [`OutlierTable`](crate::ejection::OutlierTable).
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WATCHED != 0
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & !WATCHED
    }

    /// Counts a failure; returns the failures in a row, this one included.
    pub fn count_failure(&self) -> u32 {
        let update = |word: u32| (word & !WATCHED < !WATCHED).then(|| word + 1);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update) {
            Ok(before) => (before & !WATCHED) + 1,
            Err(most) => most & !WATCHED,
        }
    }

    /// Ends the row of failures; tells whether the server is watched. One load when there is nothing to end.
    #[inline]
    pub fn end_failures(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word != 0 && self.end_row(word)
    }

    #[cold]
    fn end_row(&self, word: u32) -> bool {
        if word & WATCHED == 0 {
            // When another worker was faster, its failure is later than this success.
            let _newer = self.0.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        word & WATCHED != 0
    }

    /// Forgets all failures; watches the server from now on, or no longer.
    pub(crate) fn watch(&self, watched: bool) {
        self.0.store(if watched { WATCHED } else { 0 }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_end_with_a_success() {
        let consecutive_failures = ConsecutiveFailures::default();
        assert!(!consecutive_failures.end_failures());
        assert_eq!((consecutive_failures.count_failure(), consecutive_failures.count_failure()), (1, 2));
        assert!(!consecutive_failures.end_failures() && consecutive_failures.failures() == 0);
        assert_eq!(consecutive_failures.count_failure(), 1);
    }

    #[test]
    fn a_watched_server_stays_watched_whatever_happens() {
        let consecutive_failures = ConsecutiveFailures::default();
        consecutive_failures.count_failure();
        consecutive_failures.watch(true);
        assert!(
            consecutive_failures.is_watched()
                && consecutive_failures.end_failures()
                && consecutive_failures.failures() == 0
        );
        assert_eq!((consecutive_failures.count_failure(), consecutive_failures.is_watched()), (1, true));
        assert!(consecutive_failures.end_failures() && consecutive_failures.is_watched());
        consecutive_failures.watch(false);
        assert!(
            !consecutive_failures.is_watched()
                && !consecutive_failures.end_failures()
                && consecutive_failures.failures() == 0
        );
    }

    #[test]
    fn the_count_does_not_run_over() {
        let consecutive_failures = ConsecutiveFailures(AtomicU32::new(WATCHED - 2));
        assert_eq!(
            (consecutive_failures.count_failure(), consecutive_failures.count_failure()),
            (WATCHED - 1, WATCHED - 1)
        );
        assert!(!consecutive_failures.is_watched());
    }
}
