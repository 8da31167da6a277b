//! A map from texts of the config, looked up with bytes of a request as they came: no copy, no lower-casing
//! beforehand.
//!
//! The hash is quick and has no random key: all keys of the map come from the config, so only its
//! author can make texts collide, and a request cannot add to it.

use std::fmt;

use hashbrown::HashTable;

/// The bit that tells small ASCII letters from large ones, in eight bytes at once. Set in all of them before
/// hashing, it makes some other bytes alike as well, which costs nothing: texts are compared after that.
const CASE_BITS: u64 = 0x2020_2020_2020_2020;

/// An odd number without pattern: the fraction of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A map with bytes as keys.
pub(super) struct TextMap<V> {
    table: HashTable<(Box<[u8]>, V)>,
    /// [`CASE_BITS`] when case does not matter, else 0.
    case_bits: u64,
}

impl<V> TextMap<V> {
    /// A map in which the case of ASCII letters does not matter.
    pub(super) const fn ignoring_case() -> TextMap<V> {
        TextMap { table: HashTable::new(), case_bits: CASE_BITS }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, text: &[u8]) -> Option<&V> {
        if self.table.is_empty() {
            return None;
        }
        let found = self.table.find(hash(text, self.case_bits), |(key, _)| self.is_same(key, text));
        found.map(|(_, value)| value)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().map(|(key, _)| &**key)
    }

    /// The texts with their values, in no order.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (Box<[u8]>, V)> {
        self.table.into_iter()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.table.iter_mut().map(|(_, value)| value)
    }

    #[inline]
    fn is_same(&self, key: &[u8], text: &[u8]) -> bool {
        // Most clients send hosts in lower case: the quick comparison first.
        key == text || (self.case_bits != 0 && key.eq_ignore_ascii_case(text))
    }
}

impl<V: Default> TextMap<V> {
    /// The value of `text`, a new one when there is none yet.
    pub(super) fn entry(&mut self, text: &[u8]) -> &mut V {
        let case_bits = self.case_bits;
        let is_same = |(key, _): &(Box<[u8]>, V)| {
            if case_bits == 0 { **key == *text } else { key.eq_ignore_ascii_case(text) }
        };
        let rehash = |(key, _): &(Box<[u8]>, V)| hash(key, case_bits);
        let entry = self.table.entry(hash(text, case_bits), is_same, rehash);
        &mut entry.or_insert_with(|| (text.into(), V::default())).into_mut().1
    }
}

/// A map in which case matters.
impl<V> Default for TextMap<V> {
    fn default() -> TextMap<V> {
        TextMap { table: HashTable::new(), case_bits: 0 }
    }
}

impl<V: fmt::Debug> fmt::Debug for TextMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.table.iter().map(|(key, value)| (key.escape_ascii().to_string(), value));
        f.debug_map().entries(entries).finish()
    }
}

/// Hashes eight bytes at a time by folded multiplication; a rest is hashed together with bytes before it.
#[inline]
fn hash(text: &[u8], case_bits: u64) -> u64 {
    let mut hash = text.len() as u64;
    let mut rest = text;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        hash = fold(hash, u64::from_le_bytes(*chunk) | case_bits);
        rest = after;
    }
    let last = match (text.last_chunk::<8>(), rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        (Some(chunk), ..) => u64::from_le_bytes(*chunk),
        (None, Some(front), Some(back)) => {
            u64::from(u32::from_le_bytes(*front)) | u64::from(u32::from_le_bytes(*back)) << 32
        }
        _ => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    fold(hash, last | case_bits)
}

#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_are_found() {
        let text = |len: usize| (0..len).map(|at| b'a' + (at % 26) as u8).collect::<Vec<u8>>();
        let mut exact = TextMap::default();
        let mut folded = TextMap::ignoring_case();
        for len in 0..100 {
            *exact.entry(&text(len)) = len;
            *folded.entry(&text(len)) = len;
        }
        for len in 0..100 {
            let upper = text(len).to_ascii_uppercase();
            assert_eq!(exact.get(&text(len)), Some(&len));
            assert_eq!(exact.get(&upper).is_some(), len == 0);
            assert_eq!((folded.get(&text(len)), folded.get(&upper)), (Some(&len), Some(&len)));
            *folded.entry(&upper) = len;
        }
        assert_eq!((exact.get(&text(100)), folded.get(&text(100))), (None, None));
        assert_eq!((exact.keys().count(), folded.values_mut().count()), (100, 100));
    }

    #[test]
    fn bytes_that_only_look_alike_are_told_apart() {
        // Each pair differs in the case bit alone, and is not one letter in two cases.
        for (a, b) in [("[::1]", "{::1}"), ("a@b", "a`b"), ("host-1", "host\r1")] {
            let mut map = TextMap::ignoring_case();
            *map.entry(a.as_bytes()) = 1;
            assert_eq!(map.get(b.as_bytes()), None, "{a:?} {b:?}");
            *map.entry(b.as_bytes()) = 2;
            assert_eq!((map.get(a.as_bytes()), map.get(b.as_bytes())), (Some(&1), Some(&2)));
        }
    }

    #[test]
    fn hashes_spread() {
        let mut buckets = [0_u32; 64];
        for number in 0..6_400 {
            buckets[(hash(format!("/path/{number}/x").as_bytes(), 0) % 64) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (50..=160).contains(count)), "{buckets:?}");
    }
}
