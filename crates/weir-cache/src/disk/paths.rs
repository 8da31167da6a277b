//! Where files are: `ab/cd/abcd...`, the key in hexadecimal digits; what is being written in `writing/`.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::SlotKey;

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
