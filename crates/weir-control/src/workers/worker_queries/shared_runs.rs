//! Lists of shared items, one after the other, of which most is as before: what did not change is kept once.
//!
//! A list is cut into runs where an item says so, not at fixed places: one that is added or removed changes the run that it is in, and not
//! those behind it.

use std::collections::HashMap;
use std::sync::Arc;

/// Items of a run on average.
const RUN_LEN: u64 = 64;
/// Items that a run has at most.
const RUN_LEN_MAX: usize = 512;

/// A list of items that shares its runs with the list before.
#[derive(Debug)]
pub(super) struct SharedRuns<T> {
    runs: Box<[SharedRun<T>]>,
}

#[derive(Debug)]
struct SharedRun<T> {
    /// The place of the first item in the list.
    first: usize,
    items: Arc<[Arc<T>]>,
}

impl<T> Clone for SharedRuns<T> {
    fn clone(&self) -> Self {
        Self { runs: self.runs.clone() }
    }
}

impl<T> Clone for SharedRun<T> {
    fn clone(&self) -> Self {
        Self { first: self.first, items: Arc::clone(&self.items) }
    }
}

impl<T> SharedRuns<T> {
    /// The list of these items. An item is the same as in the list before if it is the same allocation.
    pub(super) fn new(items: impl Iterator<Item = Arc<T>>, before: Option<&Self>) -> Self {
        let known: HashMap<*const T, &Arc<[Arc<T>]>> = before
            .iter()
            .flat_map(|before| &before.runs)
            .filter_map(|run| Some((Arc::as_ptr(run.items.first()?), &run.items)))
            .collect();
        let close = |items: &mut Vec<Arc<T>>| {
            let known = known.get(&Arc::as_ptr(&items[0])).filter(|known| is_same(known, items));
            let run = known.map_or_else(|| items.as_slice().into(), |known| Arc::clone(known));
            items.clear();
            run
        };
        let (mut runs, mut open, mut first) = (Vec::new(), Vec::new(), 0);
        for item in items {
            let is_last = ends_run(&item);
            open.push(item);
            if is_last || open.len() == RUN_LEN_MAX {
                let len = open.len();
                runs.push(SharedRun { first, items: close(&mut open) });
                first += len;
            }
        }
        if !open.is_empty() {
            runs.push(SharedRun { first, items: close(&mut open) });
        }
        Self { runs: runs.into() }
    }

    pub(super) fn get(&self, place: usize) -> Option<&Arc<T>> {
        let run = &self.runs[self.run_of(place)?];
        run.items.get(place - run.first)
    }

    /// Changes the item at a place, which must be there, in this list only.
    pub(super) fn set(&mut self, place: usize, item: Arc<T>) {
        let run = self.run_of(place).expect("the list has this place");
        let run = &mut self.runs[run];
        Arc::make_mut(&mut run.items)[place - run.first] = item;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.runs.iter().flat_map(|run| run.items.iter())
    }

    /// The run with this place, if it is not before the first.
    fn run_of(&self, place: usize) -> Option<usize> {
        self.runs.partition_point(|run| run.first <= place).checked_sub(1)
    }
}

fn is_same<T>(one: &[Arc<T>], other: &[Arc<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// Whether a run ends with this item: one in [`RUN_LEN`] does, by its address, which it keeps.
fn ends_run<T>(item: &Arc<T>) -> bool {
    let mixed = (Arc::as_ptr(item).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32 & (RUN_LEN - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(len: usize) -> Vec<Arc<usize>> {
        (0..len).map(Arc::new).collect()
    }

    fn runs_of<'a>(list: &'a SharedRuns<usize>) -> impl Iterator<Item = *const [Arc<usize>]> + 'a {
        list.runs.iter().map(|run| Arc::as_ptr(&run.items))
    }

    /// Items of runs that only the second list has.
    fn own_items(before: &SharedRuns<usize>, after: &SharedRuns<usize>) -> usize {
        let before: Vec<_> = runs_of(before).collect();
        let own = after.runs.iter().filter(|run| !before.contains(&Arc::as_ptr(&run.items)));
        own.map(|run| run.items.len()).sum()
    }

    #[test]
    fn items_are_found_at_their_places() {
        let items = list(3 * RUN_LEN_MAX);
        let runs = SharedRuns::new(items.iter().cloned(), None);
        assert!(runs.iter().map(|item| **item).eq(0..items.len()));
        for place in 0..items.len() {
            assert_eq!(runs.get(place).map(|item| **item), Some(place));
        }
        assert!(runs.get(items.len()).is_none());
        assert!(SharedRuns::<usize>::new(std::iter::empty(), None).get(0).is_none());
    }

    #[test]
    fn an_item_that_comes_or_goes_changes_one_or_two_runs() {
        let mut items = list(20_000);
        let mut before = SharedRuns::new(items.iter().cloned(), None);
        for place in [0, 7_000, 19_999] {
            items.insert(place, Arc::new(place));
            let added = SharedRuns::new(items.iter().cloned(), Some(&before));
            assert!(own_items(&before, &added) <= 2 * RUN_LEN_MAX + 1);
            items.remove(place / 2);
            let removed = SharedRuns::new(items.iter().cloned(), Some(&added));
            assert!(own_items(&added, &removed) <= 2 * RUN_LEN_MAX);
            assert!(removed.iter().zip(&items).all(|(one, other)| Arc::ptr_eq(one, other)));
            before = removed;
        }
        let same = SharedRuns::new(items.iter().cloned(), Some(&before));
        assert_eq!(own_items(&before, &same), 0);
    }

    #[test]
    fn a_change_in_place_leaves_other_lists_as_they_were() {
        let before = SharedRuns::new(list(1_000).into_iter(), None);
        let mut after = before.clone();
        after.set(500, Arc::new(7));
        assert_eq!(
            (before.get(500).map(|item| **item), after.get(500).map(|item| **item)),
            (Some(500), Some(7))
        );
        assert!(own_items(&before, &after) <= RUN_LEN_MAX);
    }
}
