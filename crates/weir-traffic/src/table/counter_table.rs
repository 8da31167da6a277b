//! The table that all workers share. A key is 64 bits of a hash that clients cannot predict; its part of the table has a lock of its own, held for some
//! instructions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::counter::{StoredCounter, TableCounter};
use super::entries::{Entries, EntryPlace};
use super::sharing::{UntoldCounts, counted_at};
use super::sliding_rate;

/// Parts of a large table: many more than workers that ask at the same moment.
const PARTS_MAX: usize = 64;

/// Keys that a part is for at least, so that keys spread evenly enough over parts.
const KEYS_PER_PART: usize = 1024;

/// Bytes of the text of a key that are kept, for operators.
const TEXT_MAX: usize = 96;

/// The table.
#[derive(Debug)]
pub struct CounterTable {
    pub(super) parts: Box<[Mutex<CountedPart>]>,
    /// The counters, and where the numbers of each begin.
    pub(super) stored: Box<[(StoredCounter, usize)]>,
    pub(super) words: usize,
    pub(super) expire_ms: u64,
    evictions: AtomicU64,
    untracked: AtomicU64,
}

/// A part of the table.
#[derive(Debug)]
pub(super) struct CountedPart {
    pub(super) entries: Entries,
    /// What other nodes do not know yet; `None`: the table is of this node alone.
    pub(super) untold: Option<Box<UntoldCounts>>,
}

impl CountedPart {
    /// Notes for other nodes that a key was used.
    fn tell_use(&mut self, key: u64) {
        if let Some(untold) = &mut self.untold {
            untold.use_key(key);
        }
    }

    /// Counts for the entry in this place, and for other nodes.
    fn count(
        &mut self,
        (key, at): (u64, u32),
        (stored, start): (StoredCounter, usize),
        count: u64,
        now_ms: u64,
    ) {
        add(self.entries.words_mut(at), stored, start, count, now_ms);
        if let Some(untold) = &mut self.untold {
            untold.count(key, counted_at(stored, start), count);
        }
    }

    /// Notes for other nodes that a key was changed by an operator.
    fn tell_change(&mut self, key: u64) {
        if let Some(untold) = &mut self.untold {
            untold.replace(key);
        }
    }
}

/// What an exchange has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExchangeResult {
    /// The status of the response; 0 without one.
    pub status: u16,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
}

/// An entry, for operators and for another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The hash of the key.
    pub key: u64,
    /// The beginning of its text.
    pub text: Vec<u8>,
    /// Exchanges that are open.
    pub in_use: u32,
    /// How long ago it was used.
    pub idle_ms: u64,
    /// The counters, in the order in which the table stores them.
    pub values: Vec<u64>,
    /// What they are made of: where periods began is told from now, in milliseconds.
    pub words: Vec<u64>,
}

impl CounterTable {
    /// A table of these counters for about `keys_max` keys, each of which is forgotten when it was not used for `expire`.
    pub fn new(stored: &[StoredCounter], keys_max: usize, expire: Duration) -> Self {
        let mut words = 0;
        let place = |one: &StoredCounter| {
            let start = words;
            words += match one.counter {
                TableCounter::ConnectionsNow => 0,
                rate if rate.is_rate() => sliding_rate::WORDS,
                _ => 1,
            };
            (*one, start)
        };
        let stored: Box<[_]> = stored.iter().map(place).collect();
        let parts = (keys_max / KEYS_PER_PART).clamp(1, PARTS_MAX);
        let parts = if parts.is_power_of_two() { parts } else { parts.next_power_of_two() / 2 };
        let of_part = keys_max.div_ceil(parts);
        Self {
            parts: (0..parts)
                .map(|_| Mutex::new(CountedPart { entries: Entries::new(of_part, words), untold: None }))
                .collect(),
            stored,
            words,
            expire_ms: u64::try_from(expire.as_millis()).unwrap_or(u64::MAX),
            evictions: AtomicU64::new(0),
            untracked: AtomicU64::new(0),
        }
    }

    /// Counts the beginning of an exchange. Whether its key has an entry now, which stays until [`finish`](Self::finish): without one, all entries
    /// are in use by other exchanges.
    #[must_use = "what is tracked has to be finished"]
    pub fn begin(&self, key: u64, is_request: bool, now_ms: u64, text: impl FnOnce() -> Vec<u8>) -> bool {
        let mut part = self.part(key);
        let Some(at) = self.entry_for(&mut part.entries, key, now_ms, text) else { return false };
        part.entries.hold(at);
        part.entries.touch(at, now_ms);
        part.tell_use(key);
        for stored in &self.stored {
            let counts = match stored.0.counter {
                TableCounter::Connections | TableCounter::ConnectionRate => true,
                TableCounter::Requests | TableCounter::RequestRate => is_request,
                _ => false,
            };
            if counts {
                part.count((key, at), *stored, 1, now_ms);
            }
        }
        true
    }

    /// Counts the end of an exchange that has begun with an entry.
    pub fn finish(&self, key: u64, result: ExchangeResult, now_ms: u64) {
        let mut part = self.part(key);
        let Some(at) = part.entries.find(key) else {
            debug_assert!(false, "an entry in use stays");
            return;
        };
        for stored in &self.stored {
            let count = match stored.0.counter {
                TableCounter::Errors | TableCounter::ErrorRate => {
                    u64::from(matches!(result.status, 400..=499))
                }
                TableCounter::Failures | TableCounter::FailureRate => {
                    u64::from(matches!(result.status, 500 | 502..=504 | 506..=599))
                }
                TableCounter::BytesIn | TableCounter::BytesInRate => result.bytes_in,
                TableCounter::BytesOut | TableCounter::BytesOutRate => result.bytes_out,
                _ => 0,
            };
            if count > 0 {
                part.count((key, at), *stored, count, now_ms);
            }
        }
        part.entries.let_go(at);
        part.entries.touch(at, now_ms);
    }

    /// Raises a general purpose counter of a key that has an entry, and its rate.
    pub fn increment(&self, key: u64, counters: [TableCounter; 2], now_ms: u64) {
        let mut part = self.part(key);
        let Some(at) = part.entries.find(key) else { return };
        let raised = self.stored.iter().filter(|(stored, _)| counters.contains(&stored.counter));
        raised.for_each(|stored| part.count((key, at), *stored, 1, now_ms));
        part.entries.touch(at, now_ms);
    }

    /// A counter of a key; 0 without an entry, and of what the table does not store. Does not count as use.
    pub fn value(&self, key: u64, counter: TableCounter, now_ms: u64) -> u64 {
        let Some((stored, start)) = self.stored(counter) else { return 0 };
        let mut part = self.part(key);
        if let Some(untold) = &mut part.untold {
            untold.ask(key);
        }
        let entries = &part.entries;
        match entries.find(key).filter(|at| !self.has_expired(entries, *at, now_ms)) {
            Some(at) => read(entries, at, (stored, start), now_ms),
            None => 0,
        }
    }

    /// Sets a counter of a key, which gets an entry if it has none; `false` where the table has no room, or the counter is a count of what is open.
    /// A rate begins its period with the value.
    pub fn set(
        &self,
        key: u64,
        (counter, value): (TableCounter, u64),
        now_ms: u64,
        text: impl FnOnce() -> Vec<u8>,
    ) -> bool {
        let stored =
            self.stored(counter).filter(|(stored, _)| stored.counter != TableCounter::ConnectionsNow);
        let Some((stored, start)) = stored else { return false };
        let mut part = self.part(key);
        let Some(at) = self.entry_for(&mut part.entries, key, now_ms, text) else { return false };
        let words = part.entries.words_mut(at);
        match stored.counter.is_rate() {
            true => words[start..start + sliding_rate::WORDS].copy_from_slice(&[now_ms, value, 0]),
            false => words[start] = value,
        }
        part.entries.touch(at, now_ms);
        part.tell_change(key);
        true
    }

    /// Forgets what was counted for a key; an entry in use stays, with zeros. Whether it had an entry.
    pub fn clear(&self, key: u64) -> bool {
        let mut part = self.part(key);
        part.tell_change(key);
        let entries = &mut part.entries;
        let Some(at) = entries.find(key) else { return false };
        match entries.entry(at).in_use {
            0 => entries.remove(at),
            _ => entries.words_mut(at).fill(0),
        }
        true
    }

    /// The entries that have not expired; part by part, so that no lock is held for long.
    pub fn entries(&self, now_ms: u64) -> Vec<TableEntry> {
        let mut all = Vec::new();
        for part in &self.parts {
            let entries = &lock(part).entries;
            let alive = entries.places().filter(|at| !self.has_expired(entries, *at, now_ms));
            all.extend(alive.map(|at| self.shown(entries, at, now_ms)));
        }
        all
    }

    fn shown(&self, entries: &Entries, at: u32, now_ms: u64) -> TableEntry {
        let (entry, mut words) = (entries.entry(at), entries.words(at).to_vec());
        for (stored, start) in self.stored.iter().filter(|(stored, _)| stored.counter.is_rate()) {
            debug_assert!(stored.period_ms > 0, "a rate has a period");
            words[*start] = now_ms.saturating_sub(words[*start]);
        }
        TableEntry {
            key: entry.key,
            text: entry.text.to_vec(),
            in_use: entry.in_use,
            idle_ms: now_ms.saturating_sub(entry.used_ms),
            values: self.stored.iter().map(|stored| read(entries, at, *stored, now_ms)).collect(),
            words,
        }
    }

    /// Goes on with an entry of another process, so many milliseconds after that has told it; exchanges that are open there do not count here.
    pub fn resume(&self, entry: &TableEntry, later_ms: u64, now_ms: u64) {
        let idle_ms = entry.idle_ms.saturating_add(later_ms);
        if entry.words.len() != self.words || idle_ms >= self.expire_ms {
            return;
        }
        let entries = &mut self.part(entry.key).entries;
        let at = match entries.find_or_insert(entry.key, None, || kept_text(entry.text.clone())) {
            EntryPlace::New(at) => at,
            EntryPlace::Known(_) | EntryPlace::Evicted(_) | EntryPlace::Full => return,
        };
        entries.touch(at, now_ms.saturating_sub(idle_ms));
        let words = entries.words_mut(at);
        words.copy_from_slice(&entry.words);
        for (_, start) in self.stored.iter().filter(|(stored, _)| stored.counter.is_rate()) {
            words[*start] = now_ms.saturating_sub(words[*start].saturating_add(later_ms));
        }
    }

    /// The counters that it stores.
    pub fn counters(&self) -> impl Iterator<Item = StoredCounter> {
        self.stored.iter().map(|(stored, _)| *stored)
    }

    /// How many keys have an entry.
    pub fn keys(&self) -> usize {
        self.parts.iter().map(|part| lock(part).entries.len()).sum()
    }

    /// Keys that were forgotten before they had expired, to make room.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Exchanges that were not counted, since all entries were in use.
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }

    pub(super) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    fn stored(&self, counter: TableCounter) -> Option<(StoredCounter, usize)> {
        self.stored.iter().copied().find(|(stored, _)| stored.counter == counter)
    }

    pub(super) fn has_expired(&self, entries: &Entries, at: u32, now_ms: u64) -> bool {
        let entry = entries.entry(at);
        entry.in_use == 0 && now_ms.saturating_sub(entry.used_ms) >= self.expire_ms
    }

    fn entry_for(
        &self,
        entries: &mut Entries,
        key: u64,
        now_ms: u64,
        text: impl FnOnce() -> Vec<u8>,
    ) -> Option<u32> {
        let expired_ms = now_ms.checked_sub(self.expire_ms);
        match entries.find_or_insert(key, expired_ms, || kept_text(text())) {
            EntryPlace::Known(at) | EntryPlace::New(at) => Some(at),
            EntryPlace::Evicted(at) => {
                self.count_eviction();
                Some(at)
            }
            EntryPlace::Full => {
                self.untracked.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Bits from the middle: the map of a part uses those at both ends.
    pub(super) fn part(&self, key: u64) -> MutexGuard<'_, CountedPart> {
        lock(&self.parts[(key >> 32) as usize & (self.parts.len() - 1)])
    }
}

fn kept_text(mut text: Vec<u8>) -> Box<[u8]> {
    text.truncate(TEXT_MAX);
    text.into_boxed_slice()
}

pub(super) fn add(words: &mut [u64], stored: StoredCounter, start: usize, count: u64, now_ms: u64) {
    match stored.counter.is_rate() {
        true => {
            sliding_rate::add(
                &mut words[start..start + sliding_rate::WORDS],
                stored.period_ms,
                count,
                now_ms,
            );
        }
        false => words[start] = words[start].saturating_add(count),
    }
}

fn read(entries: &Entries, at: u32, (stored, start): (StoredCounter, usize), now_ms: u64) -> u64 {
    let words = entries.words(at);
    match stored.counter {
        TableCounter::ConnectionsNow => entries.entry(at).in_use.into(),
        rate if rate.is_rate() => {
            sliding_rate::read(&words[start..start + sliding_rate::WORDS], stored.period_ms, now_ms)
        }
        _ => words[start],
    }
}

/// The entries are consistent after every step, so a panic elsewhere while they were locked spoils nothing.
pub(super) fn lock(part: &Mutex<CountedPart>) -> MutexGuard<'_, CountedPart> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
