//! What all threads share about a folder.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::header::FileHeader;
use super::index::{DiskIndex, DiskLimits};
use super::paths::{FolderPaths, remove_file};
use crate::rules::Lifetime;
use crate::store::{KeySecret, KnownPartitions, PurgeMode, PurgeScope, SlotKey, key_text, tags_of};
use crate::time::CacheTime;

pub(super) struct DiskState {
    pub(super) paths: FolderPaths,
    pub(super) secret: KeySecret,
    pub(super) limits: DiskLimits,
    pub(super) index: DiskIndex,
    /// Those of keys that have files.
    pub(super) partitions: KnownPartitions,
    /// Numbers files that are being written, and purges.
    pub(super) next: AtomicU64,
    pub(super) purges: Mutex<ActivePurges>,
    /// Files that are being written, and whether a purge has covered them.
    pub(super) writing: Mutex<HashMap<u64, WritingMark>>,
    /// Held while the header of a file is replaced.
    pub(super) rewriting: Mutex<()>,
    /// Held while a folder that was emptied by others gets what belongs into it.
    pub(super) restoring: Mutex<()>,
    /// Bytes written to files.
    pub(super) written_bytes: AtomicU64,
}

/// The purges in force.
#[derive(Debug, Default)]
pub(super) struct ActivePurges {
    pub(super) list: Vec<ActivePurge>,
    /// Purges of one key each, in one partition or by their text in all, for as long as the folder is being scanned: the hardest, and when it was.
    keys: HashMap<SlotKey, (PurgeMode, CacheTime)>,
    /// Whether all files of the folder are in the index: until then a purge stays in force, for those that are not.
    pub(super) is_scanned: bool,
}

/// Keys whose purges are kept at most while the folder is scanned; when there are more, all that is older is purged.
const PURGED_KEYS_MAX: usize = 100_000;

impl ActivePurges {
    /// Keeps a purge of one key in force until the scan has ended.
    pub(super) fn note_key(&mut self, primary: SlotKey, mode: PurgeMode, at: CacheTime) {
        if self.is_scanned {
            return;
        }
        if self.keys.len() >= PURGED_KEYS_MAX && !self.keys.contains_key(&primary) {
            self.keys.clear();
            let (scope, mode) = (OwnedScope::All, PurgeMode::Hard);
            return self.list.push(ActivePurge { id: 0, scope, mode, at, is_done: true, path: None });
        }
        let purged = self.keys.entry(primary).or_insert((mode, at));
        *purged = (*purged).max((mode, at));
    }

    /// All files are in the index: purges that are done with it are over.
    pub(super) fn end_scan(&mut self) -> Vec<ActivePurge> {
        self.is_scanned = true;
        self.keys = HashMap::new();
        self.list.extract_if(.., |purge| purge.is_done).collect()
    }

    /// Those about this response.
    fn of(&self, header: &FileHeader, text: SlotKey) -> impl Iterator<Item = (PurgeMode, CacheTime)> {
        let slots =
            if text == header.primary { [Some(text), None] } else { [Some(header.primary), Some(text)] };
        let of_key = slots.into_iter().flatten().filter_map(|slot| self.keys.get(&slot).copied());
        let listed = self.list.iter().filter(|purge| covers(&purge.scope.borrow(), header));
        let all = listed.map(|purge| (purge.mode, purge.at)).chain(of_key);
        all.filter(|(_, at)| header.stored <= *at)
    }
}

/// A purge that has not reached all files yet: what was written before it is not sent, or only as stale.
#[derive(Debug)]
pub(super) struct ActivePurge {
    pub(super) id: u64,
    pub(super) scope: OwnedScope,
    pub(super) mode: PurgeMode,
    /// When it was.
    pub(super) at: CacheTime,
    /// Whether the files of the index are done.
    pub(super) is_done: bool,
    /// Where it is kept over the end of the process.
    pub(super) path: Option<PathBuf>,
}

/// A [`PurgeScope`] that is kept: one of more than a key.
#[derive(Debug, Clone)]
pub(super) enum OwnedScope {
    All,
    Prefix(Box<[u8]>),
    Tag(Box<[u8]>),
}

/// A file that is being written, or whose header is.
#[derive(Debug)]
pub(super) struct WritingMark {
    pub(super) key: Box<[u8]>,
    pub(super) tags: Box<[Box<[u8]>]>,
    /// The hardest purge meanwhile, and when it was.
    pub(super) purged: Option<(PurgeMode, CacheTime)>,
}

impl OwnedScope {
    pub(super) fn borrow(&self) -> PurgeScope<'_> {
        match self {
            Self::All => PurgeScope::All,
            Self::Prefix(text) => PurgeScope::Prefix(text),
            Self::Tag(text) => PurgeScope::Tag(text),
        }
    }
}

/// Whether a purge is about this response.
pub(super) fn covers(scope: &PurgeScope<'_>, header: &FileHeader) -> bool {
    let tags = tags_of(&header.head);
    scope.covers(&header.key, tags.iter().map(|tag| &**tag))
}

impl DiskState {
    /// By what a purge of a key in all partitions is noted.
    fn slot_of_text(&self, header: &FileHeader) -> SlotKey {
        self.primary(key_text(&header.key))
    }

    /// The times of a response, as purges under way leave them; `None` when one removes it.
    pub(super) fn times_under_purges(&self, header: &FileHeader) -> Option<Lifetime> {
        lock(&self.purges).of(header, self.slot_of_text(header)).try_fold(
            header.lifetime,
            |lifetime, (mode, at)| match mode {
                PurgeMode::Hard => None,
                PurgeMode::Soft => Some(lifetime.expired(at)),
            },
        )
    }

    /// Begins to write a file or a header: purges from now on are noted. Ends with [`DiskState::end_writing`].
    pub(super) fn begin_writing(&self, key: &[u8], tags: Box<[Box<[u8]>]>) -> u64 {
        self.partitions.note(key);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.writing).insert(id, WritingMark { key: key.into(), tags, purged: None });
        id
    }

    pub(super) fn end_writing(&self, id: u64) {
        lock(&self.writing).remove(&id);
    }

    /// The hardest purge since the writing began.
    pub(super) fn purged_meanwhile(&self, id: u64) -> Option<(PurgeMode, CacheTime)> {
        lock(&self.writing).get(&id).and_then(|mark| mark.purged)
    }

    /// Blocking: `create` makes a file. When its folder is gone, since an operator has emptied that of the cache (`rm -r`), it is made anew, with the
    /// secret by which a later start knows the files.
    pub(super) fn create_with_folders<T>(&self, create: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            created => return created,
        }
        let guard = lock(&self.restoring);
        self.paths.make_folders()?;
        if !self.paths.secret().try_exists()? {
            self.paths.write_secret(self.secret)?;
        }
        drop(guard);
        create()
    }

    /// Blocking: removes the files that have left the index.
    pub(super) fn remove_left(&self) -> usize {
        let slots = self.index.take_left();
        for slot in &slots {
            // One that stays is found by the next scan.
            remove_file(&self.paths.of(*slot)).ok();
        }
        slots.len()
    }

    /// When a file is of no use any more.
    pub(super) fn useless_from(&self, header: &FileHeader) -> CacheTime {
        self.useless_behind(header, header.lifetime)
    }

    /// The same with other times than those of the header.
    pub(super) fn useless_behind(&self, header: &FileHeader, lifetime: Lifetime) -> CacheTime {
        let view = header.head.view();
        let has_validator = view.contains("etag") || view.contains("last-modified");
        lifetime.useless_from(if has_validator { self.limits.keep_stale_ms } else { 0 })
    }

    /// When purges under way have made this response stale.
    pub(super) fn soft_purges_of(&self, header: &FileHeader) -> Vec<CacheTime> {
        let purges = lock(&self.purges);
        let of_header = purges.of(header, self.slot_of_text(header));
        of_header.filter(|(mode, _)| *mode == PurgeMode::Soft).map(|(_, at)| at).collect()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
