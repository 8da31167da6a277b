//! A cache in the form the data path uses: the store that all workers share, its counters, and what a route makes of it.
//!
//! The store goes on over reloads under the name of the cache, as long as its limits and its folder stay the same.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weir_cache::CacheTime;
use weir_cache::disk::{DiskFolder, DiskLimits};
use weir_cache::rules::{ClientRules, IgnoredVary, StatusTtl, StoreRules, normal_key};
use weir_cache::store::{
    BodyMemory, EvictionReason, KeptBytes, KeyPartition, KeySecret, PurgeMode, PurgeScope, Store,
    StoreLimits, StoredResponse,
};
use weir_config::{AccelField, CacheDisk, CacheStore, IgnoredVaryField, PartitionName, Route, RouteCache};
use weir_observe::prometheus::{CacheHoldings, DiskHoldings};
use weir_observe::{CacheShard, PerWorker};

use super::cache_keys::{RequestClass, by_way_of, fields_written_for, under_rules};
use crate::net::clock;
use crate::net::files::file::DiskWait;
use crate::net::sys::pages::{PageMemory, Pages};

/// A cache.
#[derive(Debug)]
pub struct CachePlan {
    /// The cache in the config.
    pub config: Arc<CacheStore>,
    /// What goes on in the next config.
    pub state: Arc<CacheState>,
}

/// What a cache keeps over reloads.
#[derive(Debug)]
pub struct CacheState {
    name: Box<str>,
    /// The responses in memory.
    pub store: Store,
    /// Those in files.
    pub disk: Option<DiskFolder>,
    /// Where large bodies of these are.
    pages: Option<Arc<PageMemory>>,
    /// Bytes that it may hold, fewer than the config says while memory is short.
    bound: AtomicU64,
    /// Responses that are being written to files.
    writing: AtomicUsize,
    /// Writes that have failed, or that were left out since there were too many.
    write_failures: AtomicU64,
    /// What each worker counts.
    pub shards: PerWorker<CacheShard>,
}

/// Responses that are written to files at once: more are only in memory.
const WRITING_MAX: usize = 64;

/// Bytes of files for which there is one at most: each takes about 250 bytes of memory.
const BYTES_PER_FILE_MIN: u64 = 16 * 1024;
const FILES_MAX: u64 = 4_000_000;

/// How long a stale response is kept in a file so that the server can confirm it, in milliseconds.
const KEEP_STALE_MS: u64 = 24 * 3_600_000;

/// What is of use for less time is not written to a file, in milliseconds.
const WRITTEN_MIN_MS: u64 = 10_000;

impl CachePlan {
    /// `before`: the cache of this name in the config of before.
    pub(in crate::state) fn new(
        config: &Arc<CacheStore>,
        workers: usize,
        before: Option<&CachePlan>,
    ) -> Self {
        let is_same = |before: &&CachePlan| {
            let (old, new) = (&before.config, config);
            (old.memory, old.response_max, &old.disk) == (new.memory, new.response_max, &new.disk)
        };
        let state = before
            .filter(is_same)
            .map_or_else(|| Arc::new(CacheState::new(config, workers)), |before| Arc::clone(&before.state));
        Self { config: Arc::clone(config), state }
    }
}

/// Addresses for large bodies, more of them than memory, so that there is a place in one piece as long as there is memory.
const ADDRESSES_PER_BYTE: u64 = 4;

/// Where large bodies are kept, so that the kernel can send them without a copy. Without such a place they are on the heap.
fn body_memory(config: &CacheStore) -> Option<Arc<PageMemory>> {
    match PageMemory::new(config.memory.saturating_mul(ADDRESSES_PER_BYTE)) {
        Ok(memory) => Some(memory),
        Err(error) => {
            tracing::warn!(cache = %config.name, %error, "large responses of the cache are copied when they are sent: no memory file");
            None
        }
    }
}

#[derive(Debug)]
struct BodyPages(Arc<PageMemory>);

impl BodyMemory for BodyPages {
    fn keep(&self, chunks: &[&[u8]]) -> Option<Box<dyn KeptBytes>> {
        self.0.keep(chunks).map(|pages| Box::new(pages) as Box<dyn KeptBytes>)
    }
}

impl KeptBytes for Pages {
    fn bytes(&self) -> &[u8] {
        Pages::bytes(self)
    }

    fn file(&self) -> (BorrowedFd<'_>, u64) {
        Pages::file(self)
    }
}

impl CacheState {
    fn new(config: &CacheStore, workers: usize) -> Self {
        let disk = config.disk.as_ref().and_then(|disk| open_folder(config, disk));
        let limits = StoreLimits { memory_max: config.memory, object_max: config.response_max };
        let secret = disk.as_ref().map_or_else(random_secret, DiskFolder::secret);
        let pages = body_memory(config);
        let bodies =
            pages.as_ref().map(|pages| Arc::new(BodyPages(Arc::clone(pages))) as Arc<dyn BodyMemory>);
        Self {
            name: config.name.clone(),
            store: Store::with_memory(limits, secret, bodies),
            pages,
            bound: AtomicU64::new(config.memory),
            disk,
            writing: AtomicUsize::new(0),
            write_failures: AtomicU64::new(0),
            shards: PerWorker::new(workers),
        }
    }

    /// Writes a response whose body is complete to its file, on a thread of its own.
    pub(crate) fn keep_in_file(self: &Arc<Self>, stored: &Arc<StoredResponse>) {
        self.write_file(stored, DiskFolder::write);
    }

    /// Gives the file of a response the fields and times that the server has confirmed. Its body is written only when it is not in the file.
    pub(crate) fn freshen_file(self: &Arc<Self>, stored: &Arc<StoredResponse>) {
        self.write_file(stored, |folder, stored, now| {
            Ok(folder.freshen(stored, now)? || folder.write(stored, now)?)
        });
    }

    fn write_file(
        self: &Arc<Self>,
        stored: &Arc<StoredResponse>,
        write: fn(&DiskFolder, &Arc<StoredResponse>, CacheTime) -> io::Result<bool>,
    ) {
        let Some(folder) = &self.disk else { return };
        let now = cache_now();
        if stored.body().len().is_none() || stored.lifetime().useless_from(0) < now.after(WRITTEN_MIN_MS) {
            return;
        }
        if self.writing.fetch_add(1, Ordering::Relaxed) >= WRITING_MAX {
            self.writing.fetch_sub(1, Ordering::Relaxed);
            self.write_failures.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (state, folder, stored) = (Arc::clone(self), folder.clone(), Arc::clone(stored));
        // Nothing waits for it.
        drop(DiskWait::run(move || {
            let written = write(&folder, &stored, now);
            folder.remove_left();
            state.writing.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = written {
                let count = state.write_failures.fetch_add(1, Ordering::Relaxed) + 1;
                if count.is_power_of_two() {
                    let (cache, folder) = (&*state.name, folder.path().display());
                    tracing::warn!(cache, %folder, %error, count, "a stored response could not be written to its file");
                }
            }
        }));
    }

    /// Forgets a response that the server has another version of, in memory and in its file.
    pub(crate) fn forget(&self, stored: &StoredResponse) {
        self.store.remove(stored);
        self.forget_file(stored);
    }

    /// Forgets the file of a response that the server has another version of.
    pub(crate) fn forget_file(&self, stored: &StoredResponse) {
        if let Some(folder) = self.disk.as_ref().filter(|folder| folder.forget(stored)) {
            let folder = folder.clone();
            // Nothing waits for it.
            drop(DiskWait::run(move || folder.remove_left()));
        }
    }
}

/// Opens the folder of a cache, and looks at what is in it behind the start. Without it the cache has its memory alone.
fn open_folder(config: &CacheStore, disk: &CacheDisk) -> Option<DiskFolder> {
    let limits = DiskLimits {
        bytes_max: disk.size,
        files_max: (disk.size / BYTES_PER_FILE_MIN).clamp(1, FILES_MAX),
        object_max: config.response_max,
        keep_stale_ms: KEEP_STALE_MS,
    };
    let folder = match DiskFolder::open(&disk.folder, limits, random()) {
        Ok(folder) => folder,
        Err(error) => {
            let (cache, folder) = (&*config.name, disk.folder.display());
            tracing::error!(cache, %folder, %error, "the folder of the cache cannot be used: it has its memory alone");
            return None;
        }
    };
    let (scanned, cache) = (folder.clone(), config.name.clone());
    let scan = move || match scanned.scan(cache_now(), || true) {
        Ok(report) => {
            tracing::info!(
                cache = &*cache,
                kept = report.kept,
                removed = report.removed,
                "the folder of the cache was read"
            );
        }
        Err(error) => tracing::error!(cache = &*cache, %error, "the folder of the cache cannot be read"),
    };
    if let Err(error) = std::thread::Builder::new().name("weir-cache".to_owned()).spawn(scan) {
        tracing::error!(%error, "the folder of the cache cannot be read");
    }
    Some(folder)
}

impl CachePlan {
    /// Bytes that it is counted with now.
    pub fn bytes(&self) -> u64 {
        self.state.store.size().bytes
    }

    /// Bytes of bodies in its file of memory.
    pub fn file_bytes(&self) -> u64 {
        self.state.pages.as_ref().map_or(0, |pages| pages.used_bytes())
    }

    /// Bounds it by so many bytes of memory, since memory is short; it grows again by [`CachePlan::grow`] only.
    pub fn bound(&self, bytes: u64) {
        let bytes = bytes.min(self.config.memory);
        self.state.bound.store(bytes, Ordering::Relaxed);
        self.state.store.set_memory_max(bytes);
    }

    /// Lets it have a tenth more of its memory, up to that of the config; whether it was bounded.
    pub fn grow(&self) -> bool {
        let before = self.state.bound.load(Ordering::Relaxed);
        let is_bounded = before < self.config.memory;
        if is_bounded {
            self.bound(before.saturating_add((self.config.memory / 10).max(1)));
        }
        is_bounded
    }

    /// What it holds now.
    pub fn holds(&self) -> CacheHoldings {
        let size = self.state.store.size();
        let evictions = EvictionReason::ALL.iter().map(|reason| reason.as_str()).zip(size.evictions);
        CacheHoldings {
            responses: size.objects,
            memory_bytes: size.bytes,
            memory_bytes_max: self.config.memory,
            disk: self.state.disk.as_ref().map(|folder| {
                let size = folder.size();
                DiskHoldings {
                    files: size.files,
                    bytes: size.bytes,
                    bytes_max: folder.limits().bytes_max,
                    evictions: size.evictions,
                    written_bytes: size.written_bytes,
                    write_failures: self.state.write_failures.load(Ordering::Relaxed),
                }
            }),
            evictions: evictions.collect(),
        }
    }

    /// Removes responses, or marks them stale; how many. Waits for the disk, if there are files.
    pub fn purge(&self, purge: Purge<'_>) -> usize {
        let mode = if purge.is_soft { PurgeMode::Soft } else { PurgeMode::Hard };
        // As it is written, too: routes may have keys of other forms.
        match purge.part {
            PurgedPart::All => self.purge_scope(PurgeScope::All, mode),
            PurgedPart::Tag(tag) => self.purge_scope(PurgeScope::Tag(tag), mode),
            PurgedPart::Key(key) => {
                let others = normal_key(key).map_or(0, |key| self.purge_scope(PurgeScope::Key(&key), mode));
                others + self.purge_scope(PurgeScope::Key(key), mode)
            }
            PurgedPart::Prefix(prefix) => {
                let others = normal_key(prefix)
                    .map_or(0, |prefix| self.purge_scope(PurgeScope::Prefix(&prefix), mode));
                others + self.purge_scope(PurgeScope::Prefix(prefix), mode)
            }
        }
    }

    fn purge_scope(&self, scope: PurgeScope<'_>, mode: PurgeMode) -> usize {
        let (now, store) = (cache_now(), &self.state.store);
        let Some(folder) = &self.state.disk else { return store.purge(scope, mode, now) };
        match folder.purge_with(store, scope, mode, now) {
            Ok((in_memory, in_files)) => in_memory.max(in_files),
            Err(error) => {
                let (cache, folder) = (&*self.config.name, folder.path().display());
                tracing::warn!(cache, %folder, %error, "files of purged responses could not be removed");
                0
            }
        }
    }
}

/// Which responses are removed, or marked stale.
#[derive(Debug, Clone, Copy)]
pub struct Purge<'a> {
    /// Which.
    pub part: PurgedPart<'a>,
    /// Whether they are only marked.
    pub is_soft: bool,
}

/// A part of a cache.
#[derive(Debug, Clone, Copy)]
pub enum PurgedPart<'a> {
    /// Everything.
    All,
    /// The response of a key, in all variants.
    Key(&'a [u8]),
    /// Those whose keys begin so.
    Prefix(&'a [u8]),
    /// Those with a tag.
    Tag(&'a [u8]),
}

/// The secret of a new store.
pub(in crate::state) fn random_secret() -> KeySecret {
    KeySecret(random())
}

/// Keeps clients from choosing keys that share a place in the store.
fn random() -> [u8; 16] {
    let mut random = [0; 16];
    // Without random bytes keys are only easier to guess.
    aws_lc_rs::rand::fill(&mut random).ok();
    random
}

/// What a route stores, and how it uses that again.
#[derive(Debug)]
pub(crate) struct RouteCachePlan {
    pub(crate) plan: Arc<CachePlan>,
    /// What ends its keys, for each target of its split.
    partitions: Box<[PartitionName]>,
    pub(crate) rules: StoreRules,
    pub(crate) client: ClientRules,
}

impl RouteCachePlan {
    /// `written`: fields that the listener writes for each request.
    pub(in crate::state) fn new(
        route: &Route,
        plans: &[Arc<CachePlan>],
        written: &[Box<str>],
    ) -> Option<Box<Self>> {
        // Without a partition the responses of a route would be for those of all others.
        let config = route.cache.as_deref().filter(|config| !config.partitions.is_empty())?;
        let plan = plans.iter().find(|plan| plan.config.name == config.store.name)?;
        let ttls = config.ttl.iter().flat_map(|ttl| {
            ttl.status.iter().map(|range| StatusTtl {
                statuses: range.bounds().0..=range.bounds().1,
                ttl_ms: millis(ttl.time),
                overrides: config.override_ttl,
            })
        });
        let obeys = config.obey_clients;
        Some(Box::new(Self {
            plan: Arc::clone(plan),
            partitions: config.partitions.clone(),
            rules: StoreRules {
                ttls: ttls.collect(),
                stale_while_revalidate_ms: config.stale_while_revalidate.map_or(0, millis),
                stale_if_error_ms: config.stale_if_error.map_or(0, millis),
                ignores_origin: config.override_ttl,
                obeys_accel_expires: route.x_accel.contains(&AccelField::Expires),
                ignores_set_cookie: config.ignore_set_cookie,
                obeys_request_no_store: obeys,
                ignored_vary: ignored_vary(config),
                written_fields: written.iter().cloned().chain(fields_written_for(route, config)).collect(),
                ..StoreRules::default()
            },
            client: ClientRules { no_cache: obeys, ages: obeys },
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.plan.state.store
    }

    /// Makes the text of a key that of requests of this class to this target of the split, of which rules change the headers that are `applied`, and which
    /// have come by way of other routes; `false`: there is no such target.
    pub(crate) fn end_key(
        &self,
        key: &mut Vec<u8>,
        target: usize,
        (class, applied): (RequestClass, u8),
        trail: impl Iterator<Item = PartitionName>,
    ) -> bool {
        let Some(name) = self.partitions.get(target) else { return false };
        let name = under_rules(by_way_of(*name, trail), applied);
        KeyPartition::new(name, class.number()).end(key);
        true
    }
}

fn ignored_vary(config: &RouteCache) -> IgnoredVary {
    let names = config.ignore_vary.iter().filter_map(|field| match field {
        IgnoredVaryField::Named(name) => Some(Box::from(&**name)),
        IgnoredVaryField::Others => None,
    });
    IgnoredVary { names: names.collect(), others: config.ignore_vary.contains(&IgnoredVaryField::Others) }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The time that responses are stored by.
pub(crate) fn cache_now() -> CacheTime {
    CacheTime::from_millis(millis(clock::unix_now()))
}
