//! The agenda: the events of a simulated world in the order of their times.
//!
//! Events of one moment happen in the order in which they were entered, so a simulation has no other order than its own.
//! Times that are always the same distance ahead (time limits) wait in a line each and cost nothing to enter; most of them
//! are void when their time comes. All others are in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// Events to come. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct EventQueue<E> {
    now: u64,
    entered: u64,
    heap: BinaryHeap<Reverse<QueuedEvent<E>>>,
    lines: Vec<FixedDelayLine<E>>,
}

/// Events that were entered the same time ahead, the first first.
#[derive(Debug)]
struct FixedDelayLine<E> {
    ahead: u64,
    entries: VecDeque<QueuedEvent<E>>,
}

#[derive(Debug, Clone, Copy)]
struct QueuedEvent<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> QueuedEvent<E> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for QueuedEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for QueuedEvent<E> {}

impl<E> PartialOrd for QueuedEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for QueuedEvent<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E: Copy> EventQueue<E> {
    /// Nothing to come, at time 0.
    pub(super) fn new() -> Self {
        Self { now: 0, entered: 0, heap: BinaryHeap::new(), lines: Vec::new() }
    }

    /// The time of the event that happens now.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Enters an event for a time that is not before now.
    pub(super) fn enter(&mut self, at: u64, event: E) {
        let entry = self.entry(at, event);
        self.heap.push(Reverse(entry));
    }

    /// Enters an event for `ahead` from now, where few different values of `ahead` are ever used.
    pub(super) fn enter_limit(&mut self, ahead: u64, event: E) {
        let entry = self.entry(self.now.saturating_add(ahead), event);
        match self.lines.iter_mut().find(|line| line.ahead == ahead) {
            Some(line) => line.entries.push_back(entry),
            None => self.lines.push(FixedDelayLine { ahead, entries: VecDeque::from([entry]) }),
        }
    }

    /// Takes the next event out and goes to its time.
    pub(super) fn next(&mut self) -> Option<E> {
        let first = self.heap.peek().map(|Reverse(entry)| entry.key());
        let lines = self.lines.iter_mut().filter_map(|line| Some((line.entries.front()?.key(), line)));
        let entry = match lines.min_by_key(|(key, _)| *key) {
            Some((key, line)) if first.is_none_or(|first| key < first) => line.entries.pop_front()?,
            _ => self.heap.pop()?.0,
        };
        self.now = entry.at;
        Some(entry.event)
    }

    fn entry(&mut self, at: u64, event: E) -> QueuedEvent<E> {
        debug_assert!(at >= self.now, "an event lies in the past");
        self.entered += 1;
        QueuedEvent { at, number: self.entered, event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whether an event waits in the heap or in a line makes no difference: by time, then in order of entry.
        #[test]
        fn events_come_in_order(steps in prop::collection::vec((0_u64..50, any::<bool>(), any::<bool>()), 1..200)) {
            let mut agenda = EventQueue::new();
            let mut waiting: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, (ahead, is_limit, take)) in steps.into_iter().enumerate() {
                if is_limit {
                    agenda.enter_limit(ahead % 5, number);
                    waiting.push((now + ahead % 5, number));
                } else {
                    agenda.enter(now + ahead, number);
                    waiting.push((now + ahead, number));
                }
                if take {
                    let next = *waiting.iter().min().expect("one was entered");
                    waiting.retain(|entry| *entry != next);
                    prop_assert_eq!(agenda.next(), Some(next.1));
                    prop_assert_eq!(agenda.now(), next.0);
                    now = next.0;
                }
            }
            waiting.sort_unstable();
            for (at, number) in waiting {
                prop_assert_eq!((agenda.next(), agenda.now()), (Some(number), at));
            }
            prop_assert_eq!(agenda.next(), None);
        }
    }
}
