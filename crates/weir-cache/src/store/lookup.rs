//! The store as its users see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::counters::{EvictionReason, StoreSize};
use super::fetch::FetchTicket;
use super::key::{CacheKey, KeySecret, SlotKey};
use super::memory::BodyMemory;
use super::pending::FetchWait;
use super::purge::{PurgeMode, PurgeScope};
use super::slot::CacheSlot;
use super::stored::{NewResponse, StoredResponse};
use super::table::{StoreLimits, StoreTable};
use crate::head::HeadView;
use crate::time::CacheTime;

/// Bytes of bodies that are held for each byte of memory, at most, where they come from files.
const HELD_PER_MEMORY: u64 = 4;

/// Where a response to a request would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchSlot {
    pub(crate) slot: SlotKey,
    /// Whether there may be responses to requests with other fields: a miss of `Vary`, not of the key.
    pub is_variant: bool,
}

/// What is under a key, for a request.
#[derive(Debug)]
pub enum Found {
    /// A response. Whether it may be used is asked of `rules::reuse`.
    Hit(Arc<StoredResponse>),
    /// Nothing.
    Missing(FetchSlot),
    /// Nothing, and responses were not stored lately: requests do not wait for each other.
    Passed(FetchSlot),
}

/// Who fetches.
#[derive(Debug)]
pub enum Join {
    /// The caller.
    Lead(FetchTicket),
    /// Another request, whose response is waited for.
    Wait(FetchWait),
}

/// All stored responses.
#[derive(Debug)]
pub struct Store {
    table: Arc<StoreTable>,
}

impl Store {
    /// An empty store. `secret` is random, or that of the folder behind it.
    pub fn new(limits: StoreLimits, secret: KeySecret) -> Self {
        Self { table: Arc::new(StoreTable::new(limits, secret, None)) }
    }

    /// The same, with a place for large bodies from where the kernel can send them.
    pub fn with_memory(limits: StoreLimits, secret: KeySecret, memory: Option<Arc<dyn BodyMemory>>) -> Self {
        Self { table: Arc::new(StoreTable::new(limits, secret, memory)) }
    }

    /// Bounds what is stored by so many bytes as well, until the next call: what is beyond leaves now, the least used first.
    pub fn set_memory_max(&self, bytes: u64) {
        self.table.set_memory_max(bytes);
    }

    /// Whether a body from a file may be held, stored or only read: all bodies together take a few times the memory at most, so that clients that read
    /// slowly do not fill the machine with as many files.
    pub fn may_hold(&self, len: u64) -> bool {
        let max = self.table.limits.memory_max.saturating_mul(HELD_PER_MEMORY);
        self.table.body_bytes().saturating_add(len) <= max
    }

    /// The limits.
    pub fn limits(&self) -> StoreLimits {
        self.table.limits
    }

    /// The key with this text.
    pub fn key<'k>(&self, text: &'k [u8]) -> CacheKey<'k> {
        CacheKey::new(&self.table.secret, text)
    }

    /// What there is for this request. Allocates nothing.
    pub fn find(&self, key: &CacheKey<'_>, request: HeadView<'_>, now: CacheTime) -> Found {
        let (slot, is_variant, found) = match self.table.get(key.slot) {
            Some(CacheSlot::Varies(index)) => {
                let slot = key.variant(&index.rule, request);
                let found = self.table.get(slot).filter(|found| match found {
                    CacheSlot::Response(response, _) => Arc::ptr_eq(&response.vary, &index.rule),
                    _ => true,
                });
                (slot, true, found)
            }
            found => (key.slot, false, found),
        };
        let missing = FetchSlot { slot, is_variant };
        match found {
            Some(CacheSlot::Response(response, _)) if response.key() == key.text() => Found::Hit(response),
            Some(CacheSlot::Passed(until)) if now < until => Found::Passed(missing),
            _ => Found::Missing(missing),
        }
    }

    /// Fetches what is missing, or waits for a request that does.
    pub fn join(&self, key: &CacheKey<'_>, missing: FetchSlot) -> Join {
        let (fetch, begins) = self.table.join(missing.slot, key.slot, key.text());
        if begins {
            Join::Lead(FetchTicket::new(&self.table, fetch))
        } else {
            Join::Wait(FetchWait::new(&fetch))
        }
    }

    /// Fetches without others waiting for it: for keys whose responses are not stored.
    pub fn lead_alone(&self, key: &CacheKey<'_>, missing: FetchSlot) -> FetchTicket {
        FetchTicket::new(&self.table, self.table.fetch_alone(missing.slot, key.slot, key.text()))
    }

    /// Asks the server about a stored response, or waits for a request that does.
    pub fn join_refresh(&self, key: &CacheKey<'_>, stored: &Arc<StoredResponse>) -> Join {
        let slot = FetchSlot { slot: stored.slot, is_variant: false };
        match self.join(key, slot) {
            Join::Lead(ticket) => Join::Lead(ticket.refreshing(stored)),
            wait => wait,
        }
    }

    /// Asks the server about a stored response, unless another request does: that one is not waited for.
    pub fn try_refresh(&self, key: &CacheKey<'_>, stored: &Arc<StoredResponse>) -> Option<FetchTicket> {
        if stored.is_refreshing() {
            return None;
        }
        match self.join_refresh(key, stored) {
            Join::Lead(ticket) => Some(ticket),
            Join::Wait(_) => None,
        }
    }

    /// Whether a response that was waited for is one for this request.
    pub fn is_for(&self, response: &StoredResponse, key: &CacheKey<'_>, request: HeadView<'_>) -> bool {
        response.key() == key.text()
            && (response.vary().is_empty() || key.variant(response.vary(), request) == response.slot)
    }

    /// Stores a response whose body is there already: one that was on disk. `None` when it was purged meanwhile.
    pub fn promote(
        &self,
        key: &CacheKey<'_>,
        missing: FetchSlot,
        new: NewResponse,
        request: HeadView<'_>,
        body: &[u8],
    ) -> Option<Arc<StoredResponse>> {
        self.lead_alone(key, missing).store_whole(new, request, body)
    }

    /// All keys with this text that may have a response, in whichever partition.
    pub fn known_keys(&self, text: &[u8]) -> Vec<Vec<u8>> {
        self.table.partitions.keys(text)
    }

    /// Purges responses, and what is being fetched. How many were stored.
    pub fn purge(&self, scope: PurgeScope<'_>, mode: PurgeMode, now: CacheTime) -> usize {
        let exact = |key: &[u8]| self.purge_key(&CacheKey::new(&self.table.secret, key), mode, now);
        match scope {
            PurgeScope::Exact(key) => return exact(key),
            PurgeScope::Key(text) => {
                return self.table.partitions.keys(text).iter().map(|key| exact(key)).sum();
            }
            PurgeScope::All | PurgeScope::Prefix(_) | PurgeScope::Tag(_) => {}
        }
        self.table.detach_fetches(None, |fetch| fetch.mark(&scope, mode));
        let mut count = 0;
        for (slot, found) in self.table.iter() {
            match found {
                CacheSlot::Response(response, _) if scope.covers(response.key(), response.tags()) => {
                    count += usize::from(self.purge_response(&response, mode, now));
                }
                CacheSlot::Varies(index)
                    if mode == PurgeMode::Hard && scope.covers_key(&index.key) == Some(true) =>
                {
                    count += self.table.forget_variants(&index, EvictionReason::Purge);
                    self.table.remove_if(
                        slot,
                        EvictionReason::Purge,
                        |slot| matches!(slot, CacheSlot::Varies(other) if Arc::ptr_eq(other, &index)),
                    );
                }
                CacheSlot::Passed(_) if mode == PurgeMode::Hard && scope == PurgeScope::All => {
                    self.table
                        .remove_if(slot, EvictionReason::Purge, |slot| matches!(slot, CacheSlot::Passed(_)));
                }
                _ => {}
            }
        }
        count
    }

    fn purge_response(&self, response: &StoredResponse, mode: PurgeMode, now: CacheTime) -> bool {
        match mode {
            PurgeMode::Soft => response.expire(now),
            PurgeMode::Hard => return self.table.remove_response(response, EvictionReason::Purge),
        }
        true
    }

    fn purge_key(&self, key: &CacheKey<'_>, mode: PurgeMode, now: CacheTime) -> usize {
        let scope = PurgeScope::Exact(key.text());
        self.table.detach_fetches(Some(key.slot), |fetch| fetch.mark(&scope, mode));
        match self.table.peek(key.slot) {
            Some(CacheSlot::Response(response, _)) => usize::from(self.purge_response(&response, mode, now)),
            Some(CacheSlot::Varies(index)) if mode == PurgeMode::Hard => {
                let count = self.table.forget_variants(&index, EvictionReason::Purge);
                self.table.remove_if(key.slot, EvictionReason::Purge, |_| true);
                count
            }
            Some(CacheSlot::Varies(index)) => {
                let variants: Vec<SlotKey> = super::table::lock(&index.variants).iter().copied().collect();
                let stored = variants.into_iter().filter_map(|slot| match self.table.peek(slot) {
                    Some(CacheSlot::Response(response, _)) => Some(response),
                    _ => None,
                });
                stored.filter(|response| self.purge_response(response, mode, now)).count()
            }
            Some(CacheSlot::Passed(_)) | None => 0,
        }
    }

    /// Forgets what is stored under a key that an unsafe request has changed (RFC 9111 section 4.4). How many responses that were.
    pub fn invalidate(&self, key: &CacheKey<'_>, now: CacheTime) -> usize {
        self.purge_key(key, PurgeMode::Hard, now)
    }

    /// Forgets one response, whatever is fetched: the server has another version.
    pub fn remove(&self, response: &StoredResponse) -> bool {
        self.table.remove_response(response, EvictionReason::Purge)
    }

    /// What is in it.
    pub fn size(&self) -> StoreSize {
        StoreSize {
            objects: self.table.len() as u64,
            bytes: self.table.bytes(),
            body_bytes: self.table.counters.body_bytes.load(Ordering::Relaxed),
            evictions: self.table.counters.evictions(),
        }
    }

    /// Calls `each` for all stored responses, in no order; those that come or go meanwhile may be missing.
    pub fn for_each(&self, mut each: impl FnMut(&Arc<StoredResponse>)) {
        for (_, slot) in self.table.iter() {
            if let CacheSlot::Response(response, _) = slot {
                each(&response);
            }
        }
    }
}
