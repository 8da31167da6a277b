//! The files that a config names: their paths, and whether they have changed since the check.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_access::{KeySet, Users};

use crate::certificate::{Authorities, CertificateError};
use crate::key::Spanned;
use crate::source_map::SourceMap;

/// The files that a config names: where their paths begin, and whether they may be read at all.
pub(crate) struct Files<'a> {
    sources: &'a SourceMap,
    pub(super) may_read: bool,
    /// The authorities of the system, once loaded.
    system: OnceCell<Result<Arc<Authorities>, CertificateError>>,
    /// Files of users, each read once.
    users: RefCell<HashMap<PathBuf, Option<Arc<Users>>>>,
    /// Files of the keys of tokens, each read once.
    keys: RefCell<HashMap<PathBuf, Option<Arc<KeySet>>>>,
    named: RefCell<NamedFiles>,
}

/// The files that a config names, as they were right before they were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedFiles(Vec<(PathBuf, Option<FileMark>)>);

/// Device, inode, length and the times of the last change of the file and of what is known of it, such as its owner.
type FileMark = [i64; 7];

impl NamedFiles {
    /// Whether none of them has changed.
    pub(crate) fn are_the_same(&self) -> bool {
        self.0.iter().all(|(path, mark)| file_mark(path) == *mark)
    }
}

fn file_mark(path: &Path) -> Option<FileMark> {
    let file = std::fs::metadata(path).ok()?;
    let number = |number: u64| number.cast_signed();
    let (dev, ino) = (number(file.dev()), number(file.ino()));
    if file.is_dir() {
        // Files that come and go in the folder do not count.
        return Some([dev, ino, 0, 0, 0, 0, 0]);
    }
    let len = number(file.len());
    Some([dev, ino, len, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()])
}

impl<'a> Files<'a> {
    pub(crate) fn new(sources: &'a SourceMap, may_read: bool) -> Self {
        Self {
            sources,
            may_read,
            system: OnceCell::new(),
            users: RefCell::default(),
            keys: RefCell::default(),
            named: RefCell::default(),
        }
    }

    /// The users of a file, which `load` reads the first time.
    pub(super) fn users(&self, file: &Path, load: impl FnOnce() -> Option<Arc<Users>>) -> Option<Arc<Users>> {
        self.users.borrow_mut().entry(file.to_owned()).or_insert_with(load).clone()
    }

    /// The keys of a file, which `load` reads the first time.
    pub(super) fn keys(
        &self,
        file: &Path,
        load: impl FnOnce() -> Option<Arc<KeySet>>,
    ) -> Option<Arc<KeySet>> {
        self.keys.borrow_mut().entry(file.to_owned()).or_insert_with(load).clone()
    }

    /// The authorities that the system trusts, read once for all upstreams.
    pub(super) fn authorities_of_system(&self) -> Result<Arc<Authorities>, CertificateError> {
        self.system.get_or_init(Authorities::of_system).clone()
    }

    /// The path of a file, relative to the file of the config that names it.
    pub(super) fn path(&self, text: &Spanned<Box<str>>) -> PathBuf {
        let folder = Path::new(&self.sources.file(text.span.file).name).parent();
        let path = folder.unwrap_or(Path::new("")).join(&*text.value);
        self.note(&path);
        path
    }

    /// Takes note of a file that the outcome of the check hangs on.
    pub(super) fn note(&self, path: &Path) {
        self.named.borrow_mut().0.push((path.to_owned(), file_mark(path).filter(|_| self.may_read)));
    }

    /// The files that were used; `None` if the authorities of the system were, which are in many files.
    pub(crate) fn into_named(self) -> Option<NamedFiles> {
        self.system.get().is_none().then(|| self.named.into_inner())
    }
}
