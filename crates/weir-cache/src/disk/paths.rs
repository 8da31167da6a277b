//! Where files are: `ab/cd/abcd...`, the key in hexadecimal digits; what is being written in `writing/`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::store::{KeySecret, SlotKey};

/// The folder for files that are being written.
const WRITING: &str = "writing";
/// The file with the secret.
const SECRET: &str = "secret";
/// The folder for purges under way.
const PURGES: &str = "purges";

/// The paths of one folder.
#[derive(Debug)]
pub(super) struct FolderPaths(PathBuf);

impl FolderPaths {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    pub(super) fn of(&self, slot: SlotKey) -> PathBuf {
        let name = format!("{:032x}", slot.0);
        self.0.join(&name[..2]).join(&name[2..4]).join(name)
    }

    pub(super) fn writing(&self) -> PathBuf {
        self.0.join(WRITING)
    }

    pub(super) fn purges(&self) -> PathBuf {
        self.0.join(PURGES)
    }

    pub(super) fn secret(&self) -> PathBuf {
        self.0.join(SECRET)
    }

    /// Blocking: makes the folder, and those in it that are always there.
    pub(super) fn make_folders(&self) -> io::Result<()> {
        std::fs::create_dir_all(self.writing())?;
        std::fs::create_dir_all(self.purges())
    }

    /// Blocking: writes the secret to its file.
    pub(super) fn write_secret(&self, secret: KeySecret) -> io::Result<()> {
        let new = self.writing().join(SECRET);
        remove_file(&new)?;
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create_new(true).open(&new)?;
        file.write_all(&secret.0)?;
        std::fs::rename(&new, self.secret())
    }
}

/// The key that a file is named by; `None` when it is none of ours.
pub(super) fn slot_of_name(name: &str) -> Option<SlotKey> {
    let is_ours = name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_ours.then(|| u128::from_str_radix(name, 16).ok().map(SlotKey))?
}

/// Blocking: removes a file; it may be gone already.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
