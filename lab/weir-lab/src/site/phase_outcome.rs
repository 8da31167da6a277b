//! What came of the requests of one phase of a load.
//!
//! A request that was not answered in time, or never sent because no client was free, counts as failed, and its latency is at least as
//! long as it waited: a site that stops answering must not look fast. Failures that come quickly have no latency: they would make a site
//! look fast that refuses its clients.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::load::series::Series;
use crate::load::{Faults, LoadFault, driver};

/// See the module.
#[derive(Debug)]
pub(super) struct PhaseOutcome {
    /// Its start and end, ns since the start of the run.
    pub(super) from: u64,
    pub(super) to: u64,
    /// From the intended start to the end of the answer, ns.
    pub(super) latency: Histogram<u64>,
    /// Requests that were answered as expected.
    pub(super) answered: u64,
    /// The others.
    pub(super) faults: Faults,
    /// How many answers had each status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Bytes of the bodies of answers.
    pub(super) bytes: u64,
    /// How late the lab was with a request, ns: its own fault, and part of the latency nevertheless.
    pub(super) lateness: Histogram<u64>,
    /// Requests that waited for a free client.
    pub(super) waited: u64,
    /// Second by second.
    pub(super) series: Series,
}

impl PhaseOutcome {
    /// Of a phase with these ends.
    pub(super) fn new(from: u64, to: u64) -> Self {
        Self {
            from,
            to,
            latency: driver::histogram(),
            answered: 0,
            faults: Faults::default(),
            statuses: BTreeMap::new(),
            bytes: 0,
            lateness: driver::histogram(),
            waited: 0,
            series: Series::new(from, to),
        }
    }

    /// Whether what is due, or happens, at `at` belongs to it.
    pub(super) fn has(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }

    /// A request that took `latency` was answered as expected.
    pub(super) fn note_answer(&mut self, latency: u64) {
        self.answered += 1;
        self.latency.saturating_record(latency.max(1));
    }

    /// A request failed after `latency`.
    pub(super) fn note_fault(&mut self, fault: &LoadFault, latency: u64) {
        self.faults.note(fault);
        if matches!(fault, LoadFault::Timeout | LoadFault::Unsent) {
            self.latency.saturating_record(latency.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadFault, PhaseOutcome};

    #[test]
    fn what_waited_in_vain_is_slow_and_what_was_refused_is_not_fast() {
        let mut outcome = PhaseOutcome::new(0, 1_000_000_000);
        for _ in 0..90 {
            outcome.note_answer(1_000_000);
        }
        for _ in 0..5 {
            outcome.note_fault(&LoadFault::Timeout, 10_000_000_000);
            outcome.note_fault(&LoadFault::Unsent, 3_000_000_000);
            outcome.note_fault(&LoadFault::Status(503, String::new()), 1000);
        }
        assert_eq!((outcome.answered, outcome.faults.total, outcome.latency.len()), (90, 15, 100));
        assert!(outcome.latency.value_at_quantile(0.99) > 9_000_000_000 && outcome.latency.min() > 900_000);
    }
}
