//! What the store counts: bytes that bodies take, and what has left it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a response is not stored any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EvictionReason {
    /// Others needed its memory.
    Memory,
    /// Its key has too many variants.
    Variants,
    /// It was purged, or invalidated by a request that changes something.
    Purge,
    /// It grew beyond the size that an object may have.
    TooLarge,
    /// It did not come to its end.
    Incomplete,
}

impl EvictionReason {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// Every reason; `reason as usize` is its index.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Memory, Self::Variants, Self::Purge, Self::TooLarge, Self::Incomplete];

    /// Its name, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Variants => "variants",
            Self::Purge => "purge",
            Self::TooLarge => "too-large",
            Self::Incomplete => "incomplete",
        }
    }
}

/// What is in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Entries: responses, and what is remembered about keys.
    pub objects: u64,
    /// Bytes that they are counted with. Never more than the limit.
    pub bytes: u64,
    /// Bytes of bodies, those included that are no longer stored and still read.
    pub body_bytes: u64,
    /// Responses that have left, by [`EvictionReason`].
    pub evictions: [u64; EvictionReason::COUNT],
}

/// Counted by all workers, each time something is stored or leaves; not by hits.
#[derive(Debug, Default)]
pub(super) struct StoreCounters {
    pub(super) body_bytes: AtomicU64,
    evictions: [AtomicU64; EvictionReason::COUNT],
}

impl StoreCounters {
    pub(super) fn evicted(&self, reason: EvictionReason) {
        self.evictions[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn evictions(&self) -> [u64; EvictionReason::COUNT] {
        std::array::from_fn(|index| self.evictions[index].load(Ordering::Relaxed))
    }
}
