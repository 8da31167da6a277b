//! One stored response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::body::{BodyReader, CacheBody, FileBodyId};
use super::key::SlotKey;
use crate::head::StoredHead;
use crate::rules::{Lifetime, VaryRule};
use crate::time::CacheTime;

/// Tags of one response: at most so many are kept,
pub(super) const TAGS_MAX: usize = 64;
/// and at most so many bytes of each.
pub(super) const TAG_BYTES_MAX: usize = 128;

/// A response that is to be stored.
#[derive(Debug)]
pub struct NewResponse {
    /// Its status.
    pub status: u16,
    /// Its fields, without those that are not stored.
    pub head: StoredHead,
    /// Its times.
    pub lifetime: Lifetime,
    /// For which requests.
    pub vary: VaryRule,
    /// Length of the body when it is known.
    pub len: Option<u64>,
}

/// A stored response: shared by all who send it, never changed but for its times at a soft purge.
#[derive(Debug)]
pub struct StoredResponse {
    pub(crate) slot: SlotKey,
    key: Box<[u8]>,
    status: u16,
    head: StoredHead,
    lifetime: Lifetime,
    pub(super) vary: Arc<VaryRule>,
    tags: Box<[Box<[u8]>]>,
    announced_len: Option<u64>,
    body: Arc<CacheBody>,
    /// In how many slots it can be found.
    pub(super) listed: Arc<AtomicU32>,
    /// When it was marked stale, in milliseconds since 1970.
    stale_since: AtomicU64,
    is_refreshing: AtomicBool,
}

impl StoredResponse {
    pub(super) fn new(
        slot: SlotKey,
        key: &[u8],
        vary: Arc<VaryRule>,
        new: NewResponse,
        body: Arc<CacheBody>,
    ) -> Self {
        let tags = tags_of(&new.head);
        Self {
            slot,
            key: key.into(),
            status: new.status,
            head: new.head,
            lifetime: new.lifetime,
            vary,
            tags,
            announced_len: new.len,
            listed: Arc::clone(body.listed()),
            body,
            stale_since: AtomicU64::new(u64::MAX),
            is_refreshing: AtomicBool::new(false),
        }
    }

    /// The same with other fields and times, and the same body.
    pub(super) fn freshened(&self, head: StoredHead, lifetime: Lifetime) -> Self {
        Self {
            slot: self.slot,
            key: self.key.clone(),
            status: self.status,
            tags: tags_of(&head),
            head,
            lifetime,
            vary: Arc::clone(&self.vary),
            announced_len: self.announced_len,
            body: Arc::clone(&self.body),
            listed: Arc::clone(&self.listed),
            stale_since: AtomicU64::new(u64::MAX),
            is_refreshing: AtomicBool::new(false),
        }
    }

    /// The text of its key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Its fields.
    pub fn head(&self) -> &StoredHead {
        &self.head
    }

    /// Its times; stale from the moment on at which it was purged softly.
    pub fn lifetime(&self) -> Lifetime {
        match self.stale_since.load(Ordering::Relaxed) {
            u64::MAX => self.lifetime,
            millis => self.lifetime.expired(CacheTime::from_millis(millis)),
        }
    }

    /// The fields of requests that it depends on.
    pub fn vary(&self) -> &VaryRule {
        &self.vary
    }

    /// Its tags.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tags.iter().map(|tag| &**tag)
    }

    /// Length of the body as soon as it is known: announced by the server, or counted.
    pub fn body_len(&self) -> Option<u64> {
        self.body.len().or(self.announced_len)
    }

    /// Its body.
    pub fn body(&self) -> &Arc<CacheBody> {
        &self.body
    }

    /// Reads the body from `start`; `None` when that part of a body that is passed through is gone.
    pub fn read_from(&self, start: u64) -> Option<BodyReader> {
        BodyReader::new(&self.body, start)
    }

    /// Whether a purge has removed it: it must not be stored anywhere any more.
    pub fn is_purged(&self) -> bool {
        self.body.is_purged()
    }

    /// What its body is known by in a file, if it was written to one or read from one.
    pub(crate) fn file_body(&self) -> Option<FileBodyId> {
        self.body.file_body()
    }

    /// Its body is in a file.
    pub fn set_file_body(&self, id: FileBodyId) {
        self.body.set_file_body(id);
    }

    /// Whether a request asks the server about it now.
    pub fn is_refreshing(&self) -> bool {
        self.is_refreshing.load(Ordering::Relaxed)
    }

    pub(super) fn set_refreshing(&self, is_refreshing: bool) {
        self.is_refreshing.store(is_refreshing, Ordering::Relaxed);
    }

    /// Marks it stale.
    pub(super) fn expire(&self, now: CacheTime) {
        self.stale_since.fetch_min(now.millis(), Ordering::Relaxed);
    }

    /// Bytes of memory but for its body.
    pub(super) fn bytes(&self) -> u64 {
        let tags: usize =
            self.tags.iter().map(|tag| tag.len() + ALLOCATION_BYTES + size_of::<Box<[u8]>>()).sum();
        let allocations = 6 * ALLOCATION_BYTES;
        let fixed = size_of::<Self>() + size_of::<CacheBody>() + allocations + SLOT_BYTES;
        (fixed + self.key.len() + self.head.bytes() + tags + self.vary.bytes()) as u64
    }
}

/// What an allocation takes beyond its size: rounding up to the next class, on average.
pub(super) const ALLOCATION_BYTES: usize = 16;

/// What a slot takes in the tables of the store: an entry, its place in the hash table, and its share of the keys that are remembered behind
/// their eviction.
pub(super) const SLOT_BYTES: usize = 128;

/// The tags of `Cache-Tag` (separated by commas) and `Surrogate-Key` (by spaces).
pub(crate) fn tags_of(head: &StoredHead) -> Box<[Box<[u8]>]> {
    let fields = head.view();
    let by_comma = fields.all("cache-tag").flat_map(|value| value.split(|byte| *byte == b','));
    let by_space = fields.all("surrogate-key").flat_map(|value| value.split(|byte| *byte == b' '));
    let tags = by_comma.chain(by_space).map(<[u8]>::trim_ascii);
    tags.filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX).take(TAGS_MAX).map(Box::from).collect()
}
