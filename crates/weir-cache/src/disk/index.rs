//! Which files there are, in the order of their use, bounded in bytes and in number.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use super::header::FileHeader;
use crate::head::HeadView;
use crate::rules::VaryRule;
use crate::store::{CacheKey, SlotHasherBuilder, SlotKey};
use crate::time::CacheTime;

/// Bounds of the files in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLimits {
    /// Bytes on disk, files rounded up to blocks.
    pub bytes_max: u64,
    /// Number of files: each takes about 250 bytes of memory.
    pub files_max: u64,
    /// Bytes of one body.
    pub object_max: u64,
    /// How long a stale response is kept so that the server can confirm it, in milliseconds.
    pub keep_stale_ms: u64,
}

/// What is on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskSize {
    /// Files.
    pub files: u64,
    /// Bytes that they are counted with: at least `bytes_max / files_max` each.
    pub bytes: u64,
    /// Files that have made room for others.
    pub evictions: u64,
    /// Bytes written to files since the start, those of replaced headers included.
    pub written_bytes: u64,
}

/// A file that may hold the response to a request.
#[derive(Debug, Clone)]
pub struct DiskHit {
    pub(super) slot: SlotKey,
    pub(super) file: Arc<IndexedFile>,
    /// Whether it was asked for before: it is worth memory.
    pub was_used: bool,
    /// Length of its body.
    pub body_len: u64,
}

/// One file.
#[derive(Debug)]
pub(super) struct IndexedFile {
    pub(super) body_len: u64,
    bytes: u64,
    /// Responses that vary have the same one as their key.
    vary: Option<Arc<VaryRule>>,
    pub(super) is_verified: AtomicBool,
    was_used: AtomicBool,
    /// When it is of no use any more.
    pub(super) useless_from: AtomicU64,
}

/// What is under a key.
#[derive(Debug, Clone)]
enum IndexSlot {
    File(Arc<IndexedFile>),
    /// Responses depend on fields of the request.
    Varies(Arc<VariantFiles>),
}

/// The variants of one key.
#[derive(Debug)]
struct VariantFiles {
    /// Files have the same `Arc`.
    rule: Arc<VaryRule>,
    /// The oldest first.
    slots: Mutex<VecDeque<SlotKey>>,
}

/// Files that the variants of one key may have.
const VARIANTS_MAX: usize = 64;

/// Files take whole blocks.
const BLOCK_BYTES: u64 = 4_096;

#[derive(Debug, Clone, Copy)]
struct FileWeighter {
    bytes_min: u64,
}

impl Weighter<SlotKey, IndexSlot> for FileWeighter {
    fn weight(&self, _: &SlotKey, slot: &IndexSlot) -> u64 {
        match slot {
            IndexSlot::File(file) => file.bytes.next_multiple_of(BLOCK_BYTES).max(self.bytes_min),
            IndexSlot::Varies(_) => self.bytes_min,
        }
    }
}

/// Files that have left the index and are to be removed.
#[derive(Debug, Default)]
struct LeftFiles {
    slots: Mutex<Vec<SlotKey>>,
    /// Files of keys that have left: they can not be found any more.
    orphans: Mutex<Vec<SlotKey>>,
    count: AtomicU64,
}

#[derive(Debug, Clone)]
struct FileLifecycle(Arc<LeftFiles>);

impl Lifecycle<SlotKey, IndexSlot> for FileLifecycle {
    type RequestState = Vec<IndexSlot>;

    fn on_evict(&self, state: &mut Self::RequestState, key: SlotKey, slot: IndexSlot) {
        match &slot {
            IndexSlot::File(_) => {
                lock(&self.0.slots).push(key);
                self.0.count.fetch_add(1, Ordering::Relaxed);
            }
            IndexSlot::Varies(variants) => lock(&self.0.orphans).extend(lock(&variants.slots).drain(..)),
        }
        state.push(slot);
    }
}

fn is_same_rule(one: Option<&Arc<VaryRule>>, other: &Arc<VaryRule>) -> bool {
    one.is_some_and(|one| Arc::ptr_eq(one, other))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All files of a folder.
pub(super) struct DiskIndex {
    slots: Cache<SlotKey, IndexSlot, FileWeighter, SlotHasherBuilder, FileLifecycle>,
    left: Arc<LeftFiles>,
}

impl DiskIndex {
    pub(super) fn new(limits: DiskLimits) -> Self {
        let left = Arc::<LeftFiles>::default();
        let shards = (limits.bytes_max / (4 * (limits.object_max + BLOCK_BYTES))).clamp(1, 16).ilog2();
        let shards = 1_usize << shards;
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(
                usize::try_from(limits.files_max).unwrap_or(usize::MAX).max(shards * 32),
            )
            .weight_capacity(limits.bytes_max / shards as u64 * shards as u64)
            .build()
            .expect("capacity and number of items are set");
        let bytes_min = limits.bytes_max.div_ceil(limits.files_max.max(1));
        let lifecycle = FileLifecycle(Arc::clone(&left));
        let slots =
            Cache::with_options(options, FileWeighter { bytes_min }, SlotHasherBuilder::default(), lifecycle);
        Self { slots, left }
    }

    /// The file for a request. Does not wait.
    pub(super) fn find(&self, key: &CacheKey<'_>, request: HeadView<'_>, now: CacheTime) -> Option<DiskHit> {
        let (slot, file) = match self.slots.get(&key.slot)? {
            IndexSlot::File(file) => (key.slot, file),
            IndexSlot::Varies(variants) => {
                let slot = key.variant(&variants.rule, request);
                match self.slots.get(&slot)? {
                    IndexSlot::File(file) if is_same_rule(file.vary.as_ref(), &variants.rule) => (slot, file),
                    _ => return None,
                }
            }
        };
        if now.millis() >= file.useless_from.load(Ordering::Relaxed) {
            self.forget(slot, &file);
            return None;
        }
        let was_used = file.was_used.swap(true, Ordering::Relaxed);
        Some(DiskHit { slot, was_used, body_len: file.body_len, file })
    }

    /// Adds a file that is in its place.
    pub(super) fn insert(
        &self,
        header: &FileHeader,
        body_offset: u64,
        is_verified: bool,
        useless_from: CacheTime,
    ) {
        let vary = (!header.vary.is_empty()).then(|| self.rule_of(header));
        let file = IndexedFile {
            body_len: header.body_len,
            bytes: body_offset + header.body_len,
            vary,
            is_verified: AtomicBool::new(is_verified),
            was_used: AtomicBool::new(false),
            useless_from: AtomicU64::new(useless_from.millis()),
        };
        self.put(header.slot, IndexSlot::File(Arc::new(file)));
    }

    /// The rule by which the variants of a key are found, with this one among them.
    fn rule_of(&self, header: &FileHeader) -> Arc<VaryRule> {
        let variants = match self.slots.peek(&header.primary) {
            Some(IndexSlot::Varies(variants)) if *variants.rule == header.vary => variants,
            _ => {
                let variants = VariantFiles { rule: Arc::new(header.vary.clone()), slots: Mutex::default() };
                let variants = Arc::new(variants);
                self.put(header.primary, IndexSlot::Varies(Arc::clone(&variants)));
                variants
            }
        };
        let mut slots = lock(&variants.slots);
        slots.retain(|slot| *slot != header.slot);
        slots.push_back(header.slot);
        let oldest = if slots.len() > VARIANTS_MAX { slots.pop_front() } else { None };
        drop(slots);
        if let Some(oldest) = oldest {
            self.forget_slot(oldest);
        }
        Arc::clone(&variants.rule)
    }

    /// Adds a file that was there already; not when there is a newer one. Whether it is there now.
    pub(super) fn insert_if_absent(
        &self,
        header: &FileHeader,
        body_offset: u64,
        useless_from: CacheTime,
    ) -> bool {
        if matches!(self.slots.peek(&header.slot), Some(IndexSlot::File(_))) {
            return false;
        }
        self.insert(header, body_offset, false, useless_from);
        self.slots.contains_key(&header.slot)
    }

    /// The file in a slot.
    pub(super) fn get(&self, slot: SlotKey) -> Option<Arc<IndexedFile>> {
        match self.slots.peek(&slot)? {
            IndexSlot::File(file) => Some(file),
            IndexSlot::Varies(_) => None,
        }
    }

    /// All files of a key.
    pub(super) fn files_of_key(&self, primary: SlotKey) -> Vec<(SlotKey, Arc<IndexedFile>)> {
        let slots = match self.slots.peek(&primary) {
            Some(IndexSlot::File(_)) => vec![primary],
            Some(IndexSlot::Varies(variants)) => lock(&variants.slots).iter().copied().collect(),
            None => Vec::new(),
        };
        slots.into_iter().filter_map(|slot| Some((slot, self.get(slot)?))).collect()
    }

    /// Whether there is a file.
    pub(super) fn contains(&self, slot: SlotKey) -> bool {
        matches!(self.slots.peek(&slot), Some(IndexSlot::File(_)))
    }

    fn put(&self, slot: SlotKey, entry: IndexSlot) {
        let is_file = matches!(entry, IndexSlot::File(_));
        self.slots.insert(slot, entry);
        if is_file && self.contains(slot) {
            // What was replaced has the same path: nothing is to be removed.
            let mut left = lock(&self.left.slots);
            let before = left.len();
            left.retain(|other| *other != slot);
            self.left.count.fetch_sub((before - left.len()) as u64, Ordering::Relaxed);
        }
    }

    /// Forgets this file, unless another has taken its place; it is removed by the next [`DiskIndex::take_left`].
    pub(super) fn forget(&self, slot: SlotKey, file: &Arc<IndexedFile>) -> bool {
        let is_same = |entry: &IndexSlot| matches!(entry, IndexSlot::File(other) if Arc::ptr_eq(other, file));
        let is_gone = self.slots.remove_if(&slot, is_same).is_some();
        if is_gone {
            lock(&self.left.slots).push(slot);
        }
        is_gone
    }

    /// Forgets whatever file is there.
    pub(super) fn forget_slot(&self, slot: SlotKey) -> bool {
        let is_gone = matches!(self.slots.remove(&slot), Some((_, IndexSlot::File(_))));
        if is_gone {
            lock(&self.left.slots).push(slot);
        }
        is_gone
    }

    /// Forgets all files of a key; how many there were.
    pub(super) fn forget_key(&self, primary: SlotKey) -> usize {
        match self.slots.peek(&primary) {
            Some(IndexSlot::File(_)) => usize::from(self.forget_slot(primary)),
            Some(IndexSlot::Varies(variants)) => {
                self.slots.remove(&primary);
                let slots = std::mem::take(&mut *lock(&variants.slots));
                slots.into_iter().filter(|slot| self.forget_slot(*slot)).count()
            }
            None => 0,
        }
    }

    /// Files that are to be removed: all that have left and are not there again.
    pub(super) fn take_left(&self) -> Vec<SlotKey> {
        let orphans = std::mem::take(&mut *lock(&self.left.orphans));
        orphans.into_iter().for_each(|slot| {
            self.forget_slot(slot);
        });
        let mut slots = std::mem::take(&mut *lock(&self.left.slots));
        slots.retain(|slot| !self.contains(*slot));
        slots
    }

    /// All files.
    pub(super) fn files(&self) -> impl Iterator<Item = (SlotKey, Arc<IndexedFile>)> {
        self.slots.iter().filter_map(|(slot, entry)| match entry {
            IndexSlot::File(file) => Some((slot, file)),
            IndexSlot::Varies(_) => None,
        })
    }

    pub(super) fn size(&self) -> DiskSize {
        DiskSize {
            files: self.slots.len() as u64,
            bytes: self.slots.weight(),
            evictions: self.left.count.load(Ordering::Relaxed),
            written_bytes: 0,
        }
    }
}
