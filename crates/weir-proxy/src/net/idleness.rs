//! Which connections of a worker wait for their next request, longest first: these are evicted when there is no room.
//!
//! To begin and to end such a wait costs a store each; the longest waits are searched only when room is needed, many at
//! once. Must not know what a connection is.

use slab::Slab;

/// Maximum number of connections found by one search.
const FOUND_MAX: usize = 256;

/// Bits of a mark that say to which listener its connection belongs.
const LISTENER_BITS: u32 = 16;

/// Since when a connection waits, as a number that grows, and at which listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

impl Mark {
    /// It does not wait.
    pub(crate) const BUSY: Mark = Mark(0);
    /// It waits, and is to end.
    pub(crate) const EVICTED: Mark = Mark(u64::MAX);

    fn is_waiting(self) -> bool {
        self != Mark::BUSY && self != Mark::EVICTED
    }

    fn is_of(self, listener: Option<u16>) -> bool {
        listener.is_none_or(|listener| self.0 as u16 == listener)
    }
}

/// Something that has a mark.
pub(crate) trait Marked {
    fn mark(&mut self) -> &mut Mark;
    fn marked(&self) -> Mark;
}

/// The order in which connections have begun to wait.
#[derive(Debug, Default)]
pub(crate) struct Idleness {
    /// That of the last mark.
    number: u64,
    waiting: usize,
    /// Some that waited longest when they were looked for, the longest last.
    found: Vec<(Mark, usize)>,
    found_of: Option<u16>,
}

impl Idleness {
    /// A connection waits, if it did not already; whether it is to end.
    pub(crate) fn begin(&mut self, mark: &mut Mark, listener: u16) -> bool {
        if *mark == Mark::BUSY {
            self.number += 1;
            self.waiting += 1;
            *mark = Mark(self.number << LISTENER_BITS | u64::from(listener));
        }
        *mark == Mark::EVICTED
    }

    /// A connection waits no more.
    pub(crate) fn end(&mut self, mark: &mut Mark) {
        self.waiting -= usize::from(mark.is_waiting());
        *mark = Mark::BUSY;
    }

    /// Marks the connection that has waited longest, of a listener or of all, as evicted; returns its key.
    pub(crate) fn evict<T: Marked>(&mut self, all: &mut Slab<T>, listener: Option<u16>) -> Option<usize> {
        if self.found_of != listener {
            self.found.clear();
            self.found_of = listener;
        }
        loop {
            while let Some((mark, key)) = self.found.pop() {
                if let Some(connection) = all.get_mut(key).filter(|connection| connection.marked() == mark) {
                    *connection.mark() = Mark::EVICTED;
                    self.waiting -= 1;
                    return Some(key);
                }
            }
            if self.waiting == 0 {
                return None;
            }
            let waiting = all.iter().map(|(key, connection)| (connection.marked(), key));
            self.found.extend(waiting.filter(|(mark, _)| mark.is_waiting() && mark.is_of(listener)));
            if self.found.is_empty() {
                return None;
            }
            if self.found.len() > FOUND_MAX {
                self.found.select_nth_unstable(FOUND_MAX);
                self.found.truncate(FOUND_MAX);
            }
            self.found.sort_unstable_by(|left, right| right.cmp(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Marked for Mark {
        fn mark(&mut self) -> &mut Mark {
            self
        }

        fn marked(&self) -> Mark {
            *self
        }
    }

    fn connections(count: usize) -> (Idleness, Slab<Mark>) {
        let (mut idleness, mut all) = (Idleness::default(), Slab::new());
        for key in 0..count {
            all.insert(Mark::BUSY);
            assert!(!idleness.begin(&mut all[key], (key % 2) as u16));
        }
        (idleness, all)
    }

    #[test]
    fn the_longest_wait_is_evicted_first_and_each_once() {
        let (mut idleness, mut all) = connections(1_000);
        // The first hundred have had another request since.
        for key in 0..100 {
            idleness.end(&mut all[key]);
            idleness.begin(&mut all[key], 0);
        }
        let order: Vec<usize> = std::iter::from_fn(|| idleness.evict(&mut all, None)).collect();
        assert!(order.iter().copied().eq((100..1_000).chain(0..100)), "{order:?}");
        assert!(idleness.begin(&mut all[5], 0), "it is evicted");
    }

    #[test]
    fn a_full_listener_evicts_its_own_connections_only() {
        let (mut idleness, mut all) = connections(10);
        assert_eq!(idleness.evict(&mut all, Some(1)), Some(1));
        assert_eq!(idleness.evict(&mut all, None), Some(0));
        assert_eq!(idleness.evict(&mut all, Some(1)), Some(3));
        assert_eq!(idleness.evict(&mut all, Some(7)), None);
    }

    #[test]
    fn connections_with_a_request_or_closed_ones_are_not_evicted() {
        let (mut idleness, mut all) = connections(3);
        assert_eq!(idleness.evict(&mut all, None), Some(0));
        idleness.end(&mut all[1]);
        idleness.end(&mut all[2]);
        all.remove(2);
        assert_eq!(idleness.evict(&mut all, None), None);
        // One whose request came when it was evicted.
        idleness.end(&mut all[0]);
        assert!(!idleness.begin(&mut all[0], 0));
        assert_eq!(idleness.evict(&mut all, None), Some(0));
    }
}
