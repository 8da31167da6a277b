//! The file that holds the process id while Weir runs (`process.pid_file`).
//!
//! It is prepared while the process still has the privileges of its start, written when it is ready, removed when it stops. The user that
//! the process becomes may not have the folder: then the prepared file is written in place, and emptied at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
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
    /// Open since the start.
    file: File,
    /// Whether another user will write it.
    changes_user: bool,
}

impl PidFile {
    /// Prepares the file: empty, and owned by the user that the process will become.
    ///
    /// # Errors
    /// When it belongs to another process that runs, other than `predecessor`, holds something else, or cannot be opened.
    pub(crate) fn prepare(identity: &ProcessIdentity, predecessor: u32) -> Result<Option<Self>, StartError> {
        let Some(path) = &identity.pid_file else { return Ok(None) };
        let refused = |error| StartError::PidFile { path: path.clone(), error };
        if let Some(pid) = recorded(path).map_err(refused)?
            && ![std::process::id(), predecessor].contains(&pid.as_raw_nonzero().get().cast_unsigned())
            && lives(pid)
        {
            let pid = pid.as_raw_nonzero().get();
            return Err(StartError::PidFileTaken { path: path.clone(), pid, program: program(pid) });
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(MODE).custom_flags(libc::O_NOFOLLOW);
        let path = std::path::absolute(path).map_err(refused)?;
        let file = options.open(&path).map_err(refused)?;
        let user = identity.account.as_ref().and_then(|account| account.user.as_ref());
        if let Some((_, uid)) = user
            && rustix::process::geteuid().is_root()
        {
            std::os::unix::fs::fchown(&file, Some(*uid), None).map_err(refused)?;
        }
        Ok(Some(Self { path, file, changes_user: user.is_some() || identity.chroot.is_some() }))
    }

    /// Writes the process id.
    pub(crate) fn write(&self) {
        let text = format!("{}\n", std::process::id());
        let written = self.replace(&text).or_else(|error| match self.changes_user {
            true => self.file.write_all_at(text.as_bytes(), 0),
            false => Err(error),
        });
        if let Err(error) = written {
            tracing::error!(file = %self.path.display(), %error, "the pid file cannot be written");
        }
    }

    /// Puts a new file in its place, so that a reader sees all of it or nothing.
    fn replace(&self, text: &str) -> io::Result<()> {
        let new = PathBuf::from(format!("{}.{}", self.path.display(), std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
        let put = file
            .set_permissions(fs::Permissions::from_mode(MODE))
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&new, &self.path));
        if put.is_err() {
            let _gone = fs::remove_file(&new);
        }
        put
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another process may have taken the path by now.
        let own = std::process::id();
        let is_own = match recorded(&self.path) {
            Ok(Some(pid)) => pid.as_raw_nonzero().get().cast_unsigned() == own,
            Ok(None) => self.is_in_place(),
            Err(_) => false,
        };
        if is_own && fs::remove_file(&self.path).is_err() {
            let _no_longer_ours = self.file.set_len(0);
        }
    }
}

impl PidFile {
    fn is_in_place(&self) -> bool {
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::metadata(&self.path)) else { return false };
        identity(own) == identity(there)
    }
}

/// The process id in the file; `None`: there is no file, or an empty one.
fn recorded(path: &Path) -> io::Result<Option<Pid>> {
    let text = match fs::metadata(path) {
        Ok(file) if file.is_file() && file.len() <= LEN_MAX => fs::read_to_string(path)?,
        Ok(_) => return Err(io::Error::other("it is not a pid file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let pid = text.trim().parse().ok().filter(|pid: &i32| *pid > 0).and_then(Pid::from_raw);
    pid.map(Some).ok_or_else(|| io::Error::other("there is something else in it than a process id"))
}

/// Whether the process exists, of any user.
fn lives(pid: Pid) -> bool {
    !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// The name of the program of a process.
fn program(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_nothing_else_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("weir-pid-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("weir.pid");
        assert_eq!(recorded(&path).unwrap(), None);
        for (text, pid) in [("", None), ("\n", None), ("12\n", Pid::from_raw(12)), ("12", Pid::from_raw(12))]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(recorded(&path).unwrap(), pid, "{text:?}");
        }
        for text in ["-1\n", "0\n", "twelve", "1 2", "a file of an operator that has another purpose"] {
            fs::write(&path, text).unwrap();
            assert!(recorded(&path).is_err(), "{text:?}");
        }
        assert!(recorded(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
