//! The entries of one part of a table: found by key, and in the order in which they were used last.
//!
//! An entry that is in use (an exchange that it counts is open) is in no order: it is neither evicted nor does it expire. So the oldest unused one is
//! always the first of the order, and found without a search.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// No place.
const NONE: u32 = u32::MAX;

/// Keys are hashes already.
type KeyIndex = HashMap<u64, u32, BuildHasherDefault<KeyAsHash>>;

/// The entries.
#[derive(Debug)]
pub(super) struct Entries {
    index: KeyIndex,
    entries: Vec<CountedKey>,
    /// The counters of all entries, those of each in a row.
    words: Vec<u64>,
    words_per_entry: usize,
    entries_max: usize,
    /// The unused entry that was used longest ago, and the one that was used last.
    oldest: u32,
    newest: u32,
    /// Places of entries that are gone, chained by `next`.
    vacant: u32,
}

/// An entry but for its counters.
#[derive(Debug)]
pub(super) struct CountedKey {
    pub(super) key: u64,
    pub(super) used_ms: u64,
    /// Exchanges that are open.
    pub(super) in_use: u32,
    previous: u32,
    next: u32,
    pub(super) text: Box<[u8]>,
}

/// What became of a wish for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryPlace {
    Known(u32),
    New(u32),
    /// In place of another one.
    Evicted(u32),
    /// All are in use.
    Full,
}

impl Entries {
    pub(super) fn new(entries_max: usize, words_per_entry: usize) -> Self {
        Self {
            index: KeyIndex::default(),
            entries: Vec::new(),
            words: Vec::new(),
            words_per_entry,
            entries_max: entries_max.clamp(1, NONE as usize - 1),
            oldest: NONE,
            newest: NONE,
            vacant: NONE,
        }
    }

    /// The place of a key.
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.index.get(&key).copied()
    }

    /// The place of a key, which gets one if it has none: an empty one, or that of the oldest unused entry. Entries that were used before
    /// `expired_ms` make room first.
    pub(super) fn find_or_insert(
        &mut self,
        key: u64,
        expired_ms: Option<u64>,
        text: impl FnOnce() -> Box<[u8]>,
    ) -> EntryPlace {
        if let Some(at) = self.find(key) {
            let entry = &self.entries[at as usize];
            if entry.in_use == 0 && expired_ms.is_some_and(|expired| entry.used_ms <= expired) {
                self.words_mut(at).fill(0);
            }
            if self.entries[at as usize].text.is_empty() {
                // Other nodes have counted it before, without its text.
                self.entries[at as usize].text = text();
            }
            return EntryPlace::Known(at);
        }
        // Two for each that comes: what has expired never piles up.
        for _ in 0..2 {
            if let Some(at) = self.oldest_before(expired_ms) {
                self.remove(at);
            }
        }
        let is_full = self.index.len() >= self.entries_max;
        if is_full {
            match self.oldest {
                NONE => return EntryPlace::Full,
                at => self.remove(at),
            }
        }
        let at = self.take_place(key, text());
        self.index.insert(key, at);
        self.append(at);
        if is_full { EntryPlace::Evicted(at) } else { EntryPlace::New(at) }
    }

    fn oldest_before(&self, expired_ms: Option<u64>) -> Option<u32> {
        let oldest = self.entries.get(self.oldest as usize)?;
        expired_ms.is_some_and(|expired| oldest.used_ms <= expired).then_some(self.oldest)
    }

    fn take_place(&mut self, key: u64, text: Box<[u8]>) -> u32 {
        let entry = CountedKey { key, used_ms: 0, in_use: 0, previous: NONE, next: NONE, text };
        if self.vacant == NONE {
            self.entries.push(entry);
            self.words.resize(self.entries.len() * self.words_per_entry, 0);
            return u32::try_from(self.entries.len() - 1).expect("the bound of entries is smaller");
        }
        let at = self.vacant;
        self.vacant = self.entries[at as usize].next;
        self.entries[at as usize] = entry;
        self.words_mut(at).fill(0);
        at
    }

    /// Removes an unused entry.
    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        debug_assert_eq!(entry.in_use, 0, "an entry in use stays");
        let key = entry.key;
        entry.text = Box::default();
        entry.next = self.vacant;
        self.vacant = at;
        self.index.remove(&key);
    }

    /// Notes that an entry is used now.
    pub(super) fn touch(&mut self, at: u32, now_ms: u64) {
        let entry = &mut self.entries[at as usize];
        entry.used_ms = entry.used_ms.max(now_ms);
        if entry.in_use == 0 && at != self.newest {
            self.unlink(at);
            self.append(at);
        }
    }

    /// One more exchange uses it.
    pub(super) fn hold(&mut self, at: u32) {
        if self.entries[at as usize].in_use == 0 {
            self.unlink(at);
        }
        let in_use = &mut self.entries[at as usize].in_use;
        *in_use = in_use.saturating_add(1);
    }

    /// One fewer.
    pub(super) fn let_go(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        debug_assert!(entry.in_use > 0, "let go more often than held");
        entry.in_use = entry.in_use.saturating_sub(1);
        if entry.in_use == 0 {
            self.append(at);
        }
    }

    fn append(&mut self, at: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.previous, entry.next) = (newest, NONE);
        match self.entries.get_mut(newest as usize) {
            Some(newest) => newest.next = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let CountedKey { previous, next, .. } = self.entries[at as usize];
        match self.entries.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.oldest = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.newest = previous,
        }
    }

    pub(super) fn entry(&self, at: u32) -> &CountedKey {
        &self.entries[at as usize]
    }

    pub(super) fn words(&self, at: u32) -> &[u64] {
        let start = at as usize * self.words_per_entry;
        &self.words[start..start + self.words_per_entry]
    }

    pub(super) fn words_mut(&mut self, at: u32) -> &mut [u64] {
        let start = at as usize * self.words_per_entry;
        &mut self.words[start..start + self.words_per_entry]
    }

    /// The places of all entries.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.index.values().copied()
    }

    pub(super) fn entries_max(&self) -> usize {
        self.entries_max
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    #[cfg(test)]
    pub(super) fn places_taken(&self) -> usize {
        self.entries.len()
    }
}

#[derive(Debug, Default)]
pub(super) struct KeyAsHash(u64);

impl Hasher for KeyAsHash {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = crate::hash::mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
