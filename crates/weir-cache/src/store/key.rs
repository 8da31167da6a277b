//! Keys: a text, and its hash, which alone is looked up.

use std::hash::Hasher;

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
