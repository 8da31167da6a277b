//! Watches the files of the config, where `process.reload` asks for it, and has them read again when they have changed.
//!
//! Looks at them again and again rather than being told, which also sees what network file systems and swapped links do. A file that is
//! being written is left in peace until it has been the same for two looks. Must not read the config: it sends the signal that has it
//! read.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::SIGHUP;
use weir_config::{Mistakes, ReloadTrigger};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The files that are watched; none while nobody asks for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Watched>>);

#[derive(Debug, Default)]
struct Watched {
    files: Vec<PathBuf>,
    /// The files as they were when the config was last read.
    seen: Option<Look>,
    /// As they were at the last look.
    last: Option<Look>,
}

/// What tells that files are others than before, and which there are beside included ones: a new one may be included too.
type Look = (Vec<Option<[i64; 5]>>, BTreeSet<PathBuf>);

impl Watch {
    /// Begins to look, now and then, for as long as the process runs.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let watch = self.clone();
        std::thread::Builder::new().name("weir-watch".into()).spawn(move || {
            loop {
                crate::clock::pause(LOOK);
                if watch.has_changed() {
                    let _refused = signal_hook::low_level::raise(SIGHUP);
                }
            }
        })?;
        Ok(())
    }

    /// The config was just read from these files.
    pub(crate) fn follow(&self, trigger: ReloadTrigger, read: &Mistakes) {
        let files: Vec<PathBuf> = match trigger {
            ReloadTrigger::OnSignal => Vec::new(),
            ReloadTrigger::OnChange => read.files().map(PathBuf::from).collect(),
        };
        let mut watched = self.lock();
        watched.seen = Some(look(&files));
        (watched.last, watched.files) = (None, files);
    }

    /// Whether other files are there than were read, and have been for two looks.
    fn has_changed(&self) -> bool {
        let mut watched = self.lock();
        if watched.files.is_empty() {
            return false;
        }
        let now = look(&watched.files);
        let is_settled = watched.last.as_ref() == Some(&now);
        let is_new = watched.seen.as_ref() != Some(&now);
        if is_settled && is_new {
            watched.seen = Some(now.clone());
        }
        watched.last = Some(now);
        is_settled && is_new
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(files: &[PathBuf]) -> Look {
    let marks = files.iter().map(|file| mark(file)).collect();
    // Only beside those that were included: a folder may be full of other things.
    let folders: BTreeSet<&Path> = files.iter().skip(1).filter_map(|file| file.parent()).collect();
    let is_config = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let beside = folders.into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    (marks, beside.flatten().map(|entry| entry.path()).filter(is_config).collect())
}

fn mark(file: &Path) -> Option<[i64; 5]> {
    let file = std::fs::metadata(file).ok()?;
    let number = |number: u64| number.cast_signed();
    Some([number(file.dev()), number(file.ino()), number(file.len()), file.mtime(), file.mtime_nsec()])
}

#[cfg(test)]
mod tests {
    use weir_config::Checked;

    use super::*;

    #[test]
    fn a_change_counts_once_it_has_settled() {
        let folder = tempfile::TempDir::new().unwrap();
        let main = folder.path().join("weir.toml");
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("d/a.toml"), "").unwrap();
        std::fs::write(&main, "include = \"d/*.toml\"\n").unwrap();
        let watch = Watch::default();
        watch.follow(ReloadTrigger::OnChange, &Checked::load(&main).mistakes);
        let looks = || [(); 3].map(|()| watch.has_changed());
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
        watch.follow(ReloadTrigger::OnSignal, &Checked::load(&main).mistakes);
        std::fs::write(&main, "").unwrap();
        assert_eq!(looks(), [false; 3]);
    }
}
