//! The waiters of one priority: a ring of shares, each a list in order of arrival.
//!
//! With one share for all, that is one list. A share exists while it has waiters; a new one gets
//! its turn after the existing ones.

use std::collections::HashMap;

use super::QueuedItem;
use super::nodes::{NONE, NodeLinks, QueueNodes};

#[derive(Debug)]
pub(super) struct Lane {
    shares: Vec<LaneShare>,
    /// First of the list of unused entries, linked by `next`.
    free: u32,
    /// The share whose turn it is.
    current: u32,
    by_key: HashMap<u64, u32>,
    len: usize,
}

/// The waiters of one share.
#[derive(Debug, Clone, Copy)]
struct LaneShare {
    key: u64,
    first: u32,
    last: u32,
    len: usize,
    previous: u32,
    next: u32,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane { shares: Vec::new(), free: NONE, current: NONE, by_key: HashMap::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a place to its share.
    pub(super) fn push<T>(&mut self, places: &mut QueueNodes<T>, at: u32, key: u64) {
        let number = match self.by_key.get(&key) {
            Some(&number) => number,
            None => self.add_share(key),
        };
        let share = &mut self.shares[number as usize];
        *places.links_mut(at) = NodeLinks { previous: share.last, next: NONE, share: number };
        match share.last {
            NONE => share.first = at,
            last => places.links_mut(last).next = at,
        }
        share.last = at;
        share.len += 1;
        self.len += 1;
    }

    /// Takes a place out of its share, and the share out of the ring when it is empty.
    pub(super) fn unlink<T>(&mut self, places: &mut QueueNodes<T>, at: u32) {
        let NodeLinks { previous, next, share: number } = places.links(at);
        let share = &mut self.shares[number as usize];
        match previous {
            NONE => share.first = next,
            _ => places.links_mut(previous).next = next,
        }
        match next {
            NONE => share.last = previous,
            _ => places.links_mut(next).previous = previous,
        }
        share.len -= 1;
        self.len -= 1;
        if share.len == 0 {
            self.remove_share(number);
        }
    }

    /// The share of the waiter at `at` has had its turn.
    pub(super) fn pass_turn<T>(&mut self, places: &QueueNodes<T>, at: u32) {
        self.current = self.shares[places.links(at).share as usize].next;
    }

    /// The first of the share whose turn it is.
    pub(super) fn front(&self) -> Option<u32> {
        self.shares.get(self.current as usize).map(|share| share.first)
    }

    /// The first that is wanted, from the share whose turn it is on.
    pub(super) fn find<T>(
        &self,
        places: &QueueNodes<T>,
        mut wanted: impl FnMut(&QueuedItem<T>) -> bool,
    ) -> Option<u32> {
        self.ring().flat_map(|share| list(places, share)).find(|&at| wanted(places.waiter(at)))
    }

    /// All, from the share whose turn it is on.
    pub(super) fn iter<'a, T>(
        &'a self,
        places: &'a QueueNodes<T>,
    ) -> impl Iterator<Item = &'a QueuedItem<T>> {
        self.ring().flat_map(|share| list(places, share)).map(|at| places.waiter(at))
    }

    fn ring(&self) -> impl Iterator<Item = &LaneShare> {
        let mut next = self.current;
        std::iter::from_fn(move || {
            let share = self.shares.get(next as usize)?;
            next = if share.next == self.current { NONE } else { share.next };
            Some(share)
        })
    }

    /// Enters a share as the last to have its turn.
    fn add_share(&mut self, key: u64) -> u32 {
        let share = LaneShare { key, first: NONE, last: NONE, len: 0, previous: NONE, next: NONE };
        let number = if self.free == NONE {
            self.shares.push(share);
            u32::try_from(self.shares.len() - 1).expect("there are no more shares than waiters")
        } else {
            let number = self.free;
            self.free = self.shares[number as usize].next;
            self.shares[number as usize] = share;
            number
        };
        let (previous, next) = match self.current {
            NONE => (number, number),
            current => (self.shares[current as usize].previous, current),
        };
        if self.current == NONE {
            self.current = number;
        } else {
            self.shares[previous as usize].next = number;
            self.shares[next as usize].previous = number;
        }
        let share = &mut self.shares[number as usize];
        (share.previous, share.next) = (previous, next);
        self.by_key.insert(key, number);
        number
    }

    fn remove_share(&mut self, number: u32) {
        let LaneShare { key, previous, next, .. } = self.shares[number as usize];
        self.by_key.remove(&key);
        self.shares[previous as usize].next = next;
        self.shares[next as usize].previous = previous;
        if self.current == number {
            self.current = if next == number { NONE } else { next };
        }
        self.shares[number as usize].next = self.free;
        self.free = number;
    }
}

/// The places of one share, in order of arrival.
fn list<'a, T>(places: &'a QueueNodes<T>, share: &LaneShare) -> impl Iterator<Item = u32> + use<'a, T> {
    let mut next = share.first;
    std::iter::from_fn(move || {
        let at = next;
        (at != NONE).then(|| {
            next = places.links(at).next;
            at
        })
    })
}
