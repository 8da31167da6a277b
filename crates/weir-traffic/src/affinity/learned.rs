//! Which server has which key, such as a cookie that it gave out or the id of a session: a bounded table that all workers share without a lock.
//!
//! Keys are kept as hashes, so that a long one takes no more room than a short one. Where clients choose what is hashed, the hash function has a key of its
//! own: no client can choose texts that meet in one bucket.
//!
//! Buckets of eight entries; a new key replaces the entry of its bucket that was unused longest. An entry is two
//! words. A writer claims the entry by its key first, and a reader compares the key before and after reading the server, so
//! that no reader pairs one key with the server of another; two writers of the same entry do not wait for each other: one
//! of them is not remembered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use siphasher::sip::SipHasher13;

use crate::hash::hash_bytes;
use crate::server::ServerId;

/// Entries that a key can be in.
const BUCKET: usize = 8;

/// The key of an entry that holds nothing.
const EMPTY: u64 = 0;

/// The key of an entry that is being written.
const CLAIMED: u64 = 1;

/// In the place of a server that is gone for good: the key is known, and belongs to no server.
const GONE: u32 = u32::MAX;

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedLimits {
    /// Keys, rounded up to a multiple of 8; 16 bytes each.
    pub entries_max: usize,
    /// How long a key is remembered that no request brings.
    pub idle_max: Duration,
}

#[derive(Debug)]
pub(super) struct LearnedServers {
    entries: Box<[LearnedServer]>,
    idle_max_s: u32,
    /// The key of the hash function; zeros for that without one.
    hash_key: [AtomicU64; 2],
}

/// What is known of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LearnedKey {
    /// Nothing: no server has said it, or it was forgotten.
    Unknown,
    /// That it was not used for too long.
    Expired,
    /// That it belonged to a server that is gone.
    Gone,
    /// The server that it belongs to.
    Server(ServerId),
    /// The same; and it was not used for a while, so that others who remember it are to be told that it still is.
    Due(ServerId),
}

impl LearnedKey {
    pub(super) fn server(self) -> Option<ServerId> {
        match self {
            Self::Server(server) | Self::Due(server) => Some(server),
            Self::Unknown | Self::Expired | Self::Gone => None,
        }
    }
}

#[derive(Debug, Default)]
struct LearnedServer {
    key: AtomicU64,
    /// The server in the upper half, the second it was last used in the lower.
    word: AtomicU64,
}

impl LearnedServers {
    pub(super) fn new(limits: LearnedLimits, hash_key: [u64; 2]) -> LearnedServers {
        let buckets = limits.entries_max.div_ceil(BUCKET).max(1);
        LearnedServers {
            entries: (0..buckets * BUCKET).map(|_| LearnedServer::default()).collect(),
            idle_max_s: u32::try_from(limits.idle_max.as_secs()).unwrap_or(u32::MAX),
            hash_key: hash_key.map(AtomicU64::new),
        }
    }

    /// The hash by which a key is kept.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        match self.hash_key() {
            [0, 0] => hash_bytes(key),
            [first, second] => SipHasher13::new_with_keys(first, second).hash(key),
        }
    }

    /// The key of the hash function.
    pub(super) fn hash_key(&self) -> [u64; 2] {
        [&self.hash_key[0], &self.hash_key[1]].map(|half| half.load(Ordering::Relaxed))
    }

    /// Goes on with the hash function of another process; nothing may have been hashed yet.
    pub(super) fn set_hash_key(&self, key: [u64; 2]) {
        self.hash_key.iter().zip(key).for_each(|(half, key)| half.store(key, Ordering::Relaxed));
    }

    /// The server that `key` belongs to; the key counts as used now.
    pub(super) fn lookup(&self, key: u64, now_s: u32) -> LearnedKey {
        let Some((entry, key)) = self.entry(key) else { return LearnedKey::Unknown };
        let word = entry.word.load(Ordering::Acquire);
        if entry.key.load(Ordering::Acquire) != key {
            return LearnedKey::Unknown;
        }
        let server = (word >> 32) as u32;
        if self.is_over(word, now_s) {
            return LearnedKey::Expired;
        }
        if word as u32 != now_s {
            let _newer =
                entry.word.compare_exchange(word, pack(server, now_s), Ordering::AcqRel, Ordering::Relaxed);
        }
        match server {
            GONE => LearnedKey::Gone,
            server if self.is_due(word, now_s) => LearnedKey::Due(ServerId(server)),
            server => LearnedKey::Server(ServerId(server)),
        }
    }

    /// Forgets a key.
    pub(super) fn remove(&self, key: u64) {
        // Two writers at once may have made two entries of it.
        for entry in self.bucket(usable(key)) {
            let _another =
                entry.key.compare_exchange(usable(key), EMPTY, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// These servers are gone, and their places are others': their keys belong to no server.
    pub(super) fn lose(&self, is_lost: impl Fn(ServerId) -> bool) {
        for entry in &self.entries {
            let word = entry.word.load(Ordering::Acquire);
            if is_lost(ServerId((word >> 32) as u32)) && entry.key.load(Ordering::Acquire) > CLAIMED {
                let lost = pack(GONE, word as u32);
                let _newer = entry.word.compare_exchange(word, lost, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Keys that belong to a server now.
    pub(super) fn len(&self, now_s: u32) -> usize {
        self.entries.iter().filter(|entry| self.read(entry, now_s).is_some()).count()
    }

    /// Remembers which server `key` belongs to; whether others who remember it are to be told.
    pub(super) fn insert(&self, key: u64, server: ServerId, now_s: u32) -> bool {
        let key = usable(key);
        let bucket = self.bucket(key);
        let known = bucket.iter().find(|entry| entry.key.load(Ordering::Acquire) == key);
        let is_news = known.is_none_or(|entry| {
            let word = entry.word.load(Ordering::Relaxed);
            (word >> 32) as u32 != server.0 || self.is_due(word, now_s) || self.is_over(word, now_s)
        });
        let silent = |entry: &&LearnedServer| match entry.key.load(Ordering::Acquire) {
            EMPTY => u32::MAX,
            CLAIMED => 0,
            _ => now_s.wrapping_sub(entry.word.load(Ordering::Relaxed) as u32).saturating_add(1),
        };
        let Some(entry) = known.or_else(|| bucket.iter().max_by_key(silent)) else { return false };
        let before = entry.key.load(Ordering::Acquire);
        let claimed = before != CLAIMED
            && entry.key.compare_exchange(before, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if claimed {
            entry.word.store(pack(server.0, now_s), Ordering::Release);
            entry.key.store(key, Ordering::Release);
        }
        is_news
    }

    /// All that is remembered.
    pub(super) fn all(&self, now_s: u32) -> Vec<(u64, ServerId)> {
        self.entries.iter().filter_map(|entry| self.read(entry, now_s)).collect()
    }

    /// The key and the server of an entry that holds both.
    fn read(&self, entry: &LearnedServer, now_s: u32) -> Option<(u64, ServerId)> {
        let (key, word) = (entry.key.load(Ordering::Acquire), entry.word.load(Ordering::Acquire));
        let is_whole = key > CLAIMED && entry.key.load(Ordering::Acquire) == key;
        let server = (word >> 32) as u32;
        (is_whole && server != GONE && !self.is_over(word, now_s)).then_some((key, ServerId(server)))
    }

    /// The entry of a key, and the key as the entry has it.
    fn entry(&self, key: u64) -> Option<(&LearnedServer, u64)> {
        let key = usable(key);
        let entry = self.bucket(key).iter().find(|entry| entry.key.load(Ordering::Acquire) == key)?;
        Some((entry, key))
    }

    fn bucket(&self, key: u64) -> &[LearnedServer] {
        let buckets = self.entries.len() / BUCKET;
        let bucket = ((u128::from(key) * buckets as u128) >> 64) as usize;
        &self.entries[bucket * BUCKET..][..BUCKET]
    }

    /// Whether a quarter of the time for which it is remembered has begun since its last use.
    fn is_due(&self, word: u64, now_s: u32) -> bool {
        let quarter = (self.idle_max_s / 4).max(1);
        word as u32 / quarter != now_s / quarter
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

    fn table(entries_max: usize) -> LearnedServers {
        LearnedServers::new(LearnedLimits { entries_max, idle_max: Duration::from_secs(100) }, [0, 0])
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let table = table(8);
        assert_eq!(table.lookup(7, 0).server(), None);
        for key in 0..8 {
            table.insert(key, ServerId(key as u32), 0);
        }
        assert_eq!(table.lookup(3, 90).server(), Some(ServerId(3)));
        assert_eq!(table.lookup(3, 190).server(), Some(ServerId(3)), "used at 90");
        assert_eq!(table.lookup(4, 101).server(), None);
        table.insert(3, ServerId(9), 191);
        assert_eq!(table.lookup(3, 191).server(), Some(ServerId(9)));
        for key in 100..107 {
            table.insert(key, ServerId(1), 191);
        }
        assert_eq!(table.lookup(3, 191).server(), Some(ServerId(9)), "the silent ones made room");
        assert!((100..107).all(|key| table.lookup(key, 191).server() == Some(ServerId(1))));
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
        for (key, server) in all {
            after.insert(key, server, 5);
        }
        assert_eq!(
            (after.lookup(8, 6).server(), after.lookup(0, 6).server(), after.lookup(7, 6).server()),
            (Some(ServerId(2)), Some(ServerId(3)), None)
        );
    }

    #[test]
    fn what_a_server_leaves_behind_belongs_to_no_other_one() {
        let table = table(64);
        table.insert(7, ServerId(1), 0);
        table.insert(8, ServerId(2), 0);
        table.lose(|server| server == ServerId(1));
        assert_eq!((table.lookup(7, 1), table.lookup(9, 1)), (LearnedKey::Gone, LearnedKey::Unknown));
        assert_eq!(table.lookup(8, 1).server(), Some(ServerId(2)));
        assert_eq!((table.len(1), table.all(1).len()), (1, 1));
        table.insert(7, ServerId(0), 1);
        assert_eq!(table.lookup(7, 1).server(), Some(ServerId(0)));
        table.remove(7);
        assert_eq!((table.lookup(7, 1), table.len(1)), (LearnedKey::Unknown, 1));
        assert_eq!(table.lookup(8, 200), LearnedKey::Expired, "unused for too long");
    }

    #[test]
    fn hashes_depend_on_the_key_of_the_table() {
        let limits = LearnedLimits { entries_max: 8, idle_max: Duration::from_secs(1) };
        let (one, other) = (LearnedServers::new(limits, [1, 2]), LearnedServers::new(limits, [3, 4]));
        assert_ne!(one.hash(b"a"), other.hash(b"a"));
        other.set_hash_key(one.hash_key());
        assert_eq!(one.hash(b"a"), other.hash(b"a"));
        assert_eq!(table(8).hash(b"a"), hash_bytes(b"a"));
    }

    #[test]
    fn it_never_grows() {
        let table = table(1_000);
        for key in 0..100_000_u64 {
            table.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), ServerId(0), (key / 1_000) as u32);
        }
        assert_eq!(table.entries.len(), 1_000);
        let kept = (99_000..100_000_u64)
            .filter(|key| table.lookup(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), 100).server().is_some())
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
                        } else if let Some(found) = table.lookup(key, round as u32).server() {
                            assert_eq!(found, server);
                        }
                    }
                });
            }
        });
    }
}
