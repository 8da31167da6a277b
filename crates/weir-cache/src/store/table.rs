//! The tables behind a store: slots in the order of their use, and the fetches under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::OptionsBuilder;
use quick_cache::sync::Cache;

use super::counters::{EvictionReason, StoreCounters};
use super::key::{KeySecret, KnownPartitions, SlotHasherBuilder, SlotKey};
use super::memory::BodyMemory;
use super::pending::PendingFetch;
use super::slot::{CacheSlot, LeavingSlots, SlotLifecycle, SlotWeighter, VaryIndex};
use super::stored::StoredResponse;

/// Bounds of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of all that it holds.
    pub memory_max: u64,
    /// Bytes of one body.
    pub object_max: u64,
}

/// Shards have room for at least so many of the largest objects, so that one does not flush a shard.
const OBJECTS_PER_SHARD: u64 = 4;
const SHARDS_MAX: u64 = 64;
/// One key for so many bytes is remembered behind its eviction: one that comes back is worth more than one that is new.
const BYTES_PER_GHOST: u64 = 4 * 1024;
/// Bytes that such a key takes.
const GHOST_BYTES: u64 = 64;
/// Shards of the fetches under way.
const FETCH_SHARDS: usize = 64;

type SlotCache = Cache<SlotKey, CacheSlot, SlotWeighter, SlotHasherBuilder, SlotLifecycle>;
type FetchShard = HashMap<(SlotKey, u64), Arc<PendingFetch>>;

pub(super) struct StoreTable {
    slots: SlotCache,
    /// What `slots` hold at most by the limits.
    capacity: u64,
    fetches: Box<[Mutex<FetchShard>]>,
    changes: Box<[Mutex<()>]>,
    next_fetch: AtomicU64,
    pub(super) partitions: KnownPartitions,
    pub(super) counters: Arc<StoreCounters>,
    pub(super) limits: StoreLimits,
    pub(super) secret: KeySecret,
    /// Where large bodies are kept, if not on the heap.
    pub(super) memory: Option<Arc<dyn BodyMemory>>,
}

impl std::fmt::Debug for StoreTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreTable").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl StoreTable {
    pub(super) fn new(limits: StoreLimits, secret: KeySecret, memory: Option<Arc<dyn BodyMemory>>) -> Self {
        let counters = Arc::<StoreCounters>::default();
        let shards =
            (limits.memory_max / (OBJECTS_PER_SHARD * limits.object_max.max(1))).clamp(1, SHARDS_MAX);
        // Rounded down: the number of shards is rounded up to a power of two by the cache.
        let shards = 1_usize << shards.ilog2();
        let ghosts = (limits.memory_max / BYTES_PER_GHOST).max(shards as u64 * 32);
        // Shards round their part up.
        let capacity = limits.memory_max.saturating_sub(ghosts * GHOST_BYTES) / shards as u64 * shards as u64;
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(usize::try_from(ghosts).unwrap_or(usize::MAX))
            .ghost_allocation(1.0)
            .weight_capacity(capacity)
            .build()
            .expect("capacity and number of items are set");
        let lifecycle = SlotLifecycle(Arc::clone(&counters));
        let slots = Cache::with_options(options, SlotWeighter, SlotHasherBuilder::default(), lifecycle);
        let fetches = (0..FETCH_SHARDS).map(|_| Mutex::default()).collect();
        let changes = (0..FETCH_SHARDS).map(|_| Mutex::default()).collect();
        Self {
            slots,
            capacity,
            fetches,
            changes,
            next_fetch: AtomicU64::new(1),
            partitions: KnownPartitions::default(),
            counters,
            limits,
            secret,
            memory,
        }
    }

    pub(super) fn get(&self, key: SlotKey) -> Option<CacheSlot> {
        self.slots.get(&key)
    }

    pub(super) fn peek(&self, key: SlotKey) -> Option<CacheSlot> {
        self.slots.peek(&key)
    }

    /// Lets the store hold so many bytes from now on, at most those of its limits.
    pub(super) fn set_memory_max(&self, bytes: u64) {
        self.slots.set_capacity(self.capacity.min(bytes));
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slots.weight()
    }

    /// All slots, one read lock after the other. What is inserted meanwhile may be missing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SlotKey, CacheSlot)> {
        self.slots.iter()
    }

    /// Puts something under a key, in place of what is there.
    pub(super) fn insert(&self, key: SlotKey, slot: CacheSlot) {
        if let CacheSlot::Response(response, _) = &slot {
            response.listed.fetch_add(1, Ordering::AcqRel);
        }
        let _change = self.lock_change(key);
        let mut leaving = LeavingSlots::default();
        self.slots.insert_with_lifecycle(key, slot, &mut leaving);
        if let Some(CacheSlot::Varies(index)) = leaving.take_replaced(key) {
            self.forget_variants(&index, EvictionReason::Variants);
        }
    }

    /// Removes what is under a key, if `which` says so of it.
    pub(super) fn remove_if(
        &self,
        key: SlotKey,
        reason: EvictionReason,
        which: impl FnOnce(&CacheSlot) -> bool,
    ) -> bool {
        let Some((_, slot)) = self.slots.remove_if(&key, |slot| which(slot)) else { return false };
        slot.unlist();
        match slot {
            CacheSlot::Response(response, _) => {
                if reason == EvictionReason::Purge {
                    response.body().set_purged();
                }
                response.body().pass_through_unlisted();
                self.counters.evicted(reason);
            }
            CacheSlot::Varies(index) => {
                self.forget_variants(&index, reason);
            }
            CacheSlot::Passed(_) => {}
        }
        true
    }

    /// Removes a response, wherever its slot is.
    pub(super) fn remove_response(&self, response: &StoredResponse, reason: EvictionReason) -> bool {
        self.remove_if(
            response.slot,
            reason,
            |slot| matches!(slot, CacheSlot::Response(other, _) if Arc::ptr_eq(other.body(), response.body())),
        )
    }

    /// Removes the responses of an index.
    pub(super) fn forget_variants(&self, index: &VaryIndex, reason: EvictionReason) -> usize {
        let variants = std::mem::take(&mut *lock(&index.variants));
        variants.into_iter().filter(|slot| self.remove_if(*slot, reason, |_| true)).count()
    }

    /// Counts a response with another size of its body, and makes room for it. `false`: it is not stored any more.
    pub(super) fn reserve(&self, response: &StoredResponse, body_bytes: u64) -> bool {
        let (slot, body) = (response.slot, response.body());
        // Nothing else is inserted here meanwhile; what is removed is not replaced.
        let _change = self.lock_change(slot);
        let Some(CacheSlot::Response(current, _)) = self.slots.peek(&slot) else { return false };
        if !Arc::ptr_eq(current.body(), body) {
            return false;
        }
        body.set_reserved(body_bytes);
        current.listed.fetch_add(1, Ordering::AcqRel);
        let charge = current.bytes() + body_bytes;
        let mut leaving = LeavingSlots::default();
        // Not counted as a use.
        let is_soft = true;
        let outcome = self.slots.replace_with_lifecycle(
            slot,
            CacheSlot::Response(current, charge),
            is_soft,
            &mut leaving,
        );
        leaving.take_replaced(slot);
        if let Err((_, rejected)) = outcome {
            rejected.unlist();
        }
        body.is_listed()
    }

    /// Held while something is put under a key.
    fn lock_change(&self, slot: SlotKey) -> MutexGuard<'_, ()> {
        lock(&self.changes[(slot.0 >> 64) as usize % FETCH_SHARDS])
    }

    /// Bytes of all bodies, stored or only read.
    pub(super) fn body_bytes(&self) -> u64 {
        self.counters.body_bytes.load(Ordering::Relaxed)
    }

    fn fetch_shard(&self, primary: SlotKey) -> MutexGuard<'_, FetchShard> {
        lock(&self.fetches[(primary.0 >> 64) as usize % FETCH_SHARDS])
    }

    /// The fetch that others wait for, and whether it begins now.
    pub(super) fn join(&self, slot: SlotKey, primary: SlotKey, key: &[u8]) -> (Arc<PendingFetch>, bool) {
        self.partitions.note(key);
        let mut shard = self.fetch_shard(primary);
        if let Some(fetch) = shard.get(&(slot, 0)) {
            return (Arc::clone(fetch), false);
        }
        let fetch = Arc::new(PendingFetch::new(slot, primary, 0, key));
        shard.insert((slot, 0), Arc::clone(&fetch));
        (fetch, true)
    }

    /// A fetch that no other request waits for.
    pub(super) fn fetch_alone(&self, slot: SlotKey, primary: SlotKey, key: &[u8]) -> Arc<PendingFetch> {
        self.partitions.note(key);
        let id = self.next_fetch.fetch_add(1, Ordering::Relaxed);
        let fetch = Arc::new(PendingFetch::new(slot, primary, id, key));
        self.fetch_shard(primary).insert((slot, id), Arc::clone(&fetch));
        fetch
    }

    /// A fetch has ended, or nothing else may come of it.
    pub(super) fn forget_fetch(&self, fetch: &Arc<PendingFetch>) {
        let mut shard = self.fetch_shard(fetch.primary);
        let key = (fetch.slot, fetch.id);
        if shard.get(&key).is_some_and(|other| Arc::ptr_eq(other, fetch)) {
            shard.remove(&key);
        }
    }

    /// Lets `each` look at the fetches under way, of one key or all. Those for which it says so are not waited for any more.
    pub(super) fn detach_fetches(
        &self,
        primary: Option<SlotKey>,
        mut each: impl FnMut(&PendingFetch) -> bool,
    ) {
        match primary {
            Some(primary) => {
                self.fetch_shard(primary).retain(|_, fetch| fetch.primary != primary || !each(fetch));
            }
            None => self.fetches.iter().for_each(|shard| lock(shard).retain(|_, fetch| !each(fetch))),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change of what these locks guard is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
