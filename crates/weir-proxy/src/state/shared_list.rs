//! A list in pages that its copies share: a copy with one entry replaced costs one page and the list of pages, not the whole list.

use std::ops::Index;
use std::sync::Arc;

/// Entries of a page. A change of one among 10 000 copies this many, and one pointer for each page.
const PAGE_LENGTH: usize = 64;

/// A list of fixed length whose entries can be replaced in a copy.
#[derive(Debug, Clone)]
pub struct SharedList<T> {
    pages: Box<[Arc<[T]>]>,
    len: usize,
}

impl<T> SharedList<T> {
    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries in their order.
    pub fn iter(&self) -> SharedListIter<'_, T> {
        SharedListIter { pages: self.pages.iter(), page: [].iter() }
    }

    /// The entry at a place, if there is one.
    pub fn get(&self, place: usize) -> Option<&T> {
        self.pages.get(place / PAGE_LENGTH)?.get(place % PAGE_LENGTH)
    }
}

impl<T> SharedList<T> {
    /// The entries of `other` that differ, with their places; pages that both share are passed over.
    pub fn differing<'a>(
        &'a self,
        other: &'a Self,
        differs: impl Fn(&T, &T) -> bool + 'a,
    ) -> impl Iterator<Item = (usize, &'a T)> {
        let pages = self.pages.iter().zip(&other.pages).enumerate();
        let pages = pages.filter(|(_, (one, two))| !Arc::ptr_eq(one, two));
        let entries = pages.flat_map(|(page, (one, two))| {
            one.iter().zip(two.iter()).enumerate().map(move |(at, pair)| (page * PAGE_LENGTH + at, pair))
        });
        entries.filter(move |(_, (one, two))| differs(one, two)).map(|(place, (_, entry))| (place, entry))
    }
}

impl<T: Clone> SharedList<T> {
    /// Replaces an entry of this copy; others keep theirs.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn replace(&mut self, place: usize, entry: T) {
        Arc::make_mut(&mut self.pages[place / PAGE_LENGTH])[place % PAGE_LENGTH] = entry;
    }
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: usize) -> &T {
        &self.pages[place / PAGE_LENGTH][place % PAGE_LENGTH]
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let (mut pages, mut len) = (Vec::new(), 0);
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let page: Arc<[T]> = entries.by_ref().take(PAGE_LENGTH).collect();
            len += page.len();
            pages.push(page);
        }
        Self { pages: pages.into(), len }
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = SharedListIter<'a, T>;

    fn into_iter(self) -> SharedListIter<'a, T> {
        self.iter()
    }
}

/// The entries of [`SharedList`].
#[derive(Debug, Clone)]
pub struct SharedListIter<'a, T> {
    pages: std::slice::Iter<'a, Arc<[T]>>,
    page: std::slice::Iter<'a, T>,
}

impl<'a, T> Iterator for SharedListIter<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(entry);
            }
            self.page = self.pages.next()?.iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_entry_is_that_of_one_copy_and_the_rest_is_shared() {
        for len in [0, 1, PAGE_LENGTH, PAGE_LENGTH + 1, 3 * PAGE_LENGTH - 1] {
            let list: SharedList<usize> = (0..len).collect();
            assert_eq!((list.len(), list.is_empty()), (len, len == 0));
            assert!(list.iter().copied().eq(0..len) && list.get(len).is_none());
            for place in 0..len {
                let mut other = list.clone();
                other.replace(place, 7_777);
                assert_eq!((list[place], other[place]), (place, 7_777));
                let shared = list.pages.iter().zip(&other.pages).filter(|(one, two)| Arc::ptr_eq(one, two));
                assert_eq!(shared.count(), list.pages.len() - 1);
                let differing: Vec<_> = list.differing(&other, |one, two| one != two).collect();
                assert_eq!(differing, [(place, &7_777)]);
                assert_eq!(other.iter().filter(|entry| **entry != 7_777).count(), len - 1);
            }
        }
    }
}
