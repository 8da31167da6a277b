//! Watches the files of the config, where `process.reload` asks for it, and has them read again when they have changed.
//!
//! Polls them instead of using notifications, which also works on network file systems and with replaced links. A file that is
//! being written is not read until it has been the same at two checks. Must not read the config: it asks for a reload, as a signal
//! does.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_config::{Diagnostics, ReloadTrigger};
use weir_proxy::net::clock;

use super::events::ServeSignal;

/// The polling interval.
const LOOK: Duration = Duration::from_secs(1);

/// The name of what the thread does.
const TASK: &str = "the watch of the files of the config";

/// The watched files; none unless `process.reload` asks for it.
#[derive(Debug, Clone, Default)]
pub struct ConfigWatch(Arc<Mutex<WatchedFiles>>);

#[derive(Debug, Default)]
struct WatchedFiles {
    /// Those that the config in use was read from.
    in_use: Vec<PathBuf>,
    /// Whether a change of them counts, by the config in use.
    counts: bool,
    /// Those that are looked at: besides, the ones that were read last, if that config was refused. A change of any may mend it.
    files: Vec<PathBuf>,
    /// The files as they were when the config was last read.
    seen: Option<FileStates>,
    /// As they were at the last look.
    last: Option<FileStates>,
}

/// The identity of files, to detect changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct FileStates {
    files: BTreeMap<PathBuf, Option<[i64; 7]>>,
    /// The configs beside included ones: a new one may be included too.
    beside: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl ConfigWatch {
    /// Begins to look, now and then, for as long as the process runs; `signals` gets a signal for a reload.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(&self, signals: impl Fn(ServeSignal) -> bool + Send + 'static) -> std::io::Result<()> {
        let watch = self.clone();
        std::thread::Builder::new().name("weir-watch".into()).spawn(move || {
            weir_tasks::keep_thread(TASK, || {
                loop {
                    clock::pause(LOOK);
                    weir_tasks::strike(TASK);
                    if watch.has_changed() {
                        let _ending = signals(ServeSignal::Reload);
                    }
                }
            });
        })?;
        Ok(())
    }

    /// To be called before the config at `file` is read; the reader reports the outcome to the result. A later change counts as not read.
    pub fn before_reading(&self, file: &Path) -> PendingRead {
        let mut files = self.lock().files.clone();
        files.insert(0, file.to_owned());
        PendingRead { before: FileStates::at(&files) }
    }

    /// The config was read from these files and is in use now.
    pub fn follow(&self, reading: PendingRead, trigger: ReloadTrigger, read: &Diagnostics) {
        let mut watched = self.lock();
        watched.counts = trigger == ReloadTrigger::OnChange;
        watched.in_use = read.files().map(PathBuf::from).collect();
        let files = watched.in_use.clone();
        watched.look_at(files, reading);
    }

    /// The config was read from these files and is not used: that of before stays.
    pub(super) fn note_refusal(&self, reading: PendingRead, read: &Diagnostics) {
        let mut watched = self.lock();
        let mut files: Vec<PathBuf> = read.files().map(PathBuf::from).collect();
        files.extend(watched.in_use.clone());
        watched.look_at(files, reading);
    }

    /// Whether the files differ from those that were read, and have been the same for two checks.
    fn has_changed(&self) -> bool {
        let mut watched = self.lock();
        if !watched.counts {
            return false;
        }
        let now = FileStates::at(&watched.files);
        let is_settled = watched.last.as_ref() == Some(&now);
        let is_new = watched.seen.as_ref() != Some(&now);
        if is_settled && is_new {
            watched.seen = Some(now.clone());
        }
        watched.last = Some(now);
        is_settled && is_new
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, WatchedFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A config that is being read.
#[derive(Debug)]
pub struct PendingRead {
    /// What was known of its files before.
    before: FileStates,
}

impl WatchedFiles {
    fn look_at(&mut self, files: Vec<PathBuf>, reading: PendingRead) {
        self.seen = Some(FileStates::at(&files).or_rather(reading.before));
        (self.last, self.files) = (None, files);
    }
}

impl FileStates {
    /// At `files`, of which the first is the config itself.
    fn at(files: &[PathBuf]) -> Self {
        // Only beside those that were included: a folder may be full of other things.
        let included = files.iter().filter(|file| Some(*file) != files.first());
        let folders = included.filter_map(|file| file.parent());
        Self {
            files: files.iter().map(|file| (file.clone(), mark(file))).collect(),
            beside: folders.map(|folder| (folder.to_owned(), configs_in(folder))).collect(),
        }
    }

    /// The same at the same files, but as `earlier` has it as far as that knows them.
    fn or_rather(mut self, mut earlier: Self) -> Self {
        for (file, mark) in &mut self.files {
            *mark = earlier.files.remove(file).unwrap_or(*mark);
        }
        for (folder, configs) in &mut self.beside {
            if let Some(earlier) = earlier.beside.remove(folder) {
                *configs = earlier;
            }
        }
        self
    }
}

fn configs_in(folder: &Path) -> BTreeSet<PathBuf> {
    let is_config = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_config).collect()
}

fn mark(file: &Path) -> Option<[i64; 7]> {
    let file = std::fs::metadata(file).ok()?;
    let number = |number: u64| number.cast_signed();
    let (dev, ino, len) = (number(file.dev()), number(file.ino()), number(file.len()));
    // With the last change of owner or mode: a file that could not be read may be readable from then on.
    Some([dev, ino, len, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()])
}

#[cfg(test)]
mod tests {
    use weir_config::CheckedConfig;

    use super::*;

    /// A config that includes what is in the folder `d`, and reads it again when it changes.
    fn start() -> (tempfile::TempDir, PathBuf, ConfigWatch) {
        let folder = tempfile::TempDir::new().unwrap();
        let main = folder.path().join("weir.toml");
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("d/a.toml"), "").unwrap();
        std::fs::write(&main, "include = \"d/*.toml\"\n").unwrap();
        let watch = ConfigWatch::default();
        let reading = watch.before_reading(&main);
        watch.follow(reading, ReloadTrigger::OnChange, &CheckedConfig::load(&main).diagnostics);
        (folder, main, watch)
    }

    fn three_looks(watch: &ConfigWatch) -> [bool; 3] {
        [(); 3].map(|()| watch.has_changed())
    }

    #[test]
    fn a_change_counts_once_it_has_settled() {
        let (folder, main, watch) = start();
        let looks = || three_looks(&watch);
        assert_eq!(looks(), [false; 3]);
        let changes: [&dyn Fn(); 4] = [
            &|| std::fs::write(&main, "include = \"d/*.toml\"\n\n").unwrap(),
            &|| std::fs::write(folder.path().join("d/a.toml"), "\n").unwrap(),
            &|| std::fs::write(folder.path().join("d/b.toml"), "").unwrap(),
            &|| std::fs::remove_file(&main).unwrap(),
        ];
        for change in changes {
            change();
            assert_eq!(looks(), [false, true, false]);
        }
        let reading = watch.before_reading(&main);
        watch.follow(reading, ReloadTrigger::OnSignal, &CheckedConfig::load(&main).diagnostics);
        std::fs::write(&main, "").unwrap();
        assert_eq!(looks(), [false; 3]);
    }

    #[test]
    fn a_change_while_the_config_is_read_is_one_that_was_not_read() {
        let (folder, main, watch) = start();
        let reading = watch.before_reading(&main);
        let read = CheckedConfig::load(&main).diagnostics;
        std::fs::write(folder.path().join("d/a.toml"), "\n").unwrap();
        watch.follow(reading, ReloadTrigger::OnChange, &read);
        assert_eq!(three_looks(&watch), [false, true, false]);
    }

    #[test]
    fn after_a_refusal_both_the_files_in_use_and_those_that_were_read_count() {
        let (folder, main, watch) = start();
        std::fs::create_dir(folder.path().join("e")).unwrap();
        std::fs::write(folder.path().join("e/bad.toml"), "nonsense").unwrap();
        std::fs::write(&main, "include = \"e/*.toml\"\n").unwrap();
        assert_eq!(three_looks(&watch), [false, true, false]);
        let reading = watch.before_reading(&main);
        watch.note_refusal(reading, &CheckedConfig::load(&main).diagnostics);
        for file in ["e/bad.toml", "d/a.toml", "e/other.toml"] {
            assert_eq!(three_looks(&watch), [false; 3]);
            std::fs::write(folder.path().join(file), "\n\n").unwrap();
            assert_eq!(three_looks(&watch), [false, true, false], "{file}");
        }
    }

    #[test]
    fn a_file_that_was_missing_counts_once_it_is_there() {
        let (folder, main, watch) = start();
        std::fs::write(&main, "include = \"missing.toml\"\n").unwrap();
        let reading = watch.before_reading(&main);
        watch.note_refusal(reading, &CheckedConfig::load(&main).diagnostics);
        assert_eq!(three_looks(&watch), [false; 3]);
        std::fs::write(folder.path().join("missing.toml"), "").unwrap();
        assert_eq!(three_looks(&watch), [false, true, false]);
    }
}
