//! The last so many of something, in memory that is reserved once and touched as it fills.

/// A ring of copies. What is written when it is full takes the place of the oldest.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Vec<T>,
    capacity: usize,
    /// Where the next one goes.
    next: usize,
}

impl<T: Copy> Ring<T> {
    /// An empty ring; reserves no memory.
    pub(crate) const fn new(capacity: usize) -> Self {
        Self { slots: Vec::new(), capacity, next: 0 }
    }

    /// The place for the next one, to be overwritten. It contains `blank` the first time.
    #[inline]
    pub(crate) fn next_slot(&mut self, blank: &T) -> Option<&mut T> {
        let at = self.next;
        if at >= self.slots.len() {
            self.grow(blank)?;
        }
        self.next = if at + 1 == self.capacity { 0 } else { at + 1 };
        self.slots.get_mut(at)
    }

    /// Adds a place at the end; reserves the memory of all at the first.
    #[cold]
    fn grow(&mut self, blank: &T) -> Option<()> {
        if self.capacity == 0 {
            return None;
        }
        if self.slots.is_empty() {
            // The system gives pages of it only when they are touched.
            self.slots.reserve_exact(self.capacity);
        }
        self.slots.push(*blank);
        Some(())
    }

    /// All that is kept, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &T> {
        let (newer, older) = self.slots.split_at(self.next.min(self.slots.len()));
        newer.iter().rev().chain(older.iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(ring: &mut Ring<u32>, value: u32) {
        if let Some(slot) = ring.next_slot(&0) {
            *slot = value;
        }
    }

    #[test]
    fn the_last_ones_are_kept_newest_first() {
        let mut ring = Ring::new(3);
        assert_eq!((ring.newest_first().count(), ring.slots.capacity()), (0, 0));
        for (value, kept) in [
            (1, vec![1]),
            (2, vec![2, 1]),
            (3, vec![3, 2, 1]),
            (4, vec![4, 3, 2]),
            (5, vec![5, 4, 3]),
            (6, vec![6, 5, 4]),
            (7, vec![7, 6, 5]),
        ] {
            push(&mut ring, value);
            assert_eq!(ring.newest_first().copied().collect::<Vec<_>>(), kept);
        }
    }

    #[test]
    fn memory_is_reserved_once_and_never_grows() {
        let mut ring = Ring::new(1000);
        push(&mut ring, 0);
        let (place, capacity) = (ring.slots.as_ptr(), ring.slots.capacity());
        assert_eq!(capacity, 1000);
        (0..10_000).for_each(|value| push(&mut ring, value));
        assert_eq!((ring.slots.as_ptr(), ring.slots.capacity(), ring.slots.len()), (place, capacity, 1000));
    }

    #[test]
    fn a_ring_of_nothing_keeps_nothing() {
        let mut ring = Ring::new(0);
        push(&mut ring, 1);
        assert_eq!((ring.newest_first().count(), ring.slots.capacity()), (0, 0));
    }
}
