//! What was counted of keys since other nodes were told, and what is told and learned.
//!
//! What is not yet told is kept beside the entries of a part, under their lock, so that both always fit together. Must not know what a store is.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::counter::StoredCounter;
use super::entries::KeyAsHash;
use super::sliding_rate;

/// Keys that are not told yet, for each of those that a part is made for: more are counted between two exchanges only where entries make room for others.
const UNTOLD_PER_ENTRY: usize = 2;

/// What a node has to tell about a key, and to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldCounts {
    /// The hash of the key.
    pub key: u64,
    /// What becomes of the numbers.
    pub merge: CountsMerge,
    /// How long ago it was used, in milliseconds.
    pub idle_ms: u64,
    /// Numbers of the counters, in their order: of a rate how many milliseconds ago its period began, its events, those of the period before. None
    /// for a question.
    pub words: Vec<u64>,
}

/// What becomes of the numbers that a node tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountsMerge {
    /// Nothing: the node wants to know those of all nodes.
    Ask,
    /// They are added.
    Add,
    /// The larger ones count: the node has told some of them before.
    Least,
    /// They replace what all nodes have counted: an operator says so.
    Replace,
}

/// What all nodes together have counted for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedCounts {
    /// How long ago a node has used it, in milliseconds.
    pub idle_ms: u64,
    /// The same numbers.
    pub words: Vec<u64>,
}

/// What a part of a table has not told yet.
#[derive(Debug)]
pub(super) struct UntoldCounts {
    /// Whether there is a store to tell.
    pub(super) is_kept: bool,
    pub(super) keys: HashMap<u64, UntoldKey, BuildHasherDefault<KeyAsHash>>,
    entries_max: usize,
    words: usize,
    pub(super) dropped: u64,
}

#[derive(Debug)]
pub(super) struct UntoldKey {
    pub(super) merge: CountsMerge,
    /// In the layout of an entry; the events of a rate are in its second number.
    pub(super) counted: Box<[u64]>,
}

impl UntoldCounts {
    pub(super) fn new(entries_max: usize, words: usize) -> Self {
        Self { is_kept: false, keys: HashMap::default(), entries_max, words, dropped: 0 }
    }

    /// Notes that a key was used and wants to be known.
    pub(super) fn use_key(&mut self, key: u64) {
        self.change(key, CountsMerge::Add, |_| ());
    }

    /// Notes a count at this place of an entry.
    pub(super) fn count(&mut self, key: u64, at: usize, count: u64) {
        let add = |counted: &mut [u64]| counted[at] = counted[at].saturating_add(count);
        self.dropped += u64::from(!self.change(key, CountsMerge::Add, add));
    }

    /// Notes that a key was asked for.
    pub(super) fn ask(&mut self, key: u64) {
        // Questions are not told at the cost of counts.
        if self.keys.len() < self.entries_max {
            self.change(key, CountsMerge::Ask, |_| ());
        }
    }

    /// Notes that an operator has changed a key.
    pub(super) fn replace(&mut self, key: u64) {
        self.dropped += u64::from(!self.change(key, CountsMerge::Replace, |_| ()));
    }

    /// Whether there was room for it.
    pub(super) fn change(&mut self, key: u64, merge: CountsMerge, change: impl FnOnce(&mut [u64])) -> bool {
        if !self.is_kept {
            return true;
        }
        if let Some(untold) = self.keys.get_mut(&key) {
            untold.merge = stronger(untold.merge, merge);
            change(&mut untold.counted);
            return true;
        }
        let has_room = self.keys.len() < self.entries_max.saturating_mul(UNTOLD_PER_ENTRY);
        if has_room {
            let mut counted = vec![0; self.words].into_boxed_slice();
            change(&mut counted);
            self.keys.insert(key, UntoldKey { merge, counted });
        }
        has_room
    }
}

/// Of two ways to tell a key the one that loses nothing.
fn stronger(one: CountsMerge, other: CountsMerge) -> CountsMerge {
    if one as u8 >= other as u8 { one } else { other }
}

/// Where an entry has what is counted.
pub(super) fn counted_at(stored: StoredCounter, start: usize) -> usize {
    start + usize::from(stored.counter.is_rate())
}

const _: () = assert!(sliding_rate::WORDS == 3, "the events of a rate are its second number");
