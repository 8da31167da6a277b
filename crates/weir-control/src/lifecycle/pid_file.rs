//! The file that holds the process id while Weir runs (`process.pid_file`).
//!
//! A lock on it says whether a process has it, not the number: that may be of any process by now. The file is written beside its place while
//! the process still has the privileges of its start, moved into its place when the process is ready, and removed when it stops; until
//! then, and for a start that fails, what is in its place stays. The user that the process becomes may not have the folder: then the
//! file in its place is overwritten, and emptied at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{FlockOperation, flock};
use weir_config::ProcessIdentity;

use crate::start_error::StartError;

/// All may read which process it is.
const MODE: u32 = 0o644;

/// A process id has ten digits at most; a file with more is something else.
const LEN_MAX: u64 = 32;

/// The file of this process.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    prepared: PreparedFile,
    /// One of the states below.
    state: AtomicU8,
}

/// The file is not in its place yet.
const PREPARED: u8 = 0;
/// It is, and this process has it.
const IN_PLACE: u8 = 1;
/// Another process has it.
const LEFT: u8 = 2;

/// What becomes the file.
#[derive(Debug)]
enum PreparedFile {
    /// A file beside its place, locked, with the number.
    Beside(PathBuf, File),
    /// The file in its place, as it is: the user that the process becomes, or its root folder, may not allow another one.
    InPlace {
        file: File,
        /// Whether there was none before.
        is_new: bool,
    },
}

impl PidFile {
    /// Prepares the file, owned by the user that the process will become.
    ///
    /// # Errors
    /// When another process has it, other than `predecessor`, or it holds something else, or cannot be written.
    pub(crate) fn prepare(identity: &ProcessIdentity, predecessor: u32) -> Result<Option<Self>, StartError> {
        let Some(path) = &identity.pid_file else { return Ok(None) };
        let refused = |error| StartError::PidFile { path: path.clone(), error };
        let there = recorded(path).map_err(refused)?;
        if let Some(there) = there.as_ref().filter(|there| there.is_locked && there.pid != Some(predecessor))
        {
            let pid = there.pid.unwrap_or(0);
            return Err(StartError::PidFileTaken { path: path.clone(), pid, program: program(pid) });
        }
        let path = std::path::absolute(path).map_err(refused)?;
        let user = identity.account.as_ref().and_then(|account| account.user.as_ref());
        let prepared = if user.is_some() || identity.chroot.is_some() {
            let file = open_in_place(&path).map_err(refused)?;
            if let Some((_, uid)) = user
                && rustix::process::geteuid().is_root()
            {
                std::os::unix::fs::fchown(&file, Some(*uid), None).map_err(refused)?;
            }
            PreparedFile::InPlace { file, is_new: there.is_none() }
        } else {
            let (beside, file) = write_beside(&path).map_err(refused)?;
            PreparedFile::Beside(beside, file)
        };
        Ok(Some(Self { path, prepared, state: AtomicU8::new(PREPARED) }))
    }

    /// Puts the file with the process id in its place.
    pub(crate) fn write(&self) {
        let written = match &self.prepared {
            PreparedFile::Beside(beside, _) => fs::rename(beside, &self.path),
            PreparedFile::InPlace { file, .. } => overwrite(file),
        };
        match written {
            Ok(()) => self.state.store(IN_PLACE, Ordering::Relaxed),
            Err(error) => {
                tracing::error!(file = %self.path.display(), %error, "the pid file cannot be written");
            }
        }
    }

    /// Leaves the file to the process that replaces this one.
    pub(crate) fn leave(&self) {
        self.state.store(LEFT, Ordering::Relaxed);
        if let Err(error) = flock(self.prepared.file(), FlockOperation::Unlock) {
            tracing::warn!(file = %self.path.display(), %error, "the pid file stays locked");
        }
    }

    /// Removes it, or empties it where the user of the process may not remove it.
    fn remove(&self) {
        if self.is_in_place() && fs::remove_file(&self.path).is_err() {
            let _no_longer_ours = self.prepared.file().set_len(0);
        }
    }

    fn is_in_place(&self) -> bool {
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        let (Ok(own), Ok(there)) = (self.prepared.file().metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        identity(own) == identity(there)
    }
}

impl PreparedFile {
    fn file(&self) -> &File {
        match self {
            Self::Beside(_, file) | Self::InPlace { file, .. } => file,
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        match (self.state.load(Ordering::Relaxed), &self.prepared) {
            (IN_PLACE, _) => self.remove(),
            (PREPARED, PreparedFile::Beside(beside, _)) => {
                let _gone = fs::remove_file(beside);
            }
            (PREPARED, PreparedFile::InPlace { is_new: true, .. }) if self.is_in_place() => {
                let _empty_is_as_good = fs::remove_file(&self.path);
            }
            _ => {}
        }
    }
}

/// Opens the file in its place without a change, or makes an empty one.
fn open_in_place(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(MODE).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Writes the process id into a new file beside `path`, and locks it.
fn write_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let beside = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    // Left by another process of this number, which has ended.
    let _was_gone = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&beside)?;
    let written = file
        .set_permissions(fs::Permissions::from_mode(MODE))
        .and_then(|()| file.write_all(line().as_bytes()))
        .and_then(|()| Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?));
    if let Err(error) = written {
        let _gone = fs::remove_file(&beside);
        return Err(error);
    }
    Ok((beside, file))
}

/// Writes the process id over what is in the file: a reader sees the old number or the new one.
fn overwrite(file: &File) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)?;
    let line = line();
    let before = usize::try_from(file.metadata()?.len().min(LEN_MAX)).unwrap_or(0);
    file.write_all_at(format!("{line:\n<before$}").as_bytes(), 0)?;
    file.set_len(line.len() as u64)
}

fn line() -> String {
    format!("{}\n", std::process::id())
}

/// What is in the place of the file.
#[derive(Debug, PartialEq, Eq)]
struct RecordedPid {
    /// `None`: the file is empty.
    pid: Option<u32>,
    is_locked: bool,
}

/// The process id in the file, and whether a process has locked it; `None`: there is no file.
fn recorded(path: &Path) -> io::Result<Option<RecordedPid>> {
    match fs::metadata(path) {
        Ok(file) if file.is_file() && file.len() <= LEN_MAX => {}
        Ok(_) => return Err(io::Error::other("it is not a pid file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut file = File::open(path)?;
    // Given back when the file is closed, at once.
    let is_locked = match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => false,
        Err(rustix::io::Errno::WOULDBLOCK) => true,
        Err(error) => return Err(error.into()),
    };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    if text.trim().is_empty() {
        return Ok(Some(RecordedPid { pid: None, is_locked }));
    }
    let pid: Option<u32> = text.trim().parse().ok().filter(|pid| *pid > 0);
    let pid = pid.ok_or_else(|| io::Error::other("there is something else in it than a process id"))?;
    Ok(Some(RecordedPid { pid: Some(pid), is_locked }))
}

/// The name of the program of a process.
fn program(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(path: &Path) -> ProcessIdentity {
        let mut identity = ProcessIdentity::default();
        identity.pid_file = Some(path.to_owned());
        identity
    }

    fn prepare(path: &Path, predecessor: u32) -> Result<PidFile, StartError> {
        PidFile::prepare(&identity(path), predecessor).map(|file| file.expect("the config has one"))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_file_is_read_and_nothing_else_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.pid");
        assert_eq!(recorded(&path).unwrap(), None);
        for (text, pid) in
            [("", None), ("\n", None), ("12\n", Some(12)), ("12", Some(12)), ("12\n\n\n", Some(12))]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(recorded(&path).unwrap(), Some(RecordedPid { pid, is_locked: false }), "{text:?}");
        }
        for text in ["-1\n", "0\n", "twelve", "1 2", "a file of an operator that has another purpose"] {
            fs::write(&path, text).unwrap();
            assert!(recorded(&path).is_err(), "{text:?}");
        }
        assert!(recorded(folder.path()).is_err());
    }

    #[test]
    fn a_lock_says_who_has_it_and_a_number_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.pid");
        let (own, other) = (std::process::id(), 1);
        // The number of a process that runs, which has left nothing else.
        fs::write(&path, "1\n").unwrap();
        let first = prepare(&path, 0).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n", "it stays until the process is ready");
        first.write();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{own}\n"));
        for predecessor in [0, other] {
            let taken = prepare(&path, predecessor).unwrap_err();
            assert!(matches!(taken, StartError::PidFileTaken { pid, .. } if pid == own), "{taken}");
        }
        assert_eq!(names(folder.path()), ["weir.pid"]);
        // The process that replaces it fails: nothing has changed.
        drop(prepare(&path, own).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{own}\n"));
        assert!(prepare(&path, 0).is_err(), "the first one has it still");
        first.leave();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{own}\n"), "it is left to the next one");
        let second = prepare(&path, own).unwrap();
        second.write();
        drop(second);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_number_is_overwritten_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.pid");
        for before in ["", "1\n", "4294967295\n"] {
            fs::write(&path, before).unwrap();
            overwrite(&open_in_place(&path).unwrap()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), line(), "{before:?}");
        }
    }
}
