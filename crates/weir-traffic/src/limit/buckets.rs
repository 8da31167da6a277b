//! The buckets of all keys of a limit: a table of fixed size.
//!
//! A bucket is one number, the time at which it will be full again (the generic cell rate algorithm, ITU-T I.371). When more keys come
//! than the table holds, the fullest bucket is replaced: a key that has hardly used its own loses next to nothing, and no key is refused because
//! of others.
//!
//! A key is 64 bits of a hash that clients cannot predict. Each set of buckets has a lock of its own beside them on the same cache lines, held for
//! some instructions: threads meet on it only when they ask for keys of one set at the same moment. Must not know what a bucket counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Buckets in a set: with the lock they fill 128 bytes.
const WAYS: usize = 7;

/// Buckets for each key that the table is made for: keys do not spread evenly over the sets.
const BUCKETS_PER_KEY: usize = 3;

/// A set, while it is locked.
pub(super) type LockedSet<'a> = MutexGuard<'a, [TokenBucket; WAYS]>;

/// The table.
#[derive(Debug)]
pub(super) struct BucketTable {
    sets: Box<[BucketSet]>,
    /// Buckets that were replaced before they were full.
    evictions: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct BucketSet(Mutex<[TokenBucket; WAYS]>);

const _: () = assert!(size_of::<BucketSet>() == 128, "a set is two cache lines");

/// The bucket of a key; one whose time has passed is as good as none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TokenBucket {
    key: u64,
    /// When it is full again, in nanoseconds.
    pub(super) full_at_ns: u64,
}

impl BucketTable {
    /// The memory of a table for each key that it is made for.
    pub(super) const BYTES_PER_KEY: usize = (size_of::<BucketSet>() * BUCKETS_PER_KEY).div_ceil(WAYS);

    /// Buckets for about `keys_max` keys at once, taken at once.
    pub(super) fn new(keys_max: usize) -> BucketTable {
        let sets = keys_max.saturating_mul(BUCKETS_PER_KEY).div_ceil(WAYS).max(1);
        BucketTable { sets: (0..sets).map(|_| BucketSet::default()).collect(), evictions: AtomicU64::new(0) }
    }

    /// Locks the set of a key.
    #[inline]
    pub(super) fn lock(&self, key: u64) -> LockedSet<'_> {
        let set = ((u128::from(key) * self.sets.len() as u128) >> 64) as usize;
        lock(&self.sets[set])
    }

    /// The bucket of a key in its set, or the fullest one, emptied of the debt of the key before.
    #[inline]
    pub(super) fn find<'a>(&self, set: &'a mut LockedSet<'_>, key: u64, now_ns: u64) -> &'a mut TokenBucket {
        let key = non_zero(key);
        let own = set.iter().position(|bucket| bucket.key == key);
        let at = own.unwrap_or_else(|| {
            let fullest = (0..WAYS).min_by_key(|&way| set[way].full_at_ns).expect("a set is not empty");
            if set[fullest].full_at_ns > now_ns {
                self.evictions.fetch_add(1, Ordering::Relaxed);
            }
            set[fullest] = TokenBucket { key, full_at_ns: 0 };
            fullest
        });
        &mut set[at]
    }

    /// How many keys have a bucket that is not full.
    pub(super) fn keys(&self, now_ns: u64) -> usize {
        let in_use = |set: &BucketSet| lock(set).iter().filter(|bucket| bucket.full_at_ns > now_ns).count();
        self.sets.iter().map(in_use).sum()
    }

    /// The keys with a bucket that is not full, and when each is.
    pub(super) fn in_use(&self, now_ns: u64) -> Vec<(u64, u64)> {
        let of_set = |set: &BucketSet| {
            let buckets = *lock(set);
            buckets
                .into_iter()
                .filter(move |bucket| bucket.full_at_ns > now_ns)
                .map(|one| (one.key, one.full_at_ns))
        };
        self.sets.iter().flat_map(of_set).collect()
    }

    /// Forgets all keys.
    pub(super) fn clear(&self) {
        self.sets.iter().for_each(|set| *lock(set) = Default::default());
    }

    /// How many buckets there are.
    pub(super) fn buckets(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// How many buckets were replaced before they were full.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }
}

/// The bucket of a key in its set, if it has one.
pub(super) fn known<'a>(set: &'a mut LockedSet<'_>, key: u64) -> Option<&'a mut TokenBucket> {
    set.iter_mut().find(|bucket| bucket.key == non_zero(key))
}

/// The table is consistent after every step, so a panic elsewhere while it was locked spoils nothing.
fn lock(set: &BucketSet) -> LockedSet<'_> {
    set.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A key that no unused bucket has.
const fn non_zero(key: u64) -> u64 {
    if key == 0 { 1 } else { key }
}
