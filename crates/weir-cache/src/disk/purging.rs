//! Purges of files. One that is cut short by the end of the process goes on when the folder is scanned.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::header::FileHeader;
use super::index::IndexedFile;
use super::paths::remove_file;
use super::reading::read_header;
use super::state::{ActivePurge, DiskState, OwnedScope, covers, lock};
use crate::store::{CacheKey, PurgeMode, PurgeScope, SlotKey};
use crate::time::CacheTime;

impl DiskState {
    /// The slot of a key.
    pub(super) fn primary(&self, key: &[u8]) -> SlotKey {
        CacheKey::new(&self.secret, key).slot
    }

    /// Blocking: removes the files that a purge is about, or marks them stale; how many there were. From the call on none of them is opened as one
    /// that is fresh.
    pub(super) fn purge(&self, scope: PurgeScope<'_>, mode: PurgeMode, at: CacheTime) -> io::Result<usize> {
        self.mark_writing(&scope, mode, at);
        let owned = match scope {
            PurgeScope::Exact(key) => return Ok(self.purge_key(key, mode, at)),
            PurgeScope::Key(text) => {
                // Noted as a text first: files that are not in the index yet may be of partitions that are not known yet.
                lock(&self.purges).note_key(self.primary(text), mode, at);
                return Ok(self.partitions.keys(text).iter().map(|key| self.purge_key(key, mode, at)).sum());
            }
            PurgeScope::All => OwnedScope::All,
            PurgeScope::Prefix(text) => OwnedScope::Prefix(text.into()),
            PurgeScope::Tag(text) => OwnedScope::Tag(text.into()),
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let text = encode_purge(&owned, mode, at);
        lock(&self.purges).list.push(ActivePurge { id, scope: owned, mode, at, is_done: false, path: None });
        // Kept on disk while it runs; without that a crash would bring back what was purged.
        let path = self.paths.purges().join(format!("{:020}.{id}", at.millis()));
        let is_kept = self.create_with_folders(|| std::fs::write(&path, &text));
        let count = self.purge_covered(&scope, mode, at);
        let is_removed = self.end_purge(id, path).map_or(Ok(()), |path| remove_file(&path));
        is_kept.and(is_removed).map(|()| count)
    }

    /// The files of the index are done. What is left of the purge on disk, to be removed: nothing as long as the folder is being scanned.
    fn end_purge(&self, id: u64, path: PathBuf) -> Option<PathBuf> {
        let mut purges = lock(&self.purges);
        if purges.is_scanned {
            purges.list.retain(|purge| purge.id != id);
            return Some(path);
        }
        if let Some(purge) = purges.list.iter_mut().find(|purge| purge.id == id) {
            purge.is_done = true;
            purge.path = Some(path);
        }
        None
    }

    fn mark_writing(&self, scope: &PurgeScope<'_>, mode: PurgeMode, at: CacheTime) {
        for mark in lock(&self.writing).values_mut() {
            if scope.covers(&mark.key, mark.tags.iter().map(|tag| &**tag)) {
                mark.purged = mark.purged.max(Some((mode, at)));
            }
        }
    }

    fn purge_key(&self, key: &[u8], mode: PurgeMode, at: CacheTime) -> usize {
        let primary = self.primary(key);
        lock(&self.purges).note_key(primary, mode, at);
        let count = match mode {
            PurgeMode::Hard => self.index.forget_key(primary),
            PurgeMode::Soft => {
                let files = self.index.files_of_key(primary);
                files.iter().filter(|(slot, file)| self.expire(*slot, file, at)).count()
            }
        };
        self.remove_left();
        count
    }

    fn purge_covered(&self, scope: &PurgeScope<'_>, mode: PurgeMode, at: CacheTime) -> usize {
        let mut count = 0;
        for (slot, file) in self.index.files() {
            let is_covered = matches!(scope, PurgeScope::All)
                || self.header_of(slot).is_none_or(|header| covers(scope, &header));
            count += usize::from(
                is_covered
                    && match mode {
                        PurgeMode::Hard => self.index.forget(slot, &file),
                        PurgeMode::Soft => self.expire(slot, &file, at),
                    },
            );
        }
        self.remove_left();
        count
    }

    /// Blocking: marks a file stale. Whether there was one: when it is of no use as a stale one, or cannot be marked, it is forgotten.
    pub(super) fn expire(&self, slot: SlotKey, file: &Arc<IndexedFile>, at: CacheTime) -> bool {
        let expired = self.rewrite_header(slot, |header| {
            Some(FileHeader { lifetime: header.lifetime.expired(at), ..header.clone() })
        });
        match expired {
            Ok(Some(header)) if self.useless_from(&header) > at => {
                file.useless_from.store(self.useless_from(&header).millis(), Ordering::Relaxed);
                self.index.contains(slot)
            }
            Ok(_) | Err(_) => self.index.forget(slot, file),
        }
    }

    fn header_of(&self, slot: SlotKey) -> Option<FileHeader> {
        let mut file = std::fs::File::open(self.paths.of(slot)).ok()?;
        read_header(&mut file, self).ok()?.ok().map(|(header, _)| header)
    }

    /// Blocking: purges that an earlier process did not bring to their end. They are in force until [`DiskState::end_scan`].
    pub(super) fn read_earlier_purges(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.paths.purges())? {
            let path = entry?.path();
            let Some((scope, mode, at)) = std::fs::read(&path).ok().and_then(|bytes| decode_purge(&bytes))
            else {
                remove_file(&path)?;
                continue;
            };
            let mut purges = lock(&self.purges);
            // One of this process is there already.
            if purges.list.iter().all(|purge| purge.path.as_ref() != Some(&path)) {
                purges.list.push(ActivePurge { id: 0, scope, mode, at, is_done: true, path: Some(path) });
            }
        }
        Ok(())
    }

    /// Blocking: all files are in the index, and those of them that purges were about are removed or marked.
    pub(super) fn end_scan(&self) {
        let done = lock(&self.purges).end_scan();
        for path in done.into_iter().filter_map(|purge| purge.path) {
            remove_file(&path).ok();
        }
    }
}

/// Letters of the kinds of purges in files, and the small ones for those that remove.
fn encode_purge(scope: &OwnedScope, mode: PurgeMode, at: CacheTime) -> Vec<u8> {
    let (kind, text): (u8, &[u8]) = match scope {
        OwnedScope::All => (b'a', b""),
        OwnedScope::Prefix(text) => (b'p', text),
        OwnedScope::Tag(text) => (b't', text),
    };
    let kind = if mode == PurgeMode::Soft { kind.to_ascii_uppercase() } else { kind };
    [&[kind], &at.millis().to_le_bytes()[..], text].concat()
}

fn decode_purge(bytes: &[u8]) -> Option<(OwnedScope, PurgeMode, CacheTime)> {
    let (kind, rest) = bytes.split_first()?;
    let (at, text) = rest.split_first_chunk()?;
    let scope = match kind.to_ascii_lowercase() {
        b'a' => OwnedScope::All,
        b'p' => OwnedScope::Prefix(text.into()),
        b't' => OwnedScope::Tag(text.into()),
        _ => return None,
    };
    let mode = if kind.is_ascii_uppercase() { PurgeMode::Soft } else { PurgeMode::Hard };
    Some((scope, mode, CacheTime::from_millis(u64::from_le_bytes(*at))))
}
