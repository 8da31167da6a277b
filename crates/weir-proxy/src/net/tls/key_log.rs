//! Writes the secrets of TLS connections to a file, to decrypt captured traffic with Wireshark: only where the config says so.
//!
//! The format is NSS's, one line for each secret. A line is written with one system call to a file that is only appended to, so that
//! no lock is needed. Must not be written unless the config names the file: the environment (`SSLKEYLOGFILE`) is ignored.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustls::{KeyLog, NoKeyLog};

/// For its owner alone: a reader of it can decrypt all traffic.
const MODE: u32 = 0o600;

/// Files in use, each opened once.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<KeyLogFile>>>> = LazyLock::new(Mutex::default);

/// A file that gets the secrets of connections.
#[derive(Debug)]
pub struct KeyLogFile {
    path: PathBuf,
    file: File,
    /// Whether there was none before.
    is_new: bool,
    /// Whether the log has said that it cannot be written.
    failed: AtomicBool,
}

impl KeyLogFile {
    /// Opens a file to append to, and makes it, for its owner alone, when there is none; one that is open already is shared.
    ///
    /// # Errors
    /// Those of `open(2)`, with the name of the file.
    pub fn open(path: &Path) -> io::Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.get(path).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let is_new = !path.exists();
        let file = OpenOptions::new().create(true).append(true).mode(MODE).open(path).map_err(named)?;
        let mode = file.metadata().map_err(named)?.mode();
        if mode & 0o077 != 0 {
            tracing::warn!(file = %path.display(), "the key log was there before, and others than its owner have access to it");
        }
        let opened = Arc::new(Self { path: path.to_owned(), file, is_new, failed: AtomicBool::new(false) });
        open.retain(|_, known| known.strong_count() > 0);
        open.insert(path.to_owned(), Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Gives the file to the user that the process becomes, if it is new: a later reload may open it again.
    ///
    /// # Errors
    /// Those of `fchown(2)`.
    pub fn give_to(&self, uid: Option<u32>, gid: u32) -> io::Result<()> {
        if self.is_new { std::os::unix::fs::fchown(&self.file, uid, Some(gid)) } else { Ok(()) }
    }
}

/// Where secrets go: to this file, or nowhere.
///
/// # Errors
/// As [`KeyLogFile::open`].
pub(crate) fn open(path: Option<&Path>) -> io::Result<Arc<dyn KeyLog>> {
    Ok(match path {
        Some(path) => KeyLogFile::open(path)?,
        None => Arc::new(NoKeyLog),
    })
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let written = (&self.file).write_all(line(label, client_random, secret).as_bytes());
        if let Err(error) = written
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::error!(file = %self.path.display(), %error, "the key log cannot be written");
        }
    }
}

/// `LABEL CLIENT_RANDOM SECRET`, the last two in hexadecimal.
fn line(label: &str, client_random: &[u8], secret: &[u8]) -> String {
    let mut line = String::with_capacity(label.len() + 2 * (client_random.len() + secret.len()) + 3);
    line.push_str(label);
    for bytes in [client_random, secret] {
        line.push(' ');
        for byte in bytes {
            write!(line, "{byte:02x}").expect("a string takes everything");
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_wireshark_expects_it() {
        assert_eq!(line("CLIENT_RANDOM", &[0, 0xab], &[0xff, 1]), "CLIENT_RANDOM 00ab ff01\n");
    }
}
