//! Purges of files. One that is cut short by the end of the process goes on when the folder is scanned.

use std::io;
use std::sync::atomic::Ordering;

use super::header::FileHeader;
use super::paths::remove_file;
use super::reading::read_header;
use super::state::{ActivePurge, DiskState, OwnedScope, covers, lock};
use crate::store::{CacheKey, PurgeScope, SlotKey};
use crate::time::CacheTime;

impl DiskState {
    /// The slot of a key.
    pub(super) fn primary(&self, key: &[u8]) -> SlotKey {
        CacheKey::new(&self.secret, key).slot
    }

    /// Blocking: removes the files that a purge is about; how many there were. From the call on none of them is opened.
    pub(super) fn purge(&self, scope: PurgeScope<'_>, now: CacheTime) -> io::Result<usize> {
        let scope = match scope {
            PurgeScope::Key(key) => return Ok(self.purge_key(key)),
            PurgeScope::All => OwnedScope::All,
            PurgeScope::Prefix(text) => OwnedScope::Prefix(text.into()),
            PurgeScope::Tag(text) => OwnedScope::Tag(text.into()),
        };
        self.mark_writing(&scope.borrow());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.purges).push(ActivePurge { id, scope: scope.clone() });
        // Kept on disk while it runs; without that a crash would bring back what was purged.
        let path = self.paths.purges().join(format!("{:020}.{id}", now.millis()));
        let is_kept = std::fs::write(&path, encode_scope(&scope));
        let count = self.remove_covered(&scope.borrow());
        lock(&self.purges).retain(|purge| purge.id != id);
        is_kept.and_then(|()| remove_file(&path)).map(|()| count)
    }

    fn mark_writing(&self, scope: &PurgeScope<'_>) {
        for mark in lock(&self.writing).values_mut() {
            mark.is_purged |= scope.covers(&mark.key, mark.tags.iter().map(|tag| &**tag));
        }
    }

    fn purge_key(&self, key: &[u8]) -> usize {
        self.mark_writing(&PurgeScope::Key(key));
        let count = self.index.forget_key(self.primary(key));
        self.remove_left();
        count
    }

    fn remove_covered(&self, scope: &PurgeScope<'_>) -> usize {
        let mut count = 0;
        for (slot, file) in self.index.files() {
            let is_covered = matches!(scope, PurgeScope::All)
                || self.header_of(slot).is_none_or(|header| covers(scope, &header));
            count += usize::from(is_covered && self.index.forget(slot, &file));
        }
        self.remove_left();
        count
    }

    fn header_of(&self, slot: SlotKey) -> Option<FileHeader> {
        let mut file = std::fs::File::open(self.paths.of(slot)).ok()?;
        read_header(&mut file, self).ok()?.ok().map(|(header, _)| header)
    }

    /// Blocking: purges that an earlier process did not bring to their end. They are in force until [`DiskState::end_earlier_purges`].
    pub(super) fn read_earlier_purges(&self) -> io::Result<Vec<std::path::PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(self.paths.purges())? {
            let path = entry?.path();
            if let Some(scope) = std::fs::read(&path).ok().and_then(|bytes| decode_scope(&bytes)) {
                lock(&self.purges).push(ActivePurge { id: 0, scope });
            }
            paths.push(path);
        }
        Ok(paths)
    }

    /// Blocking: the scan has removed what they are about.
    pub(super) fn end_earlier_purges(&self, paths: &[std::path::PathBuf]) {
        lock(&self.purges).retain(|purge| purge.id != 0);
        for path in paths {
            remove_file(path).ok();
        }
    }
}

fn encode_scope(scope: &OwnedScope) -> Vec<u8> {
    let (kind, text): (u8, &[u8]) = match scope {
        OwnedScope::All => (b'a', b""),
        OwnedScope::Prefix(text) => (b'p', text),
        OwnedScope::Tag(text) => (b't', text),
    };
    [&[kind], text].concat()
}

fn decode_scope(bytes: &[u8]) -> Option<OwnedScope> {
    match bytes.split_first()? {
        (b'a', _) => Some(OwnedScope::All),
        (b'p', text) => Some(OwnedScope::Prefix(text.into())),
        (b't', text) => Some(OwnedScope::Tag(text.into())),
        _ => None,
    }
}
