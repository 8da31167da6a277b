//! When clients without a whole request head are ended for new connections: at the limit, once a connection has waited for its place for
//! long enough and no idle one could go.
//!
//! Pure: times are passed in. Must not choose the clients: the list of connections does.

use std::cell::Cell;
use std::time::Duration;

use crate::net::clock::Instant;

/// How long a new connection waits first. Idle connections, also those of other workers, go within milliseconds; a browser shows nothing for
/// a second without its user noticing more than a slow page.
const WAIT: Duration = Duration::from_secs(1);

/// How long the shortage is remembered: the next connections do not wait as long each.
const MEMORY: Duration = Duration::from_millis(1_500);

/// Time between two searches, each of which wakes all connections of a worker: about a tenth of the worker's time is used for them.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_millis(100);
const INTERVAL_OF_SEARCH: u32 = 9;

/// The most that one search ends.
const ENDED_AT_ONCE: usize = 1_024;

/// Connections that wait for places that there are not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaitForRoom {
    /// Since when.
    pub(crate) since: Option<Instant>,
    /// How many connections.
    pub(crate) waiting: usize,
    /// How often room was sought.
    pub(crate) tries: usize,
    /// How often other workers were asked for a connection that has been idle for longer.
    pub(crate) asked: usize,
}

/// The shortage of places for new connections on one worker.
#[derive(Debug, Default)]
pub(crate) struct HeadPressure {
    /// Until when it is remembered.
    lasts_until: Cell<Option<Instant>>,
    /// When the next search may begin.
    next_search: Cell<Option<Instant>>,
    /// Whether the next search is for another worker, since this one has found nothing.
    is_of_others: Cell<bool>,
}

impl HeadPressure {
    /// How many clients to end now, where `waiting` connections have waited since `since`, and no idle one was there to go.
    pub(crate) fn count_to_end(&self, since: Instant, now: Instant, waiting: usize) -> usize {
        let is_remembered = self.lasts_until.get().is_some_and(|until| now < until);
        if !is_remembered && now.saturating_duration_since(since) < WAIT {
            return 0;
        }
        self.lasts_until.set(Some(now + MEMORY));
        if self.next_search.get().is_some_and(|next| now < next) {
            return 0;
        }
        self.next_search.set(Some(now + INTERVAL_MAX));
        // As many again are going to come until the next search.
        let expected = if is_remembered { 2 * waiting } else { waiting };
        expected.clamp(1, ENDED_AT_ONCE)
    }

    /// A search on this worker has ended so many in this time.
    pub(crate) fn note_search(&self, count: usize, took: Duration, now: Instant) {
        let interval = (took * INTERVAL_OF_SEARCH).clamp(INTERVAL_MIN, INTERVAL_MAX);
        self.next_search.set(Some(now + interval));
        self.is_of_others.set(count == 0);
    }

    /// Whether the next search is for another worker; the one after it is for this one.
    pub(crate) fn take_is_of_others(&self) -> bool {
        self.is_of_others.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::clock;

    #[test]
    fn a_connection_waits_for_a_second_first_and_the_next_ones_do_not() {
        let (pressure, start) = (HeadPressure::default(), clock::now());
        let at = |millis| start + Duration::from_millis(millis);
        for (since, now, count) in [
            (0, 0, 0),
            (0, 999, 0),
            (0, 1_000, 7),
            (0, 1_050, 0),
            (1_060, 1_100, 14),
            (1_150, 2_500, 14),
            // The shortage has been over for longer than it is remembered.
            (5_000, 5_900, 0),
            (5_000, 6_000, 7),
        ] {
            assert_eq!(pressure.count_to_end(at(since), at(now), 7), count, "{since} {now}");
        }
    }

    #[test]
    fn one_search_ends_as_many_as_wait_and_not_all() {
        let now = clock::now() + WAIT;
        let count = |waiting| HeadPressure::default().count_to_end(clock::now(), now + WAIT, waiting);
        assert_eq!([0, 1, 500, 70_000].map(count), [1, 1, 500, ENDED_AT_ONCE]);
    }

    #[test]
    fn searches_take_a_tenth_of_the_time() {
        let (pressure, start) = (HeadPressure::default(), clock::now());
        let at = |millis| start + Duration::from_millis(millis);
        for (now, took, next) in [(1_000, 0, 1_010), (1_010, 5, 1_055), (1_055, 900, 1_155)] {
            assert!(pressure.count_to_end(start, at(now), 1) > 0, "{now}");
            pressure.note_search(1, Duration::from_millis(took), at(now));
            assert_eq!(pressure.count_to_end(start, at(next - 1), 1), 0, "{next}");
        }
    }

    #[test]
    fn another_worker_has_its_turn_when_this_one_finds_nothing() {
        let pressure = HeadPressure::default();
        assert!(!pressure.take_is_of_others());
        pressure.note_search(0, Duration::ZERO, clock::now());
        assert!(pressure.take_is_of_others() && !pressure.take_is_of_others());
        pressure.note_search(0, Duration::ZERO, clock::now());
        pressure.note_search(3, Duration::ZERO, clock::now());
        assert!(!pressure.take_is_of_others());
    }
}
