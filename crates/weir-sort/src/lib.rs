//! Stable sorting in little code: the search for the order is compiled once, for all types.
//!
//! The sorts of the standard library are compiled for each type and each comparison, 4 to 5 KiB of code at a time, which was 3 % of the program. This
//! one sorts indices by a comparison behind a pointer and then moves the elements, which is a few hundred bytes for each type. It allocates one
//! list of indices and calls a function for each comparison, so it is for plans, pages and answers of the admin listener. Numbers and what a
//! request waits for are sorted by the standard library.

use std::cmp::Ordering;

/// Sorts of slices, like those of the standard library.
pub trait CompactSort<T> {
    /// Sorts by the order of the type, stably. O(n log n) comparisons, one allocation.
    fn sort_compact(&mut self)
    where
        T: Ord,
    {
        self.sort_compact_by(T::cmp);
    }

    /// Sorts by `compare`, stably.
    fn sort_compact_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by what `key` gives for each element, stably; `key` is called at each comparison.
    fn sort_compact_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.sort_compact_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> CompactSort<T> for [T] {
    fn sort_compact_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        if self.len() < 2 {
            return;
        }
        let order = order(self.len(), &mut |one, other| compare(&self[one], &self[other]));
        arrange(self, order);
    }
}

/// The indices below `len` in the order that `compare` gives.
#[inline(never)]
fn order(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

/// Moves to each place the element that `order` has there.
fn arrange<T>(elements: &mut [T], mut order: Vec<usize>) {
    for start in 0..elements.len() {
        // One cycle of places, each of which gets the element of the next.
        let mut at = start;
        loop {
            let next = std::mem::replace(&mut order[at], at);
            if next == start || next == at {
                break;
            }
            elements.swap(at, next);
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(elements in prop::collection::vec((0_u8..20, any::<u16>()), 0..200)) {
            let mut expected = elements.clone();
            let mut sorted = elements;
            expected.sort_by_key(|(key, _)| *key);
            sorted.sort_compact_by_key(|(key, _)| *key);
            prop_assert_eq!(&sorted, &expected);
            expected.sort();
            sorted.sort_compact();
            prop_assert_eq!(&sorted, &expected);
            expected.sort_by(|one, other| other.cmp(one));
            sorted.sort_compact_by(|one, other| other.cmp(one));
            prop_assert_eq!(&sorted, &expected);
        }
    }

    #[test]
    fn elements_that_cannot_be_copied_are_all_there() {
        let mut names: Vec<String> = ["c", "a", "b", "a"].map(str::to_owned).into();
        names.sort_compact();
        assert_eq!(names, ["a", "a", "b", "c"]);
    }
}
