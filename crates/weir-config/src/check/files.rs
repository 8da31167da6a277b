//! The files that a config names: their paths, and whether they have changed since the check.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_access::{KeySet, Users};

use crate::certificate::{Authorities, CertificateError};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::diagnostic::{FileIndex, SourceMap, SourceSpan};
use crate::key::{Spanned, SpannedTable};
use crate::text::{Document, ListText};
use crate::text_file::read_text;

/// What is read in place of a file that may not be named: nothing can be in it.
const REFUSED: &str = "/dev/null/refused.toml";

/// The files that a config names: where their paths begin, and whether they may be read at all.
pub(crate) struct Files<'a> {
    pub(super) sources: &'a SourceMap,
    /// The texts of the files of lists.
    pub(super) lists: ListFiles,
    pub(super) may_read: bool,
    /// The authorities of the system, once loaded.
    system: OnceCell<Result<Arc<Authorities>, CertificateError>>,
    /// Files of users, each read once.
    users: RefCell<HashMap<PathBuf, Option<Arc<Users>>>>,
    /// Files of the keys of tokens, each read once.
    keys: RefCell<HashMap<PathBuf, Option<Arc<KeySet>>>>,
    named: RefCell<NamedFiles>,
    /// The texts that must not name files.
    fragments: Range<usize>,
    /// Where they did.
    refused: RefCell<Vec<SourceSpan>>,
}

/// The texts of the files of lists, by the lists.
#[derive(Debug, Default)]
pub(crate) struct ListFiles(pub(super) Vec<Vec<FileIndex>>);

impl ListFiles {
    /// Reads the files of all lists into the sources, so that errors in them have a place.
    pub(crate) fn read(
        document: &Document,
        sources: &mut SourceMap,
        may_read: bool,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut read = |name: &Spanned<Box<str>>| {
            let folder = Path::new(&sources.file(name.span.file).name).parent();
            let path = folder.unwrap_or(Path::new("")).join(&*name.value);
            match read_text(&path, LIST_BYTES_MAX) {
                Ok(text) => Some(sources.add(path.display().to_string(), text)),
                Err(error) => {
                    let message = format!("`{}` cannot be read: {error}", path.display());
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Unreadable, name.span, message));
                    None
                }
            }
        };
        let files = |text: &SpannedTable<ListText>| {
            text.value.file.iter().flat_map(|files| files.0.clone()).collect()
        };
        let lists = document.list.0.iter().filter(|_| may_read);
        let lists = lists.map(|(_, text)| {
            let files: Vec<Spanned<Box<str>>> = files(text);
            files.iter().filter_map(&mut read).collect()
        });
        Self(lists.collect())
    }
}

/// The largest file of a list: a million networks.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// The files that a config names, as they were right before they were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedFiles(Vec<NamedFile>);

#[derive(Debug, Clone)]
struct NamedFile {
    path: PathBuf,
    /// Whether it is a folder, of which the list of its files counts.
    is_listing: bool,
    mark: Option<FileMark>,
}

/// Device, inode, length and the times of the last change of the file and of what is known of it, such as its owner.
type FileMark = [i64; 7];

impl NamedFiles {
    /// Whether none of them has changed.
    pub(crate) fn are_the_same(&self) -> bool {
        self.0.iter().all(|file| file_mark(&file.path, file.is_listing) == file.mark)
    }
}

fn file_mark(path: &Path, is_listing: bool) -> Option<FileMark> {
    let file = std::fs::metadata(path).ok()?;
    let number = |number: u64| number.cast_signed();
    let (dev, ino) = (number(file.dev()), number(file.ino()));
    if file.is_dir() && !is_listing {
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
            lists: ListFiles::default(),
            may_read,
            system: OnceCell::new(),
            users: RefCell::default(),
            keys: RefCell::default(),
            named: RefCell::default(),
            fragments: 0..0,
            refused: RefCell::default(),
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

    /// The same with the texts of the files of lists, which are among the sources.
    pub(crate) fn with_lists(self, lists: ListFiles) -> Self {
        Self { lists, ..self }
    }

    /// The same, where the texts of these numbers must not name files.
    pub(crate) fn without_files_in(self, fragments: Range<usize>) -> Self {
        Self { fragments, ..self }
    }

    /// Whether a fragment names this file: then it is not looked at.
    fn refuses(&self, text: &Spanned<Box<str>>) -> bool {
        let is_refused = self.fragments.contains(&(text.span.file.0 as usize));
        if is_refused {
            self.refused.borrow_mut().push(text.span);
        }
        is_refused
    }

    /// Reports each file that a fragment names, in place of what else was found out about it.
    pub(crate) fn report_refused(&self, diagnostics: &mut Vec<Diagnostic>) {
        let refused = self.refused.borrow();
        diagnostics.retain(|diagnostic| !refused.contains(&diagnostic.span));
        for span in refused.iter() {
            let message = "a fragment cannot name a file of this machine";
            let help = "a user who may write the key need not be the one who runs Weir: this part belongs into the config file";
            diagnostics.push(Diagnostic::new(DiagnosticKind::NotSupported, *span, message).help(help));
        }
    }

    /// The authorities that the system trusts, read once for all upstreams.
    pub(super) fn authorities_of_system(&self) -> Result<Arc<Authorities>, CertificateError> {
        self.system.get_or_init(Authorities::of_system).clone()
    }

    /// The path of a file, relative to the file of the config that names it.
    pub(super) fn path(&self, text: &Spanned<Box<str>>) -> PathBuf {
        if self.refuses(text) {
            return REFUSED.into();
        }
        let folder = Path::new(&self.sources.file(text.span.file).name).parent();
        let path = folder.unwrap_or(Path::new("")).join(&*text.value);
        self.note(&path);
        path
    }

    /// The path of a folder that Weir writes to, which says nothing about the config.
    pub(super) fn folder(&self, text: &Spanned<Box<str>>) -> PathBuf {
        if self.refuses(text) {
            return REFUSED.into();
        }
        let parent = Path::new(&self.sources.file(text.span.file).name).parent();
        parent.unwrap_or(Path::new("")).join(&*text.value)
    }

    /// The path of a folder whose files are read, and which of them there are.
    pub(super) fn listed_folder(&self, text: &Spanned<Box<str>>) -> PathBuf {
        let path = self.folder(text);
        // Its time changes with each file that comes or goes.
        self.note_as(&path, true);
        path
    }

    /// Takes note of a file that the outcome of the check hangs on.
    pub(super) fn note(&self, path: &Path) {
        self.note_as(path, false);
    }

    fn note_as(&self, path: &Path, is_listing: bool) {
        let mark = file_mark(path, is_listing).filter(|_| self.may_read);
        self.named.borrow_mut().0.push(NamedFile { path: path.to_owned(), is_listing, mark });
    }

    /// The files that were used; `None` if the authorities of the system were, which are in many files.
    pub(crate) fn into_named(self) -> Option<NamedFiles> {
        self.system.get().is_none().then(|| self.named.into_inner())
    }
}
