//! Which stream writes next, when there is less room than all want (RFC 9218 section 10).
//!
//! The most urgent streams first. Of those of the same urgency, one that is of use only as a whole gets all the room, the oldest
//! first; those that are of use in parts share it in turns. Must not know what is written.

use weir_http::Priority;

/// Bytes of one turn of a stream that shares the room with others.
const TURN_BYTES: usize = 16 * 1024;

/// The streams that wait for room.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    waiting: Vec<Waiting>,
    /// Room that was given to streams which have not used it yet.
    given: usize,
    turns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    stream: u32,
    priority: Priority,
    /// The order among those that share: when it began to wait, or had its last turn.
    since: u64,
}

impl Schedule {
    /// Whether no stream waits. While one does, others take room only in their turn.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Room that is given and not yet used.
    pub(super) fn given(&self) -> usize {
        self.given
    }

    /// A stream wants to write more than it may, unless it waits already.
    pub(super) fn wait(&mut self, stream: u32, priority: Priority) {
        if self.waiting.iter().all(|waiting| waiting.stream != stream) {
            self.turns += 1;
            self.waiting.push(Waiting { stream, priority, since: self.turns });
        }
    }

    /// A stream is over, or waits for something else.
    pub(super) fn leave(&mut self, stream: u32) {
        self.waiting.retain(|waiting| waiting.stream != stream);
        if self.waiting.is_empty() && self.waiting.capacity() > 16 {
            self.waiting = Vec::new();
        }
    }

    /// The client has changed its mind.
    pub(super) fn set_priority(&mut self, stream: u32, priority: Priority) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.stream == stream) {
            waiting.priority = priority;
        }
    }

    /// Gives some of `room` to the next stream, which no longer waits then; `None` when no stream waits or there is no room.
    pub(super) fn give(&mut self, room: usize) -> Option<(u32, usize)> {
        let room = room.checked_sub(self.given).filter(|room| *room > 0)?;
        let key = |waiting: &Waiting| {
            let Priority { urgency, is_incremental } = waiting.priority;
            (urgency, is_incremental, if is_incremental { waiting.since } else { waiting.stream.into() })
        };
        let (at, next) = self.waiting.iter().copied().enumerate().min_by_key(|(_, waiting)| key(waiting))?;
        self.waiting.swap_remove(at);
        let is_shared = next.priority.is_incremental
            && self.waiting.iter().any(|other| other.priority.urgency == next.priority.urgency);
        let given = if is_shared { room.min(TURN_BYTES) } else { room };
        self.given += given;
        Some((next.stream, given))
    }

    /// Room that was given is used, or not wanted any more.
    pub(super) fn settle(&mut self, given: usize) {
        self.given -= given;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(streams: &[(u32, u8, bool)]) -> Schedule {
        let mut schedule = Schedule::default();
        for &(stream, urgency, is_incremental) in streams {
            schedule.wait(stream, Priority { urgency, is_incremental });
        }
        schedule
    }

    #[test]
    fn the_most_urgent_and_of_these_the_oldest_gets_all() {
        let mut schedule = schedule(&[(1, 3, false), (5, 0, false), (3, 0, false), (7, 0, true)]);
        let mut order = Vec::new();
        while let Some((stream, given)) = schedule.give(60_000) {
            assert_eq!(given, 60_000, "{stream}");
            schedule.settle(given);
            order.push(stream);
        }
        assert_eq!(order, [3, 5, 7, 1]);
    }

    #[test]
    fn streams_that_are_of_use_in_parts_take_turns() {
        let incremental = Priority { urgency: 3, is_incremental: true };
        let mut schedule = schedule(&[(1, 3, true), (3, 3, true), (5, 3, true)]);
        let mut order = Vec::new();
        for _ in 0..7 {
            let (stream, given) = schedule.give(1 << 20).unwrap();
            assert_eq!(given, TURN_BYTES);
            schedule.settle(given);
            schedule.wait(stream, incremental);
            order.push(stream);
        }
        assert_eq!(order, [1, 3, 5, 1, 3, 5, 1]);
    }

    #[test]
    fn room_is_given_once() {
        let mut schedule = schedule(&[(1, 3, true), (3, 3, true), (5, 3, false)]);
        assert_eq!(schedule.give(10_000), Some((5, 10_000)));
        assert_eq!(schedule.give(10_000), None);
        assert_eq!(schedule.give(30_000), Some((1, 16_384)));
        assert_eq!(schedule.give(30_000), Some((3, 3_616)));
        assert_eq!(schedule.given(), 30_000);
        schedule.settle(30_000);
        assert!(schedule.is_empty() && schedule.give(10_000).is_none());
    }

    #[test]
    fn one_that_leaves_or_changes_its_priority_is_treated_so() {
        let mut schedule = schedule(&[(1, 3, false), (3, 3, false), (5, 3, false)]);
        schedule.leave(1);
        schedule.set_priority(5, Priority { urgency: 1, is_incremental: false });
        assert_eq!(schedule.give(1), Some((5, 1)));
        schedule.settle(1);
        assert_eq!(schedule.give(1), Some((3, 1)));
    }
}
