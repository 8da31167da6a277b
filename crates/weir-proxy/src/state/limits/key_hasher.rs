//! Hashes of keys that clients choose, such as addresses and header fields: under a key of its own, so that no client can choose keys that meet
//! in one place of a table. SipHash 1-3, as the maps of the standard library; the key can be handed to another process with the table.

use std::hash::{BuildHasher as _, Hash, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip::SipHasher13;

/// A hash function.
#[derive(Debug)]
pub(in crate::state) struct KeyHasher([AtomicU64; 2]);

impl KeyHasher {
    /// One with a random key.
    pub(in crate::state) fn new() -> Self {
        Self([0, 1].map(|half| AtomicU64::new(RandomState::new().hash_one(half))))
    }

    /// The hash of a key.
    #[inline]
    pub(in crate::state) fn hash_one(&self, key: impl Hash) -> u64 {
        let [first, second] = self.key();
        let mut hasher = SipHasher13::new_with_keys(first, second);
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// Its own key.
    #[inline]
    pub(in crate::state) fn key(&self) -> [u64; 2] {
        [&self.0[0], &self.0[1]].map(|half| half.load(Ordering::Relaxed))
    }

    /// Goes on with the key of another process; nothing may have been hashed yet.
    pub(in crate::state) fn set_key(&self, key: [u64; 2]) {
        self.0.iter().zip(key).for_each(|(half, key)| half.store(key, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_the_key() {
        let (one, other) = (KeyHasher::new(), KeyHasher::new());
        assert_ne!(one.hash_one("a"), other.hash_one("a"));
        other.set_key(one.key());
        assert_eq!(one.hash_one("a"), other.hash_one("a"));
        assert_ne!(one.hash_one("a"), one.hash_one("b"));
    }
}
