//! Which server gave out which cookie: a bounded table that all workers share without a lock.
//!
//! Buckets of eight entries; a new key replaces the entry of its bucket that was unused longest. An entry is two
//! words. A writer claims the entry by its key first, and a reader compares the key before and after reading the server, so
//! that no reader pairs one key with the server of another; two writers of the same entry do not wait for each other: one
//! of them is not remembered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::server::ServerId;

/// Entries that a key can be in.
const BUCKET: usize = 8;

/// The key of an entry that holds nothing.
const EMPTY: u64 = 0;

/// The key of an entry that is being written.
const CLAIMED: u64 = 1;

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedLimits {
    /// Cookies, rounded up to a multiple of 8; 16 bytes each.
    pub entries_max: usize,
    /// How long a cookie is remembered that no request brings.
    pub idle_max: Duration,
}

#[derive(Debug)]
pub(super) struct LearnedCookies {
    entries: Box<[LearnedCookie]>,
    idle_max_s: u32,
}

#[derive(Debug, Default)]
struct LearnedCookie {
    key: AtomicU64,
    /// The server in the upper half, the second it was last used in the lower.
    word: AtomicU64,
}

impl LearnedCookies {
    pub(super) fn new(limits: LearnedLimits) -> LearnedCookies {
        let buckets = limits.entries_max.div_ceil(BUCKET).max(1);
        LearnedCookies {
            entries: (0..buckets * BUCKET).map(|_| LearnedCookie::default()).collect(),
            idle_max_s: u32::try_from(limits.idle_max.as_secs()).unwrap_or(u32::MAX),
        }
    }

    /// The server that gave out `key`, which counts as used now.
    pub(super) fn lookup(&self, key: u64, now_s: u32) -> Option<ServerId> {
        let key = usable(key);
        let entry = self.bucket(key).iter().find(|entry| entry.key.load(Ordering::Acquire) == key)?;
        let word = entry.word.load(Ordering::Acquire);
        if entry.key.load(Ordering::Acquire) != key || self.is_over(word, now_s) {
            return None;
        }
        let server = (word >> 32) as u32;
        if word as u32 != now_s {
            let _newer =
                entry.word.compare_exchange(word, pack(server, now_s), Ordering::AcqRel, Ordering::Relaxed);
        }
        Some(ServerId(server))
    }

    /// Remembers which server gave out `key`.
    pub(super) fn insert(&self, key: u64, server: ServerId, now_s: u32) {
        let key = usable(key);
        let bucket = self.bucket(key);
        let known = bucket.iter().find(|entry| entry.key.load(Ordering::Acquire) == key);
        let silent = |entry: &&LearnedCookie| match entry.key.load(Ordering::Acquire) {
            EMPTY => u32::MAX,
            CLAIMED => 0,
            _ => now_s.wrapping_sub(entry.word.load(Ordering::Relaxed) as u32).saturating_add(1),
        };
        let Some(entry) = known.or_else(|| bucket.iter().max_by_key(silent)) else { return };
        let before = entry.key.load(Ordering::Acquire);
        let claimed = before != CLAIMED
            && entry.key.compare_exchange(before, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if claimed {
            entry.word.store(pack(server.0, now_s), Ordering::Release);
            entry.key.store(key, Ordering::Release);
        }
    }

    /// All that is remembered.
    pub(super) fn all(&self, now_s: u32) -> Vec<(u64, ServerId)> {
        let entry = |entry: &LearnedCookie| {
            let (key, word) = (entry.key.load(Ordering::Acquire), entry.word.load(Ordering::Acquire));
            let is_whole = key > CLAIMED && entry.key.load(Ordering::Acquire) == key;
            (is_whole && !self.is_over(word, now_s)).then_some((key, ServerId((word >> 32) as u32)))
        };
        self.entries.iter().filter_map(entry).collect()
    }

    fn bucket(&self, key: u64) -> &[LearnedCookie] {
        let buckets = self.entries.len() / BUCKET;
        let bucket = ((u128::from(key) * buckets as u128) >> 64) as usize;
        &self.entries[bucket * BUCKET..][..BUCKET]
    }

    fn is_over(&self, word: u64, now_s: u32) -> bool {
        now_s.saturating_sub(word as u32) > self.idle_max_s
    }
}

/// A key that is none of the marks.
const fn usable(key: u64) -> u64 {
    if key <= CLAIMED { key + 2 } else { key }
}

const fn pack(server: u32, now_s: u32) -> u64 {
    (server as u64) << 32 | now_s as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries_max: usize) -> LearnedCookies {
        LearnedCookies::new(LearnedLimits { entries_max, idle_max: Duration::from_secs(100) })
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let table = table(8);
        assert_eq!(table.lookup(7, 0), None);
        for key in 0..8 {
            table.insert(key, ServerId(key as u32), 0);
        }
        assert_eq!(table.lookup(3, 90), Some(ServerId(3)));
        assert_eq!(table.lookup(3, 190), Some(ServerId(3)), "used at 90");
        assert_eq!(table.lookup(4, 101), None);
        table.insert(3, ServerId(9), 191);
        assert_eq!(table.lookup(3, 191), Some(ServerId(9)));
        for key in 100..107 {
            table.insert(key, ServerId(1), 191);
        }
        assert_eq!(table.lookup(3, 191), Some(ServerId(9)), "the silent ones made room");
        assert!((100..107).all(|key| table.lookup(key, 191) == Some(ServerId(1))));
    }

    #[test]
    fn another_table_goes_on() {
        let (before, after) = (table(64), table(8));
        before.insert(7, ServerId(1), 0);
        before.insert(8, ServerId(2), 50);
        before.insert(0, ServerId(3), 60);
        let mut all = before.all(120);
        all.sort_unstable_by_key(|(_, server)| server.0);
        assert_eq!(all, [(8, ServerId(2)), (2, ServerId(3))], "the first is forgotten by now");
        all.into_iter().for_each(|(key, server)| after.insert(key, server, 5));
        assert_eq!(
            (after.lookup(8, 6), after.lookup(0, 6), after.lookup(7, 6)),
            (Some(ServerId(2)), Some(ServerId(3)), None)
        );
    }

    #[test]
    fn it_never_grows() {
        let table = table(1_000);
        for key in 0..100_000_u64 {
            table.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), ServerId(0), (key / 1_000) as u32);
        }
        assert_eq!(table.entries.len(), 1_000);
        let kept = (99_000..100_000_u64)
            .filter(|key| table.lookup(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), 100).is_some())
            .count();
        assert!(kept > 700, "of the last thousand, {kept} are remembered");
    }

    /// Every key has a server that follows from it: no thread may ever see another one.
    #[test]
    fn threads_never_mix_up_entries() {
        let table = table(16);
        let table = &table;
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    for round in 0..50_000_u64 {
                        let number = (round * 7 + thread * 13) % 60;
                        let key = (number << 58) | (number + 5);
                        let server = ServerId((key & 0xff) as u32);
                        if round % 3 == 0 {
                            table.insert(key, server, round as u32);
                        } else if let Some(found) = table.lookup(key, round as u32) {
                            assert_eq!(found, server);
                        }
                    }
                });
            }
        });
    }
}
