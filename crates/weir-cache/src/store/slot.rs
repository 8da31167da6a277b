//! What a key of the store leads to, how many bytes it is counted with, and what becomes of what is evicted.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use quick_cache::{Lifecycle, Weighter};

use super::counters::{EvictionReason, StoreCounters};
use super::key::SlotKey;
use super::stored::{ALLOCATION_BYTES, SLOT_BYTES, StoredResponse};
use crate::rules::VaryRule;
use crate::time::CacheTime;

/// Variants that one key may have.
pub(super) const VARIANTS_MAX: usize = 64;

/// What is under a key.
#[derive(Debug, Clone)]
pub(super) enum CacheSlot {
    /// A response, and the bytes that it is counted with.
    Response(Arc<StoredResponse>, u64),
    /// Responses to this key depend on fields of the request: they are elsewhere.
    Varies(Arc<VaryIndex>),
    /// Responses are not stored: requests do not wait for each other until then.
    Passed(CacheTime),
}

/// The variants of one key.
#[derive(Debug)]
pub(super) struct VaryIndex {
    /// Responses have the same `Arc`: those of an index that was replaced are not found any more.
    pub(super) rule: Arc<VaryRule>,
    pub(super) key: Box<[u8]>,
    /// The oldest first.
    pub(super) variants: Mutex<VecDeque<SlotKey>>,
}

impl CacheSlot {
    fn bytes(&self) -> u64 {
        match self {
            Self::Response(_, charge) => *charge,
            Self::Varies(index) => {
                let variants = VARIANTS_MAX * size_of::<SlotKey>() * 2;
                let fixed = size_of::<VaryIndex>() + SLOT_BYTES + 4 * ALLOCATION_BYTES;
                (index.rule.bytes() + index.key.len() + variants + fixed) as u64
            }
            Self::Passed(_) => SLOT_BYTES as u64,
        }
    }

    /// It has left the store.
    pub(super) fn unlist(&self) {
        if let Self::Response(response, _) = self {
            response.listed.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Counts bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotWeighter;

impl Weighter<SlotKey, CacheSlot> for SlotWeighter {
    fn weight(&self, _: &SlotKey, slot: &CacheSlot) -> u64 {
        slot.bytes()
    }
}

/// Takes what leaves to make room, or is replaced.
#[derive(Debug, Clone)]
pub(super) struct SlotLifecycle(pub(super) Arc<StoreCounters>);

/// What one operation has made leave. Dropped outside the lock of the shard.
#[derive(Debug, Default)]
pub(super) struct LeavingSlots {
    counters: Option<Arc<StoreCounters>>,
    slots: Vec<(SlotKey, CacheSlot)>,
}

impl LeavingSlots {
    /// What was under this key: it was replaced, not evicted.
    pub(super) fn take_replaced(&mut self, key: SlotKey) -> Option<CacheSlot> {
        let at = self.slots.iter().position(|(other, _)| *other == key)?;
        let slot = self.slots.swap_remove(at).1;
        if let CacheSlot::Response(response, _) = &slot {
            response.body().pass_through_unlisted();
        }
        Some(slot)
    }
}

impl Drop for LeavingSlots {
    fn drop(&mut self) {
        if let Some(counters) = &self.counters {
            for (_, slot) in &self.slots {
                if let CacheSlot::Response(response, _) = slot {
                    response.body().pass_through_unlisted();
                    counters.evicted(EvictionReason::Memory);
                }
            }
        }
    }
}

impl Lifecycle<SlotKey, CacheSlot> for SlotLifecycle {
    type RequestState = LeavingSlots;

    fn on_evict(&self, state: &mut LeavingSlots, key: SlotKey, slot: CacheSlot) {
        slot.unlist();
        state.counters.get_or_insert_with(|| Arc::clone(&self.0));
        state.slots.push((key, slot));
    }
}
