//! A folder of stored responses, as its users see it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_sort::CompactSort as _;

use super::header::{FileHeader, HeaderPlace};
use super::index::{DiskHit, DiskIndex, DiskLimits, DiskSize};
use super::paths::{FolderPaths, remove_file, slot_of_name};
use super::reading::{DiskResponse, read_header};
use super::state::DiskState;
use super::writing::DiskWriter;
use crate::head::HeadView;
use crate::store::{CacheKey, KeySecret, PurgeMode, PurgeScope, Store, StoredResponse};
use crate::time::CacheTime;

/// A folder of stored responses. It belongs to Weir alone.
#[derive(Clone)]
pub struct DiskFolder {
    state: Arc<DiskState>,
}

impl std::fmt::Debug for DiskFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskFolder").field("folder", &self.state.paths.root()).finish_non_exhaustive()
    }
}

/// What a scan has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Files that may be used.
    pub kept: usize,
    /// Files that were removed: of no use any more, purged, cut short, of another version or damaged.
    pub removed: usize,
}

impl DiskFolder {
    /// Blocking: opens a folder, which is made when it is missing. Nothing is found in it before [`DiskFolder::scan`]. `random` becomes the secret of
    /// a new folder.
    ///
    /// # Errors
    /// As the folder has them.
    pub fn open(folder: &Path, limits: DiskLimits, random: [u8; 16]) -> io::Result<Self> {
        let paths = FolderPaths::new(folder);
        paths.make_folders()?;
        let secret = read_or_make_secret(&paths, random)?;
        for entry in std::fs::read_dir(paths.writing())? {
            remove_file(&entry?.path())?;
        }
        let state = DiskState {
            paths,
            secret,
            limits,
            index: DiskIndex::new(limits),
            partitions: Default::default(),
            next: AtomicU64::new(1),
            purges: Default::default(),
            writing: Default::default(),
            rewriting: Default::default(),
            restoring: Default::default(),
            written_bytes: AtomicU64::new(0),
        };
        Ok(Self { state: Arc::new(state) })
    }

    /// The secret of the folder: the store in memory has to have the same.
    pub fn secret(&self) -> KeySecret {
        self.state.secret
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.state.paths.root()
    }

    /// The limits.
    pub fn limits(&self) -> DiskLimits {
        self.state.limits
    }

    /// Blocking: looks at all files, once, behind the start: makes those found that are sound, removes the others. Ends when `goes_on` says
    /// no, which is asked for each folder.
    ///
    /// # Errors
    /// As the folder has them.
    pub fn scan(&self, now: CacheTime, goes_on: impl Fn() -> bool) -> io::Result<ScanReport> {
        let mut report = ScanReport::default();
        self.state.read_earlier_purges()?;
        for outer in folders_in(self.state.paths.root())? {
            for inner in folders_in(&outer)? {
                if !goes_on() {
                    return Ok(report);
                }
                self.scan_folder(&inner, now, &mut report)?;
            }
        }
        self.state.end_scan();
        self.state.remove_left();
        Ok(report)
    }

    fn scan_folder(&self, folder: &Path, now: CacheTime, report: &mut ScanReport) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // What is not named as a file of ours is left alone.
            let Some(slot) = entry.file_name().to_str().and_then(slot_of_name) else { continue };
            let path = entry.path();
            let header = File::open(&path).and_then(|mut file| read_header(&mut file, &self.state));
            match header {
                Ok(Ok((header, place)))
                    if header.slot == slot
                        && self.state.paths.of(slot) == path
                        && self.is_wanted(&header, now) =>
                {
                    report.kept += usize::from(self.scan_file(&header, place));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ if self.state.index.contains(slot) => {}
                _ => {
                    remove_file(&path)?;
                    report.removed += 1;
                }
            }
        }
        Ok(())
    }

    /// Makes a file found. What was written since the start is in the index, and newer than what this has read.
    fn scan_file(&self, header: &FileHeader, place: HeaderPlace) -> bool {
        let useless_from = self.state.useless_from(header);
        self.state.partitions.note(&header.key);
        let is_new = self.state.index.insert_if_absent(header, place.body_offset(), useless_from);
        // Asked behind the insertion: a purge that begins now finds it in the index.
        for at in self.state.soft_purges_of(header) {
            if let Some(file) = self.state.index.get(header.slot) {
                self.state.expire(header.slot, &file, at);
            }
        }
        is_new
    }

    fn is_wanted(&self, header: &FileHeader, now: CacheTime) -> bool {
        let times = self.state.times_under_purges(header);
        header.body_len <= self.state.limits.object_max
            && times.is_some_and(|lifetime| !self.state.is_useless(header, lifetime, now))
    }

    /// The file for a request. Looks at memory only.
    pub fn find(&self, key: &CacheKey<'_>, request: HeadView<'_>, now: CacheTime) -> Option<DiskHit> {
        self.state.index.find(key, request, now)
    }

    /// Blocking: opens a file that was found; `None` when it is not what it should be: a miss.
    pub fn open_hit(&self, key: &CacheKey<'_>, hit: &DiskHit) -> Option<DiskResponse> {
        self.state.open(key, hit)
    }

    /// Blocking: stores a response whose body is complete. Whether it is stored: not when it was purged meanwhile.
    ///
    /// # Errors
    /// As the file has them; a body that is not complete is one, too.
    pub fn write(&self, response: &Arc<StoredResponse>, now: CacheTime) -> io::Result<bool> {
        let chunks = response.body().chunks().ok_or_else(|| io::Error::other("the body is not complete"))?;
        let mut writer = self.begin_write(response, now)?;
        for chunk in chunks {
            writer.append(chunk)?;
        }
        writer.finish()
    }

    /// Blocking: begins to store a response whose body comes piece by piece.
    ///
    /// # Errors
    /// As the file has them.
    pub fn begin_write(&self, response: &Arc<StoredResponse>, now: CacheTime) -> io::Result<DiskWriter> {
        DiskWriter::begin(&self.state, response, now)
    }

    /// Blocking: the server has confirmed a response: its file has its fields and times from now on; the body is not written again. Whether it has them: not
    /// when there is no file with this body, or they do not fit; then the response has to be written as a whole.
    ///
    /// # Errors
    /// As the file has them.
    pub fn freshen(&self, response: &StoredResponse, now: CacheTime) -> io::Result<bool> {
        self.state.freshen(response, now)
    }

    /// Forgets the file of one response, whatever is in it; [`DiskFolder::remove_left`] removes it. Looks at memory only.
    pub fn forget(&self, response: &StoredResponse) -> bool {
        self.state.index.forget_slot(response.slot)
    }

    /// Blocking: purges the memory before this folder and the folder; how many responses there were in the one and in the other. The memory is purged
    /// again behind the files: what was read from a file meanwhile is found then, and nothing can be read behind that.
    ///
    /// # Errors
    /// As the folder has them. The purge holds nevertheless.
    pub fn purge_with(
        &self,
        store: &Store,
        scope: PurgeScope<'_>,
        mode: PurgeMode,
        now: CacheTime,
    ) -> io::Result<(usize, usize)> {
        let in_memory = store.purge(scope, mode, now);
        let in_files = self.purge(scope, mode, now);
        store.purge(scope, mode, now);
        in_files.map(|in_files| (in_memory, in_files))
    }

    /// Blocking: removes the files that a purge is about, or marks them stale, and how many there were. The memory has to be purged before it and behind
    /// it: see [`DiskFolder::purge_with`].
    ///
    /// # Errors
    /// As the folder has them. The purge holds nevertheless.
    pub fn purge(&self, scope: PurgeScope<'_>, mode: PurgeMode, now: CacheTime) -> io::Result<usize> {
        self.state.purge(scope, mode, now)
    }

    /// Blocking: removes the files that have made room for others.
    pub fn remove_left(&self) -> usize {
        self.state.remove_left()
    }

    /// What is in it.
    pub fn size(&self) -> DiskSize {
        let written_bytes = self.state.written_bytes.load(Ordering::Relaxed);
        DiskSize { written_bytes, ..self.state.index.size() }
    }
}

/// The folders of one level: two hexadecimal digits.
fn folders_in(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_level = |name: &str| name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if entry.file_name().to_str().is_some_and(is_level) && entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort_compact();
    Ok(folders)
}

/// The secret in its file; a new one, when there is none or it is damaged: then nothing in the folder is ever found, and the scan removes it.
fn read_or_make_secret(paths: &FolderPaths, random: [u8; 16]) -> io::Result<KeySecret> {
    let path = paths.secret();
    if let Ok(bytes) = std::fs::read(&path)
        && let Ok(secret) = bytes.try_into()
    {
        return Ok(KeySecret(secret));
    }
    let secret = KeySecret(random);
    paths.write_secret(secret)?;
    Ok(secret)
}
