//! Requests that take a service time: a limited number at once, as in a server with few threads; the others wait in order.
//!
//! Knows tokens only; the caller passes the time. A request whose client has gone is processed all the same: a server that is
//! working does not read its sockets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct WorkSlots {
    /// How many more may be worked on; `None`: as many as come.
    free: Option<usize>,
    running: BinaryHeap<Reverse<RunningWork>>,
    waiting: VecDeque<(u64, Duration)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunningWork {
    due: Instant,
    token: u64,
    has_slot: bool,
}

/// A request whose work is done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FinishedWork {
    pub(super) token: u64,
    /// The one that has taken its place.
    pub(super) begun: Option<u64>,
}

impl WorkSlots {
    /// At most `slots` at once, or as many as come.
    pub(super) fn new(slots: Option<usize>) -> Self {
        Self { free: slots, running: BinaryHeap::new(), waiting: VecDeque::new() }
    }

    /// Takes work of this length; returns whether it has begun. Work of no length needs no slot.
    pub(super) fn begin(&mut self, token: u64, length: Duration, now: Instant) -> bool {
        let has_slot = self.free.is_some() && !length.is_zero();
        if has_slot && self.free == Some(0) {
            self.waiting.push_back((token, length));
            return false;
        }
        if has_slot {
            self.free = self.free.map(|free| free - 1);
        }
        self.running.push(Reverse(RunningWork { due: now + length, token, has_slot }));
        true
    }

    /// When the next is done.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.running.peek().map(|Reverse(running)| running.due)
    }

    /// Takes out one that is done by `now`, and begins the one that has waited longest.
    pub(super) fn finish(&mut self, now: Instant) -> Option<FinishedWork> {
        self.next_due().filter(|due| *due <= now)?;
        let Reverse(running) = self.running.pop()?;
        let mut begun = None;
        if running.has_slot {
            self.free = self.free.map(|free| free + 1);
            if let Some((token, length)) = self.waiting.pop_front() {
                self.begin(token, length, now);
                begun = Some(token);
            }
        }
        Some(FinishedWork { token: running.token, begun })
    }
}

#[cfg(test)]
mod tests {
    use super::{FinishedWork, WorkSlots};
    use crate::clock;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn one_slot_works_on_one_request_after_the_other_in_turn() {
        let (mut work, start) = (WorkSlots::new(Some(1)), clock::now());
        assert!(work.begin(1, 20 * MS, start));
        assert!(!work.begin(2, 20 * MS, start) && !work.begin(3, 5 * MS, start));
        assert_eq!(work.finish(start + 19 * MS), None);
        assert_eq!(work.finish(start + 21 * MS), Some(FinishedWork { token: 1, begun: Some(2) }));
        // The second began when the first was done, not when it came.
        assert_eq!(work.next_due(), Some(start + 41 * MS));
        assert_eq!(work.finish(start + 41 * MS), Some(FinishedWork { token: 2, begun: Some(3) }));
        assert_eq!(work.finish(start + 46 * MS), Some(FinishedWork { token: 3, begun: None }));
        assert_eq!(work.finish(start + 99 * MS), None);
    }

    #[test]
    fn work_of_no_length_needs_no_slot_and_without_a_limit_no_request_waits() {
        let (mut work, start) = (WorkSlots::new(Some(1)), clock::now());
        assert!(work.begin(1, 20 * MS, start) && work.begin(2, Duration::ZERO, start));
        assert_eq!(work.finish(start), Some(FinishedWork { token: 2, begun: None }));
        assert!(!work.begin(3, MS, start));
        let mut work = WorkSlots::new(None);
        assert!((0..50).all(|token| work.begin(token, 20 * MS, start)));
        let done = std::iter::from_fn(|| work.finish(start + 20 * MS)).count();
        assert_eq!(done, 50);
    }
}
