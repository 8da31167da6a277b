//! The least of many values that are reported one by one, in bounded memory, with the numbers of their connections.

use std::collections::{BTreeSet, BinaryHeap};

/// The least values so far.
#[derive(Debug)]
pub(super) struct LeastValues<K> {
    count_max: usize,
    /// With the numbers of their tasks; the greatest of them is on top.
    found: BinaryHeap<(K, u64)>,
}

impl<K: Ord> LeastValues<K> {
    /// So many of them at most.
    pub(super) fn new(count_max: usize) -> Self {
        Self { count_max, found: BinaryHeap::new() }
    }

    /// Takes note of one.
    pub(super) fn note(&mut self, value: K, number: u64) {
        if self.found.len() < self.count_max {
            self.found.push((value, number));
        } else if let Some(mut greatest) = self.found.peek_mut()
            && (&value, number) < (&greatest.0, greatest.1)
        {
            *greatest = (value, number);
        }
    }

    /// Their numbers.
    pub(super) fn into_numbers(self) -> BTreeSet<u64> {
        self.found.into_iter().map(|(_, number)| number).collect()
    }
}
