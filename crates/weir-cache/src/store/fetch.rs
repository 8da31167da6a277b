//! One who fetches a response for all: what comes of it, and the body that it writes.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::body::{BodyStopped, CacheBody, bytes_of_len};
use super::counters::EvictionReason;
use super::key::{CacheKey, SlotKey};
use super::pending::{FetchOutcome, FetchWait, PendingFetch};
use super::purge::PurgeMode;
use super::slot::{CacheSlot, VARIANTS_MAX, VaryIndex};
use super::stored::{NewResponse, StoredResponse};
use super::table::{StoreTable, lock};
use crate::head::HeadView;
use crate::rules::{Freshened, NotStored, VaryRule};
use crate::time::CacheTime;

/// What is set aside first for a body of unknown length, in bytes; then twice as much each time.
const FIRST_RESERVE_BYTES: u64 = 64 * 1024;

/// How much more than it takes a body may be counted with.
const SLACK_BYTES: u64 = 256;

/// The right, and the duty, to fetch a response. Dropped without a result it tells those who wait that there is none.
#[derive(Debug)]
pub struct FetchTicket {
    table: Arc<StoreTable>,
    fetch: Arc<PendingFetch>,
    refreshed: Option<Arc<StoredResponse>>,
    is_settled: bool,
}

/// A response that is being stored.
#[derive(Debug)]
pub struct Storing {
    /// The response. Make the reader of the request that fetches it before anything is appended.
    pub response: Arc<StoredResponse>,
    /// Takes its body.
    pub writer: BodyWriter,
    /// Why it is not stored, but only passed through.
    pub refused: Option<NotStored>,
}

impl FetchTicket {
    pub(super) fn new(table: &Arc<StoreTable>, fetch: Arc<PendingFetch>) -> Self {
        Self { table: Arc::clone(table), fetch, refreshed: None, is_settled: false }
    }

    /// One that refreshes a response: while it exists, `StoredResponse::is_refreshing`.
    pub(super) fn refreshing(mut self, response: &Arc<StoredResponse>) -> Self {
        response.set_refreshing(true);
        self.refreshed = Some(Arc::clone(response));
        self
    }

    /// The text of the key.
    pub fn key(&self) -> &[u8] {
        &self.fetch.key
    }

    /// Waits for what comes of it, as requests do that have not begun it.
    pub fn wait(&self) -> FetchWait {
        FetchWait::new(&self.fetch)
    }

    /// Stores a response whose head is complete, to the request with these fields.
    pub fn store(mut self, new: NewResponse, request: HeadView<'_>) -> Storing {
        let len = new.len;
        let body = Arc::new(CacheBody::new(&self.table.counters, self.table.memory.as_ref()));
        let limits = self.table.limits;
        let refused = if len.is_some_and(|len| len > limits.object_max) {
            Some(NotStored::TooLarge)
        } else if self.table.body_bytes() > limits.memory_max.saturating_add(limits.memory_max / 4) {
            Some(NotStored::NoMemory)
        } else {
            None
        };
        let reserved = len.map_or(FIRST_RESERVE_BYTES.min(limits.object_max), bytes_of_len);
        body.set_reserved(reserved);
        let (slot, vary) = self.place(&new.vary, request, refused.is_none());
        let response = Arc::new(StoredResponse::new(slot, &self.fetch.key, vary, new, Arc::clone(&body)));
        let refused = refused.or_else(|| self.list(&response));
        let writer = BodyWriter {
            table: Arc::clone(&self.table),
            response: Arc::clone(&response),
            written: 0,
            is_ended: false,
        };
        if refused.is_some() {
            body.pass_through();
        }
        // Many readers of a body that is not kept would wait for the slowest of them.
        let is_shared = !matches!(refused, Some(NotStored::TooLarge | NotStored::NoMemory));
        self.settle(if is_shared {
            FetchOutcome::Stored(Arc::clone(&response))
        } else {
            FetchOutcome::NotStored
        });
        Storing { response, writer, refused }
    }

    /// Stores a response whose body is here already: one from a file. Whether memory has room for it or not, it can be read, and those who wait get it.
    /// `None`: it was purged meanwhile.
    pub fn store_whole(
        mut self,
        new: NewResponse,
        request: HeadView<'_>,
        bytes: &[u8],
    ) -> Option<Arc<StoredResponse>> {
        let body = Arc::new(CacheBody::new(&self.table.counters, self.table.memory.as_ref()));
        body.append(bytes).expect("a body that grows takes all");
        body.finish();
        body.set_reserved(body.chunk_bytes());
        let limits = self.table.limits;
        let has_room = bytes.len() as u64 <= limits.object_max
            && self.table.body_bytes() <= limits.memory_max.saturating_add(limits.memory_max / 4);
        let (slot, vary) = self.place(&new.vary, request, has_room);
        let response = Arc::new(StoredResponse::new(slot, &self.fetch.key, vary, new, body));
        let is_purged = match has_room {
            true => self.list(&response) == Some(NotStored::Purged),
            false => self.heed_purge(&response),
        };
        if is_purged {
            self.settle(FetchOutcome::NotStored);
            return None;
        }
        self.settle(FetchOutcome::Stored(Arc::clone(&response)));
        Some(response)
    }

    /// Where the response belongs. Makes the index of its variants, if `is_stored`.
    fn place(&self, vary: &VaryRule, request: HeadView<'_>, is_stored: bool) -> (SlotKey, Arc<VaryRule>) {
        let primary = self.fetch.primary;
        if vary.is_empty() {
            return (primary, Arc::new(vary.clone()));
        }
        let slot = CacheKey::new(&self.table.secret, &self.fetch.key).variant(vary, request);
        if let Some(CacheSlot::Varies(index)) = self.table.peek(primary)
            && *index.rule == *vary
        {
            if is_stored {
                self.add_variant(&index, slot);
            }
            return (slot, Arc::clone(&index.rule));
        }
        let rule = Arc::new(vary.clone());
        if is_stored {
            let variants = std::sync::Mutex::new([slot].into());
            let index = VaryIndex { rule: Arc::clone(&rule), key: self.fetch.key.clone(), variants };
            self.table.insert(primary, CacheSlot::Varies(Arc::new(index)));
        }
        (slot, rule)
    }

    fn add_variant(&self, index: &VaryIndex, slot: SlotKey) {
        let mut variants = lock(&index.variants);
        variants.retain(|other| *other != slot);
        variants.push_back(slot);
        let oldest = if variants.len() > VARIANTS_MAX { variants.pop_front() } else { None };
        drop(variants);
        if let Some(oldest) = oldest {
            self.table.remove_if(oldest, EvictionReason::Variants, |_| true);
        }
    }

    /// Makes a response one that can be found; why not, else.
    fn list(&self, response: &Arc<StoredResponse>) -> Option<NotStored> {
        let charge = response.bytes() + response.body().reserved();
        self.table.insert(response.slot, CacheSlot::Response(Arc::clone(response), charge));
        // Asked behind the insertion: a purge marks the fetches first and looks at the slots then.
        if self.heed_purge(response) {
            self.table.remove_response(response, EvictionReason::Purge);
            return Some(NotStored::Purged);
        }
        (!response.body().is_listed()).then_some(NotStored::TooLarge)
    }

    /// Does to a response what a purge since the beginning of the fetch wants. Whether that has removed it.
    fn heed_purge(&self, response: &StoredResponse) -> bool {
        match self.fetch.purged(response) {
            Some(PurgeMode::Hard) => return true,
            Some(PurgeMode::Soft) => response.expire(response.lifetime().received),
            None => {}
        }
        false
    }

    /// The server has confirmed a stored response: it has these fields and times from now on.
    pub fn freshen(mut self, old: &Arc<StoredResponse>, freshened: Freshened) -> Arc<StoredResponse> {
        let response = Arc::new(old.freshened(freshened.head, freshened.lifetime));
        // Not when it was removed meanwhile: its memory is not counted any more.
        if old.body().is_listed() {
            self.list(&response);
        }
        self.settle(FetchOutcome::Stored(Arc::clone(&response)));
        response
    }

    /// The response is only for the request that fetched it. Until `pass_until`, requests for this key do not wait for each other.
    pub fn not_stored(mut self, pass_until: Option<CacheTime>) {
        if let Some(until) = pass_until {
            self.table.insert(self.fetch.slot, CacheSlot::Passed(until));
        }
        self.settle(FetchOutcome::NotStored);
    }

    fn settle(&mut self, outcome: FetchOutcome) {
        self.is_settled = true;
        self.table.forget_fetch(&self.fetch);
        if let Some(response) = self.refreshed.take() {
            response.set_refreshing(false);
        }
        self.fetch.settle(outcome);
    }
}

impl Drop for FetchTicket {
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle(FetchOutcome::Failed);
        }
    }
}

/// Takes the body of a response that is being stored. Dropped before [`BodyWriter::finish`], the body has failed.
#[derive(Debug)]
pub struct BodyWriter {
    table: Arc<StoreTable>,
    response: Arc<StoredResponse>,
    written: u64,
    is_ended: bool,
}

impl BodyWriter {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// When the rest is not wanted: the response is not stored, and no client reads it.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), BodyStopped> {
        self.written += bytes.len() as u64;
        self.make_room();
        self.response.body().append(bytes)
    }

    /// Sees to it that what is kept is counted.
    fn make_room(&self) {
        let (body, limit) = (self.response.body(), self.table.limits.object_max);
        if self.written > limit {
            self.table.remove_response(&self.response, EvictionReason::TooLarge);
        } else if bytes_of_len(self.written) > body.reserved() {
            let wanted = self.written.max(body.reserved().saturating_mul(2)).min(limit);
            if !self.table.reserve(&self.response, bytes_of_len(wanted)) {
                self.table.remove_response(&self.response, EvictionReason::Memory);
            }
        }
        if !body.is_listed() {
            body.pass_through();
        }
    }

    /// Whether more may be appended now.
    ///
    /// # Errors
    /// As [`BodyWriter::append`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyStopped>> {
        self.response.body().poll_ready(cx)
    }

    /// Bytes appended so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether the body is kept, not only passed through.
    pub fn is_kept(&self) -> bool {
        self.response.body().is_listed()
    }

    /// The body is whole.
    pub fn finish(mut self) {
        self.is_ended = true;
        let body = self.response.body();
        body.finish();
        let bytes = body.chunk_bytes();
        // What is a little less than was reserved is not worth a lock.
        let is_as_reserved = bytes <= body.reserved() && body.reserved() - bytes <= SLACK_BYTES;
        if !is_as_reserved && body.is_listed() && !self.table.reserve(&self.response, bytes) {
            self.table.remove_response(&self.response, EvictionReason::Memory);
        }
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if !self.is_ended {
            self.table.remove_response(&self.response, EvictionReason::Incomplete);
            self.response.body().fail();
        }
    }
}
