//! Keys and the numbers of their values: a lookup reads one cache line, however many keys there are.
//!
//! No key is here as a text: 96 bits of its hash under a random key tell it apart. A text that is no key is taken for one with a probability of the
//! number of keys by 2^96, which for a million is 2^-76, and without the random key nothing does better than chance.

use std::hash::{BuildHasher as _, RandomState};

use siphasher::sip128::SipHasher13;

/// Slots of a bucket: as many as a cache line has room for.
const SLOTS: usize = 4;

/// Of so many slots, as many as [`FILLED_MAX`] are in use at most: then few buckets are full, and a lookup ends in its first bucket nearly always.
const SLOTS_UNIT: usize = 4;
const FILLED_MAX: usize = 3;

/// The largest number that a key can have.
pub(super) const NUMBER_MAX: u32 = u32::MAX - 1;

/// A map from texts to numbers that does not keep the texts.
pub(super) struct KeyTable {
    hasher: SipHasher13,
    buckets: Vec<KeySlots>,
    len: usize,
}

/// Keys that begin their search in the same place, or in one before it that was full. Slots in use stand before those that are not.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct KeySlots {
    low: [u64; SLOTS],
    high: [u32; SLOTS],
    /// The number of a key and one; 0 where there is none.
    numbers: [u32; SLOTS],
}

const _: () = assert!(size_of::<KeySlots>() == 64);

/// What tells a key from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyHash {
    low: u64,
    high: u32,
}

/// Why a key cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRefused {
    /// It is there already.
    Known,
    /// Its number is above [`NUMBER_MAX`].
    Full,
}

impl Default for KeyTable {
    fn default() -> Self {
        let [first, second] = [0, 1].map(|half| RandomState::new().hash_one(half));
        Self { hasher: SipHasher13::new_with_keys(first, second), buckets: Vec::new(), len: 0 }
    }
}

impl std::fmt::Debug for KeyTable {
    /// Without the random key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyTable").field("len", &self.len).finish_non_exhaustive()
    }
}

impl KeySlots {
    const EMPTY: Self = Self { low: [0; SLOTS], high: [0; SLOTS], numbers: [0; SLOTS] };

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<u32> {
        let is_at =
            |at: &usize| self.low[*at] == hash.low && self.high[*at] == hash.high && self.numbers[*at] != 0;
        (0..SLOTS).find(is_at).map(|at| self.numbers[at] - 1)
    }

    fn is_full(&self) -> bool {
        self.numbers[SLOTS - 1] != 0
    }

    /// Whether there was room.
    fn push(&mut self, hash: KeyHash, number: u32) -> bool {
        let Some(at) = self.numbers.iter().position(|number| *number == 0) else { return false };
        (self.low[at], self.high[at], self.numbers[at]) = (hash.low, hash.high, number + 1);
        true
    }

    fn keys(&self) -> impl Iterator<Item = (KeyHash, u32)> {
        let slots = (0..SLOTS).take_while(|at| self.numbers[*at] != 0);
        slots.map(|at| (KeyHash { low: self.low[at], high: self.high[at] }, self.numbers[at] - 1))
    }
}

impl KeyTable {
    /// The number of a key.
    #[inline]
    pub(super) fn get(&self, text: &[u8]) -> Option<u32> {
        if self.len == 0 { None } else { self.find(self.hash(text)) }
    }

    /// Adds a key.
    ///
    /// # Errors
    /// When it is there already, or its number is too large.
    pub(super) fn insert(&mut self, text: &[u8], number: u32) -> Result<(), KeyRefused> {
        if number > NUMBER_MAX {
            return Err(KeyRefused::Full);
        }
        let hash = self.hash(text);
        if self.find(hash).is_some() {
            return Err(KeyRefused::Known);
        }
        if buckets_for(self.len + 1) > self.buckets.len() {
            self.resize(buckets_for(self.len * 2 + 1));
        }
        self.place(hash, number);
        self.len += 1;
        Ok(())
    }

    /// Makes room for so many more keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        let buckets = buckets_for(self.len + keys);
        if buckets > self.buckets.len() {
            self.resize(buckets);
        }
    }

    /// Gives back what is not needed once all keys are there, where that is more than an eighth.
    pub(super) fn shrink(&mut self) {
        let buckets = buckets_for(self.len);
        if self.buckets.len() > buckets + buckets / 8 {
            self.resize(buckets);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that it takes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<KeySlots>()
    }

    #[inline]
    fn hash(&self, text: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(text);
        KeyHash { low: hash.h1, high: hash.h2 as u32 }
    }

    /// Where the search for a key begins: the upper bits of its hash as a fraction of the buckets.
    #[inline]
    fn home(&self, hash: KeyHash) -> usize {
        ((u128::from(hash.low) * self.buckets.len() as u128) >> 64) as usize
    }

    /// The buckets in which a key can be, in their order.
    #[inline]
    fn chain(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<> {
        let home = self.home(hash);
        (home..self.buckets.len()).chain(0..home)
    }

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<u32> {
        for at in self.chain(hash) {
            let bucket = &self.buckets[at];
            let found = bucket.find(hash);
            if found.is_some() || !bucket.is_full() {
                return found;
            }
        }
        None
    }

    /// Puts a key into the first bucket of its chain that has room; there is one.
    fn place(&mut self, hash: KeyHash, number: u32) {
        let is_placed = self.chain(hash).any(|at| self.buckets[at].push(hash, number));
        debug_assert!(is_placed, "a quarter of the slots is empty");
    }

    /// Goes on with so many buckets. They are filled in their order, which hashes keep.
    fn resize(&mut self, buckets: usize) {
        let before = std::mem::replace(&mut self.buckets, vec![KeySlots::EMPTY; buckets]);
        for (hash, number) in before.iter().flat_map(KeySlots::keys) {
            self.place(hash, number);
        }
    }
}

/// The number of buckets for so many keys.
const fn buckets_for(keys: usize) -> usize {
    (keys * SLOTS_UNIT).div_ceil(FILLED_MAX * SLOTS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A table of keys whose hashes are given, so that they meet.
    fn table_of(hashes: &[KeyHash]) -> KeyTable {
        let mut table = KeyTable::default();
        table.reserve(hashes.len());
        for (number, hash) in hashes.iter().enumerate() {
            table.place(*hash, number as u32);
            table.len += 1;
        }
        table
    }

    #[test]
    fn keys_that_meet_in_one_place_are_told_apart() {
        // All begin their search in the last bucket, and go on in the first one.
        for count in [1, 3, 4, 5, 9, 30] {
            let hash = |number: u64| KeyHash { low: u64::MAX - number % 2, high: number as u32 / 2 };
            let hashes: Vec<KeyHash> = (0..count).map(hash).collect();
            let table = table_of(&hashes);
            assert!(table.buckets.len() * SLOTS > hashes.len());
            for (number, hash) in hashes.iter().enumerate() {
                assert_eq!(table.find(*hash), Some(number as u32), "{number} of {count}");
            }
            assert_eq!(table.find(hash(count)), None);
            assert_eq!(table.find(KeyHash { low: 0, high: 0 }), None);
        }
    }

    #[test]
    fn an_empty_slot_is_no_key() {
        let zero = KeyHash { low: 0, high: 0 };
        let table = table_of(&[KeyHash { low: 0, high: 1 }]);
        assert_eq!(table.find(zero), None);
        assert_eq!(table_of(&[zero]).find(zero), Some(0));
        assert_eq!(KeyTable::default().get(b""), None);
    }

    #[test]
    fn a_table_grows_and_shrinks_with_all_its_keys() {
        let mut table = KeyTable::default();
        let key = |number: u32| format!("key {number}").into_bytes();
        table.reserve(100);
        for number in 0..5_000 {
            assert_eq!(table.insert(&key(number), number), Ok(()));
            assert_eq!(table.insert(&key(number / 2), 1), Err(KeyRefused::Known));
            assert!(table.len() * SLOTS_UNIT <= table.buckets.len() * SLOTS * FILLED_MAX);
        }
        table.reserve(100_000);
        table.shrink();
        assert!(table.heap_bytes() <= 5_000 * 16 * 4 / 3 * 9 / 8 + 64, "{}", table.heap_bytes());
        for number in 0..5_000 {
            assert_eq!(table.get(&key(number)), Some(number));
        }
        assert_eq!((table.get(&key(5_000)), table.len()), (None, 5_000));
        assert_eq!(table.insert(b"x", NUMBER_MAX), Ok(()));
        assert_eq!(table.get(b"x"), Some(NUMBER_MAX));
        assert_eq!(table.insert(b"y", NUMBER_MAX + 1), Err(KeyRefused::Full));
    }

    #[test]
    fn hashes_depend_on_a_key_of_the_table() {
        let (one, other) = (KeyTable::default(), KeyTable::default());
        assert_ne!(one.hash(b"a"), other.hash(b"a"));
        assert_eq!(one.hash(b"a"), one.hash(b"a"));
    }

    proptest! {
        /// It finds what a map of the standard library finds, be keys empty, binary, or one the beginning of another.
        #[test]
        fn it_is_as_a_map(
            keys in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab\0\xff"), 0..6), 0..200),
            reserved in 0_usize..50,
        ) {
            let (mut table, mut known) = (KeyTable::default(), HashMap::new());
            table.reserve(reserved);
            for (number, key) in keys.iter().enumerate() {
                let number = number as u32;
                let is_new = !known.contains_key(key);
                prop_assert_eq!(table.insert(key, number).is_ok(), is_new);
                known.entry(key).or_insert(number);
                for asked in keys.iter().take(20) {
                    prop_assert_eq!(table.get(asked), known.get(asked).copied());
                }
            }
            table.shrink();
            for key in &keys {
                prop_assert_eq!(table.get(key), known.get(key).copied());
            }
            prop_assert_eq!(table.len(), known.len());
        }
    }
}
