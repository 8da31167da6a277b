//! How many bytes of bodies a worker holds that have arrived and wait for a reader, where a client may send more than is read.
//!
//! A client of HTTP/2 may send on many streams at once. As long as there is room, a stream that is not read holds up no other one; when
//! there is none, a connection gets as much again as was read of it. Of HTTP/3, what a client may send counts as if it were here. Belongs to one
//! thread.

use std::cell::Cell;

/// The bytes that wait on all connections of a worker.
#[derive(Debug)]
pub(crate) struct InboxBudget {
    used: Cell<usize>,
    bytes_max: usize,
}

impl InboxBudget {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { used: Cell::new(0), bytes_max }
    }

    /// A connection holds `now` bytes, and held `before`.
    pub(crate) fn adjust(&self, before: usize, now: usize) {
        self.used.set(self.used.get() + now - before);
    }

    /// Whether clients may send more than is read of them.
    pub(crate) fn has_room(&self) -> bool {
        self.used.get() < self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_until_the_bytes_are_used_up() {
        let budget = InboxBudget::new(100);
        budget.adjust(0, 60);
        budget.adjust(0, 39);
        assert!(budget.has_room());
        budget.adjust(39, 40);
        assert!(!budget.has_room());
        budget.adjust(60, 0);
        assert!(budget.has_room());
    }
}
