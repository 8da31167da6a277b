//! What all threads share about a folder.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::header::FileHeader;
use super::index::{DiskIndex, DiskLimits};
use super::paths::{FolderPaths, remove_file};
use crate::store::{KeySecret, PurgeScope, tags_of};
use crate::time::CacheTime;

pub(super) struct DiskState {
    pub(super) paths: FolderPaths,
    pub(super) secret: KeySecret,
    pub(super) limits: DiskLimits,
    pub(super) index: DiskIndex,
    /// Numbers files that are being written, and purges.
    pub(super) next: AtomicU64,
    pub(super) purges: Mutex<Vec<ActivePurge>>,
    /// Files that are being written, and whether a purge has covered them.
    pub(super) writing: Mutex<HashMap<u64, WritingMark>>,
}

/// A purge whose files have not all been removed yet: none of them is sent.
#[derive(Debug)]
pub(super) struct ActivePurge {
    pub(super) id: u64,
    pub(super) scope: OwnedScope,
}

/// A [`PurgeScope`] that is kept.
#[derive(Debug, Clone)]
pub(super) enum OwnedScope {
    All,
    Prefix(Box<[u8]>),
    Tag(Box<[u8]>),
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct WritingMark {
    pub(super) key: Box<[u8]>,
    pub(super) tags: Box<[Box<[u8]>]>,
    pub(super) is_purged: bool,
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
    /// Whether a purge under way is about this response.
    pub(super) fn is_purged(&self, header: &FileHeader) -> bool {
        lock(&self.purges).iter().any(|purge| covers(&purge.scope.borrow(), header))
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

    pub(super) fn useless_from(&self, header: &FileHeader) -> CacheTime {
        let view = header.head.view();
        let has_validator = view.contains("etag") || view.contains("last-modified");
        header.lifetime.useless_from(if has_validator { self.limits.keep_stale_ms } else { 0 })
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
