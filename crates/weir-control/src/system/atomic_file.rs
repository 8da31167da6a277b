//! Files that are replaced as a whole, so that no reader meets half of one, also after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces a file; a crash at any moment leaves the old one or the new one.
///
/// # Errors
/// When it cannot be written; then the old one is there.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    let mut random = [0; 4];
    let _none = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    // Another process may write the same file.
    name.push(format!(".{:08x}.tmp", u32::from_ne_bytes(random)));
    let temporary = folder.join(name);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| {
        let _was_gone = fs::remove_file(&temporary);
    })
}
