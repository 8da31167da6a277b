//! Which connections of a worker wait for their next request, longest first: these are evicted when there is no room.
//!
//! To begin and to end such a wait costs a store each; the longest waits are searched only when room is needed, many at
//! once. Must not know what a connection is.

use slab::Slab;

use crate::net::clock::Instant;

/// Maximum number of connections found by one search.
const FOUND_MAX: usize = 256;

/// The bits of a mark that say to which listener its connection belongs.
const LISTENER_MASK: u64 = 0xffff;

/// The bit of a mark that says that its connection waits for the first request.
const NEW: u64 = 1 << 16;

/// The lowest bit of a mark above these: a quarter of a millisecond. It is always set, so that a mark is never zero.
const ALWAYS: u64 = 1 << 17;

/// Since when a connection waits, as nanoseconds of the clock, and at which listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

impl Mark {
    /// It does not wait.
    pub(crate) const BUSY: Mark = Mark(0);
    /// It waits, and is to end.
    pub(crate) const EVICTED: Mark = Mark(u64::MAX);

    fn new(wait: IdleWait) -> Self {
        let since = wait.since.since_boot_ns() & !(LISTENER_MASK | NEW) | ALWAYS;
        Self(since | if wait.is_new { NEW } else { 0 } | u64::from(wait.listener))
    }

    fn is_waiting(self) -> bool {
        self != Mark::BUSY && self != Mark::EVICTED
    }

    fn is_of(self, listener: Option<u16>, with_new: bool) -> bool {
        listener.is_none_or(|listener| self.0 as u16 == listener) && (with_new || self.0 & NEW == 0)
    }

    /// Since when it waits, a quarter of a millisecond early or late.
    fn since(self) -> Instant {
        Instant::from_nanos(self.0)
    }
}

/// The wait of a connection for its next request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleWait {
    pub(crate) since: Instant,
    pub(crate) listener: u16,
    /// Whether it waits for the first one. It is not idle then: its client is about to send it.
    pub(crate) is_new: bool,
}

/// Which connections may be evicted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Evictable {
    /// Those of a listener or of all that have been idle since before this moment.
    IdleBefore(Option<u16>, Instant),
    /// All that wait for a request, the first one included.
    All,
}

impl Evictable {
    /// The listener, and whether connections are meant that wait for their first request.
    fn scope(self) -> (Option<u16>, bool) {
        match self {
            Self::IdleBefore(listener, _) => (listener, false),
            Self::All => (None, true),
        }
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
    waiting: usize,
    /// Some that waited longest when they were looked for, the longest last.
    found: Vec<(Mark, usize)>,
    found_in: (Option<u16>, bool),
}

impl Idleness {
    /// A connection waits, if it did not already; whether it is to end.
    pub(crate) fn begin(&mut self, mark: &mut Mark, wait: IdleWait) -> bool {
        if *mark == Mark::BUSY {
            self.waiting += 1;
            *mark = Mark::new(wait);
        }
        *mark == Mark::EVICTED
    }

    /// A connection waits no more.
    pub(crate) fn end(&mut self, mark: &mut Mark) {
        self.waiting -= usize::from(mark.is_waiting());
        *mark = Mark::BUSY;
    }

    /// Since when the connection that has been idle longest has been so, of a listener or of all.
    pub(crate) fn longest<T: Marked>(&mut self, all: &Slab<T>, listener: Option<u16>) -> Option<Instant> {
        self.find(all, (listener, false)).map(|(mark, _)| mark.since())
    }

    /// Marks the connection that has waited longest as evicted, of those that may be; returns its key.
    pub(crate) fn evict<T: Marked>(&mut self, all: &mut Slab<T>, which: Evictable) -> Option<usize> {
        let (mark, key) = self.find(all, which.scope())?;
        if let Evictable::IdleBefore(_, moment) = which
            && mark.since() >= moment
        {
            return None;
        }
        self.found.pop();
        *all.get_mut(key)?.mark() = Mark::EVICTED;
        self.waiting -= 1;
        Some(key)
    }

    /// The connection that has waited longest; it is the last of those found.
    fn find<T: Marked>(&mut self, all: &Slab<T>, scope: (Option<u16>, bool)) -> Option<(Mark, usize)> {
        if self.found_in != scope {
            self.found.clear();
            self.found_in = scope;
        }
        loop {
            while let Some((mark, key)) = self.found.last().copied() {
                if all.get(key).is_some_and(|connection| connection.marked() == mark) {
                    return Some((mark, key));
                }
                self.found.pop();
            }
            if self.waiting == 0 {
                return None;
            }
            let (listener, with_new) = scope;
            let waiting = all.iter().map(|(key, connection)| (connection.marked(), key));
            self.found
                .extend(waiting.filter(|(mark, _)| mark.is_waiting() && mark.is_of(listener, with_new)));
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
    use std::time::Duration;

    use super::*;

    impl Marked for Mark {
        fn mark(&mut self) -> &mut Mark {
            self
        }

        fn marked(&self) -> Mark {
            *self
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::test(Duration::from_secs(seconds))
    }

    fn idle(listener: u16, seconds: u64) -> IdleWait {
        IdleWait { since: at(seconds), listener, is_new: false }
    }

    fn on_listener(listener: Option<u16>) -> Evictable {
        Evictable::IdleBefore(listener, at(1_000_000))
    }

    fn connections(count: usize) -> (Idleness, Slab<Mark>) {
        let (mut idleness, mut all) = (Idleness::default(), Slab::new());
        for key in 0..count {
            all.insert(Mark::BUSY);
            assert!(!idleness.begin(&mut all[key], idle((key % 2) as u16, key as u64)));
        }
        (idleness, all)
    }

    #[test]
    fn the_longest_wait_is_evicted_first_and_each_once() {
        let (mut idleness, mut all) = connections(1_000);
        // The first hundred have had another request since.
        for key in 0..100 {
            idleness.end(&mut all[key]);
            idleness.begin(&mut all[key], idle(0, 2_000 + key as u64));
        }
        let order: Vec<usize> = std::iter::from_fn(|| idleness.evict(&mut all, on_listener(None))).collect();
        assert!(order.iter().copied().eq((100..1_000).chain(0..100)), "{order:?}");
        assert!(idleness.begin(&mut all[5], idle(0, 5_000)), "it is evicted");
    }

    #[test]
    fn a_full_listener_evicts_its_own_connections_only() {
        let (mut idleness, mut all) = connections(10);
        assert_eq!(idleness.evict(&mut all, on_listener(Some(1))), Some(1));
        assert_eq!(idleness.evict(&mut all, on_listener(None)), Some(0));
        assert_eq!(idleness.evict(&mut all, on_listener(Some(1))), Some(3));
        assert_eq!(idleness.evict(&mut all, on_listener(Some(7))), None);
    }

    #[test]
    fn connections_with_a_request_or_closed_ones_are_not_evicted() {
        let (mut idleness, mut all) = connections(3);
        assert_eq!(idleness.evict(&mut all, on_listener(None)), Some(0));
        idleness.end(&mut all[1]);
        idleness.end(&mut all[2]);
        all.remove(2);
        assert_eq!(idleness.evict(&mut all, on_listener(None)), None);
        // One whose request came when it was evicted.
        idleness.end(&mut all[0]);
        assert!(!idleness.begin(&mut all[0], idle(0, 9)));
        assert_eq!(idleness.evict(&mut all, on_listener(None)), Some(0));
    }

    #[test]
    fn only_those_that_have_been_idle_for_long_make_room() {
        let (mut idleness, mut all) = connections(3);
        let before = |millis| Evictable::IdleBefore(None, Instant::test(Duration::from_millis(millis)));
        let since = idleness.longest(&all, None).unwrap();
        assert!(since < at(1), "{since:?}");
        assert_eq!(
            [500, 500, 3_000].map(|at| idleness.evict(&mut all, before(at))),
            [Some(0), None, Some(1)]
        );
        assert!(idleness.longest(&all, Some(1)).is_none());
    }

    #[test]
    fn a_connection_without_its_first_request_makes_room_for_nothing_but_memory() {
        let (mut idleness, mut all) = connections(0);
        for (key, is_new) in [true, false, true].into_iter().enumerate() {
            all.insert(Mark::BUSY);
            idleness.begin(&mut all[key], IdleWait { since: at(key as u64), listener: 7, is_new });
        }
        assert!(idleness.longest(&all, None) > Some(Instant::test(Duration::from_millis(500))));
        assert_eq!(idleness.evict(&mut all, on_listener(None)), Some(1));
        assert_eq!(idleness.evict(&mut all, on_listener(Some(7))), None);
        assert_eq!([(); 3].map(|()| idleness.evict(&mut all, Evictable::All)), [Some(0), Some(2), None]);
    }
}
