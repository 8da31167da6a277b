//! Keys: a text, and its hash, which alone is looked up.

use std::collections::HashSet;
use std::hash::Hasher;
use std::sync::{PoisonError, RwLock};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::head::HeadView;
use crate::rules::VaryRule;

/// What makes the hashes of keys ones that no client can foresee. It names files, so a store on disk keeps it.
#[derive(Clone, Copy)]
pub struct KeySecret(pub [u8; 16]);

impl std::fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySecret")
    }
}

/// The hash of a key, or of a key and the selecting fields of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotKey(pub(crate) u128);

/// What responses are stored under: a text that the caller makes of scheme, host, path and whatever else is to tell responses apart.
#[derive(Debug, Clone)]
pub struct CacheKey<'a> {
    text: &'a [u8],
    hasher: SipHasher13,
    pub(crate) slot: SlotKey,
}

/// Bytes at the end of a key that name its partition, with the byte before them.
const PARTITION_BYTES: usize = 17;

/// What stands before a partition: no value in the text of a key has it, since control bytes are replaced there.
const PARTITION_MARK: u8 = 0;

/// A part of a cache: a response of one is never found by requests that belong to another. Its bytes end the keys in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPartition([u8; PARTITION_BYTES - 1]);

impl KeyPartition {
    /// The partition with this name for one of [`CLASSES`](Self::CLASSES) classes of requests.
    pub fn new(name: [u8; PARTITION_BYTES - 1], class: u8) -> Self {
        let mut bytes = name;
        bytes[0] = bytes[0] & !(Self::CLASSES - 1) | class & (Self::CLASSES - 1);
        Self(bytes)
    }

    /// How many classes of requests have partitions of their own under one name; a power of two.
    pub const CLASSES: u8 = 16;

    /// Makes `key`, a text, one of this partition.
    pub fn end(self, key: &mut Vec<u8>) {
        key.push(PARTITION_MARK);
        key.extend_from_slice(&self.0);
    }
}

/// A key without its partition: what an operator calls the key of a response.
pub fn key_text(key: &[u8]) -> &[u8] {
    &key[..key.len() - partition_of(key).len()]
}

/// The bytes at the end of a key that name its partition; empty without one.
fn partition_of(key: &[u8]) -> &[u8] {
    match key.len().checked_sub(PARTITION_BYTES) {
        Some(start) if key[start] == PARTITION_MARK => &key[start..],
        _ => b"",
    }
}

/// The partitions that keys have had so far: a purge of a key looks in each of them.
#[derive(Debug, Default)]
pub(crate) struct KnownPartitions(RwLock<HashSet<[u8; PARTITION_BYTES]>>);

impl KnownPartitions {
    /// Notes that of a key, before anything can be found under it.
    pub(crate) fn note(&self, key: &[u8]) {
        let Ok(partition) = <[u8; PARTITION_BYTES]>::try_from(partition_of(key)) else { return };
        let is_known = self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&partition);
        if !is_known {
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(partition);
        }
    }

    /// All keys with this text.
    pub(crate) fn keys(&self, text: &[u8]) -> Vec<Vec<u8>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let with_partition = known.iter().map(|partition| [text, partition].concat());
        std::iter::once(text.to_vec()).chain(with_partition).collect()
    }
}

impl<'a> CacheKey<'a> {
    /// The key with this text. Its hash is computed once.
    pub fn new(secret: &KeySecret, text: &'a [u8]) -> Self {
        let mut hasher = SipHasher13::new_with_key(&secret.0);
        hasher.write(text);
        let slot = SlotKey(hasher.finish128().as_u128());
        Self { text, hasher, slot }
    }

    /// Its text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Where responses for requests like this one are, when `vary` holds for them.
    pub(crate) fn variant(&self, vary: &VaryRule, request: HeadView<'_>) -> SlotKey {
        let mut hasher = self.hasher;
        // No text of a key contains this byte, so that no key is the variant of another.
        hasher.write_u8(0xff);
        vary.hash_request(request, &mut hasher);
        SlotKey(hasher.finish128().as_u128())
    }
}

// Equal keys have equal bits.
impl std::hash::Hash for SlotKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64);
    }
}

/// Hands the bits of a [`SlotKey`] on: they are a hash already.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlotHasher(u64);

impl Hasher for SlotHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits;
    }
}

/// Builds [`SlotHasher`].
pub(crate) type SlotHasherBuilder = std::hash::BuildHasherDefault<SlotHasher>;
