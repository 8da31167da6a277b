//! The files that a route serves, and those that a worker has open.
//!
//! A worker keeps open what was asked for lately, with the fields of the response and the content of small files. An entry holds for a
//! short time (`files.valid`), then the path is looked up again; what has not changed is kept. Must not decide what is sent.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use weir_config::{
    ConnectionsMax, FastcgiSettings, FileEncoding, Process, StaticFiles, SymlinkRule, TemplatePart,
    TemplateValue,
};
use weir_http::{DATE_BYTES, digits, media_type};

use crate::net::clock::{self, Instant};
use crate::net::descriptors;
use crate::net::files::file::{
    DiskFile, DiskWait, FileState, FolderEntry, FolderRoot, LinkRule, MayWait, OpenError,
};

/// The largest file whose content is kept.
const CONTENT_MAX: u64 = 64 * 1024;

/// Content that a worker keeps.
const CONTENTS_MAX: usize = 16 * 1024 * 1024;

/// A file that changed less than this ago may change again without a trace: clocks of file systems tick some milliseconds apart.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// The files of a route, ready for the data path.
#[derive(Debug)]
pub(crate) struct FilesPlan {
    pub(crate) config: StaticFiles,
    /// The absolute path of the folder.
    pub(crate) place: PathBuf,
    /// Tells routes apart whose files have another form.
    number: u64,
    /// Whether the path of the request is tried before others.
    pub(crate) tries_path_first: bool,
    /// Which files are scripts, that are run and never sent.
    pub(crate) scripts: Option<Box<FastcgiSettings>>,
    /// Whether any file is sent: there may be scripts and nothing else.
    pub(crate) sends: bool,
}

impl FilesPlan {
    pub(crate) fn new(config: &StaticFiles) -> Self {
        let mut hasher = DefaultHasher::new();
        let StaticFiles { root, precompressed, symlinks, hidden, types, default_type, charset, .. } = config;
        format!("{root:?} {precompressed:?} {symlinks:?} {hidden} {types:?} {default_type:?} {charset:?}")
            .hash(&mut hasher);
        let mut plan = Self {
            config: config.clone(),
            place: std::path::absolute(root).unwrap_or_else(|_| root.clone()),
            number: hasher.finish(),
            tries_path_first: false,
            scripts: None,
            sends: true,
        };
        plan.tries_path_first = plan.is_path_of_request(0);
        plan
    }

    /// The same with scripts among the files.
    pub(crate) fn with_scripts(self, scripts: &FastcgiSettings) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.number, &scripts.split_path).hash(&mut hasher);
        Self { number: hasher.finish(), scripts: Some(Box::new(scripts.clone())), ..self }
    }

    /// Nothing but scripts; `None` for an application that has none.
    pub(crate) fn of_scripts(scripts: &FastcgiSettings) -> Option<Self> {
        let root = scripts.checked_in.as_ref().or(scripts.root.as_ref())?;
        let plan = Self::new(&StaticFiles::of_scripts(root, &scripts.index)).with_scripts(scripts);
        Some(Self { sends: false, ..plan })
    }

    /// Whether a path is that of a script, by its name.
    pub(crate) fn is_script(&self, path: &[u8]) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.is_script(path))
    }

    /// Whether scripts are taken for there by their names.
    pub(crate) fn trusts_names(&self) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.checked_in.is_none())
    }

    /// Whether what is tried at `place` is the path of the request as it is.
    pub(crate) fn is_path_of_request(&self, place: usize) -> bool {
        matches!(self.config.try_files[place].parts(), [TemplatePart::Value(TemplateValue::Path)])
    }

    fn root(&self) -> FolderRoot<'_> {
        let links = match self.config.symlinks {
            SymlinkRule::Inside if self.config.hidden => LinkRule::Inside,
            SymlinkRule::Inside => LinkRule::InsideShown,
            SymlinkRule::Never => LinkRule::Never,
        };
        FolderRoot { path: &self.config.root, links }
    }

    fn key(&self, path: &[u8]) -> Box<[u8]> {
        [&self.number.to_le_bytes(), path].concat().into()
    }

    /// Opens what is at `path`, with the forms of it that are beside it.
    fn load(&self, path: &[u8], may_wait: MayWait) -> Result<FolderItem, OpenError> {
        if self.is_script(path) && self.root().is_file(path, may_wait)? {
            return Ok(FolderItem::Script);
        }
        match self.root().open(path, may_wait)? {
            FolderEntry::Folder(_) => Ok(FolderItem::Folder),
            FolderEntry::File(_) if self.is_script(path) => Ok(FolderItem::Script),
            FolderEntry::File(file) => {
                let mut beside = Vec::new();
                for &encoding in &self.config.precompressed {
                    let name = [path, encoding.suffix().as_bytes()].concat();
                    match self.root().open(&name, may_wait) {
                        Ok(FolderEntry::File(file)) => {
                            beside.push((encoding, OpenFile::new(file, encoding.name())));
                        }
                        Err(OpenError::WouldWait) => return Err(OpenError::WouldWait),
                        Ok(FolderEntry::Folder(_)) | Err(_) => {}
                    }
                }
                let mut opened = OpenFile::new(file, "");
                opened.media_type = self.media_type(path);
                opened.beside = beside;
                Ok(FolderItem::File(opened))
            }
        }
    }

    /// The names of what is in a folder, sorted, those of folders with a slash behind them; at most `count_max`.
    pub(crate) fn list(
        self: &Arc<Self>,
        path: &[u8],
        count_max: usize,
    ) -> DiskWait<Result<Vec<Vec<u8>>, OpenError>> {
        let (plan, path) = (Arc::clone(self), path.to_owned());
        DiskWait::run(move || {
            let FolderEntry::Folder(folder) = plan.root().open(&path, MayWait::Yes)? else {
                return Err(OpenError::Missing);
            };
            crate::net::files::file::list(&folder, count_max)
        })
    }

    fn media_type(&self, path: &[u8]) -> Box<[u8]> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let extension = name.iter().rposition(|byte| *byte == b'.').map_or(&b""[..], |dot| &name[dot + 1..]);
        let extension = std::str::from_utf8(extension).unwrap_or_default().to_ascii_lowercase();
        let StaticFiles { types, default_type, charset, .. } = &self.config;
        if let Some((_, own)) = types.iter().find(|(name, _)| **name == *extension) {
            return own.as_bytes().into();
        }
        let known = media_type(&extension).unwrap_or(default_type);
        match charset {
            Some(charset) if known.starts_with("text/") => {
                format!("{known}; charset={charset}").into_bytes().into()
            }
            _ => known.as_bytes().into(),
        }
    }
}

/// What is at a path of a folder.
#[derive(Debug)]
pub(crate) enum FolderItem<F = OpenFile> {
    File(F),
    Folder,
    /// A file that is run.
    Script,
}

/// An open file with what its response says.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: DiskFile,
    /// The entity tag, quotes included.
    pub(crate) etag: Box<[u8]>,
    /// In seconds since 1970.
    pub(crate) modified: u64,
    pub(crate) last_modified: [u8; DATE_BYTES],
    pub(crate) media_type: Box<[u8]>,
    /// The whole, of a small file.
    pub(crate) content: Option<Box<[u8]>>,
    /// Encoded forms of it, the preferred one first.
    pub(crate) beside: Vec<(FileEncoding, OpenFile)>,
}

impl OpenFile {
    fn new(file: DiskFile, suffix: &str) -> Self {
        let FileState { len, modified, .. } = file.state;
        let mut etag = b"\"".to_vec();
        digits::hexadecimal(&mut etag, u64::try_from(modified).unwrap_or(0));
        etag.push(b'-');
        digits::hexadecimal(&mut etag, len);
        if !suffix.is_empty() {
            etag.push(b'-');
            etag.extend_from_slice(suffix.as_bytes());
        }
        etag.push(b'"');
        // A response says of no time in the future that it has changed then (RFC 9110 section 8.8.2.1).
        let modified =
            u64::try_from(modified / NANOS_PER_SECOND).unwrap_or(0).min(clock::unix_now().as_secs());
        Self {
            file,
            etag: etag.into(),
            modified,
            last_modified: weir_http::date(modified),
            media_type: Box::default(),
            content: None,
            beside: Vec::new(),
        }
    }

    /// Its size.
    pub(crate) fn len(&self) -> u64 {
        self.file.state.len
    }

    /// Whether both are the same, encoded forms included.
    fn is_same(&self, other: &OpenFile) -> bool {
        let forms = |file: &OpenFile| -> Vec<FileState> {
            file.beside.iter().map(|(_, beside)| beside.file.state).collect()
        };
        self.file.state == other.file.state && forms(self) == forms(other)
    }

    /// Whether its content should be in memory and is not.
    fn lacks_content(&self, now: Duration) -> bool {
        let settled = i128::try_from((now.saturating_sub(SETTLED_AFTER)).as_nanos()).unwrap_or(0);
        self.content.is_none() && self.len() <= CONTENT_MAX && self.file.state.changed < settled
    }

    fn read_content(&mut self, now: Duration, may_wait: MayWait) -> io::Result<()> {
        if self.lacks_content(now) {
            self.content = Some(self.file.read_whole(may_wait)?);
        }
        self.beside.iter_mut().try_for_each(|(_, beside)| beside.read_content(now, may_wait))
    }

    fn descriptors(&self) -> usize {
        1 + self.beside.len()
    }

    fn content_bytes(&self) -> usize {
        let own = self.content.as_ref().map_or(0, |content| content.len());
        own + self.beside.iter().map(|(_, beside)| beside.content_bytes()).sum::<usize>()
    }
}

/// What a path of a folder was when it was last looked up.
#[derive(Debug)]
struct CachedItem {
    item: FolderItem<Rc<OpenFile>>,
    looked_up: Instant,
    used: Instant,
}

/// The files that a worker has open.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    entries: RefCell<LruCache<Box<[u8]>, CachedItem>>,
    content_bytes: Cell<usize>,
    /// Descriptors of its files.
    descriptors: Cell<usize>,
    limits: Cell<OpenFileLimits>,
}

/// How many files a worker keeps open, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenFileLimits {
    /// Descriptors at most; `None`: the share of the worker, which is the most in any case.
    pub(crate) files_max: Option<usize>,
    /// How long a file stays open that is not asked for.
    pub(crate) unused_max: Duration,
}

impl OpenFileLimits {
    /// Those of one of so many workers.
    pub(crate) fn new(process: &Process, workers: usize) -> Self {
        let files_max = match process.open_file_cache_max {
            ConnectionsMax::Auto => None,
            ConnectionsMax::Exactly(all) => Some((all as usize).div_ceil(workers.max(1))),
        };
        Self { files_max, unused_max: process.open_file_cache_inactive }
    }

    fn files_max(&self) -> usize {
        let share = descriptors::worker_files_max();
        self.files_max.map_or(share, |max| max.min(share))
    }
}

impl OpenFiles {
    pub(crate) fn new(limits: OpenFileLimits) -> Self {
        let entries = RefCell::new(LruCache::unbounded());
        let (content_bytes, descriptors) = (Cell::new(0), Cell::new(0));
        Self { entries, content_bytes, descriptors, limits: Cell::new(limits) }
    }

    /// Goes by other limits from now on.
    pub(crate) fn limit(&self, limits: OpenFileLimits) {
        self.limits.set(limits);
        let mut entries = self.entries.borrow_mut();
        while self.is_over(entries.len())
            && let Some((_, evicted)) = entries.pop_lru()
        {
            self.forget(Some(evicted.item));
        }
    }

    /// What is at `path`, without waiting for a disk.
    pub(crate) fn look_up(
        &self,
        plan: &FilesPlan,
        path: &[u8],
        now: Instant,
    ) -> Result<FolderItem<Rc<OpenFile>>, OpenError> {
        let key = plan.key(path);
        if let Some(known) = self.entries.borrow_mut().get_mut(&key)
            && now.saturating_duration_since(known.looked_up) < plan.config.valid
        {
            known.used = now;
            return Ok(known.item.share());
        }
        let loaded = plan.load(path, MayWait::No)?;
        self.keep(key, loaded, now, MayWait::No)
    }

    /// The same on a thread that may wait; [`OpenFiles::put`] takes the outcome.
    pub(crate) fn load(plan: &Arc<FilesPlan>, path: &[u8]) -> DiskWait<Result<FolderItem, OpenError>> {
        let (plan, path) = (Arc::clone(plan), path.to_owned());
        DiskWait::run(move || {
            let mut loaded = plan.load(&path, MayWait::Yes)?;
            if let FolderItem::File(file) = &mut loaded {
                file.read_content(clock::unix_now(), MayWait::Yes).map_err(|error| {
                    OpenError::Failed(
                        rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
                    )
                })?;
            }
            Ok(loaded)
        })
    }

    /// Keeps what a thread has loaded.
    pub(crate) fn put(
        &self,
        plan: &FilesPlan,
        path: &[u8],
        loaded: FolderItem,
        now: Instant,
    ) -> Result<FolderItem<Rc<OpenFile>>, OpenError> {
        self.keep(plan.key(path), loaded, now, MayWait::Yes)
    }

    fn keep(
        &self,
        key: Box<[u8]>,
        loaded: FolderItem,
        now: Instant,
        has_waited: MayWait,
    ) -> Result<FolderItem<Rc<OpenFile>>, OpenError> {
        let mut entries = self.entries.borrow_mut();
        let before = entries.pop(&key).map(|cached| cached.item);
        let item = match (loaded, before) {
            (FolderItem::Folder, before) => {
                self.forget(before);
                FolderItem::Folder
            }
            (FolderItem::Script, before) => {
                self.forget(before);
                FolderItem::Script
            }
            (FolderItem::File(file), Some(FolderItem::File(known)))
                if known.is_same(&file) && !known.lacks_content(clock::unix_now()) =>
            {
                FolderItem::File(known)
            }
            (FolderItem::File(mut file), before) => {
                self.forget(before);
                if has_waited == MayWait::No {
                    match file.read_content(clock::unix_now(), MayWait::No) {
                        Ok(()) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            return Err(OpenError::WouldWait);
                        }
                        // It has become shorter while it was read: what is there is sent as far as it goes.
                        Err(_) => file.content = None,
                    }
                }
                self.content_bytes.set(self.content_bytes.get() + file.content_bytes());
                self.descriptors.set(self.descriptors.get() + file.descriptors());
                FolderItem::File(Rc::new(file))
            }
        };
        let shared = item.share();
        if let Some((_, evicted)) = entries.push(key, CachedItem { item, looked_up: now, used: now }) {
            self.forget(Some(evicted.item));
        }
        while self.is_over(entries.len())
            && let Some((_, evicted)) = entries.pop_lru()
        {
            self.forget(Some(evicted.item));
        }
        Ok(shared)
    }

    /// Closes what was not asked for lately: a file that was removed keeps its place on the disk as long as it is open.
    pub(crate) fn close_unused(&self, now: Instant) {
        let unused_max = self.limits.get().unused_max;
        let mut entries = self.entries.borrow_mut();
        while entries
            .peek_lru()
            .is_some_and(|(_, oldest)| now.saturating_duration_since(oldest.used) > unused_max)
            && let Some((_, unused)) = entries.pop_lru()
        {
            self.forget(Some(unused.item));
        }
    }

    /// Whether more is kept than may be. Folders have no descriptor, but are entries.
    fn is_over(&self, entries: usize) -> bool {
        let files_max = self.limits.get().files_max();
        self.content_bytes.get() > CONTENTS_MAX
            || self.descriptors.get() > files_max
            || entries > 2 * files_max
    }

    /// Counts what is kept no more.
    fn forget(&self, item: Option<FolderItem<Rc<OpenFile>>>) {
        if let Some(FolderItem::File(file)) = item {
            self.content_bytes.set(self.content_bytes.get().saturating_sub(file.content_bytes()));
            self.descriptors.set(self.descriptors.get().saturating_sub(file.descriptors()));
        }
    }
}

impl FolderItem<Rc<OpenFile>> {
    fn share(&self) -> Self {
        match self {
            FolderItem::File(file) => FolderItem::File(Rc::clone(file)),
            FolderItem::Folder => FolderItem::Folder,
            FolderItem::Script => FolderItem::Script,
        }
    }
}

#[cfg(test)]
mod tests;
