//! The last outcomes of the probes of one server, or of requests that failed: the material of log lines about it.
//!
//! Bounded: a server that is probed for a year takes as much memory as one that is probed for a minute.

use std::collections::VecDeque;

/// Outcomes that are remembered of each server.
pub const HISTORY_MAX: usize = 10;

/// How one probe or request ended; `C` is the cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastOutcome<C> {
    /// When it ended, in milliseconds on the clock of the caller.
    pub at_ms: u64,
    /// Why it failed; `None` when it passed.
    pub failure: Option<C>,
}

/// The last [`HISTORY_MAX`] outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeHistory<C>(VecDeque<PastOutcome<C>>);

impl<C> OutcomeHistory<C> {
    pub(crate) const fn new() -> OutcomeHistory<C> {
        OutcomeHistory(VecDeque::new())
    }

    /// The outcomes, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PastOutcome<C>> + DoubleEndedIterator {
        self.0.iter()
    }

    /// The newest outcome; `None` before the first.
    pub fn newest(&self) -> Option<&PastOutcome<C>> {
        self.0.back()
    }

    pub(crate) fn push(&mut self, outcome: PastOutcome<C>) {
        if self.0.len() == HISTORY_MAX {
            self.0.pop_front();
        }
        self.0.push_back(outcome);
    }
}

impl<C> Default for OutcomeHistory<C> {
    fn default() -> OutcomeHistory<C> {
        OutcomeHistory::new()
    }
}
