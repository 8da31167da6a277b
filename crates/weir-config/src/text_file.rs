//! Files that are read whole, up to a size: a path may lead to a device that never ends.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The largest file of a config: many times what a hundred thousand routes take.
pub(crate) const CONFIG_BYTES_MAX: u64 = 64 << 20;

/// The same of what is no regular file: a pipe, or a device that never ends.
const STREAM_BYTES_MAX: u64 = 8 << 20;

/// The text of a file of at most `bytes_max` bytes, a whole number of MiB.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let (file, bytes_max) = open(path, bytes_max)?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text)?;
    if read as u64 > bytes_max { Err(too_large(bytes_max)) } else { Ok(text) }
}

/// The bytes of a file, as [`read_text`] reads its text.
pub(crate) fn read_bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, bytes_max) = open(path, bytes_max)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize);
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if read as u64 > bytes_max { Err(too_large(bytes_max)) } else { Ok(bytes) }
}

/// Opens a file that is not too large, with what may be read of it.
fn open(path: &Path, bytes_max: u64) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let data = file.metadata()?;
    let bytes_max = if data.is_file() { bytes_max } else { bytes_max.min(STREAM_BYTES_MAX) };
    if data.len() > bytes_max { Err(too_large(bytes_max)) } else { Ok((file, bytes_max)) }
}

/// Of a file of a map: device, inode, length and the times of the last change of it and of what is known of it, such as its owner; `None`: there is none.
pub type MapFileMark = Option<[i64; 7]>;

/// The mark of a file as it is now: another one says that it has changed.
pub(crate) fn file_mark(path: &Path) -> MapFileMark {
    let file = std::fs::metadata(path).ok()?;
    let number = |number: u64| number.cast_signed();
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    Some([number(file.dev()), number(file.ino()), number(file.len()), times[0], times[1], times[2], times[3]])
}

fn too_large(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {} MiB", bytes_max >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_read_up_to_the_bound() {
        let error = read_text(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "it is larger than 1 MiB")
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, "a = 1").unwrap();
        assert_eq!(read_text(&file, 1 << 20).unwrap(), "a = 1");
        File::options().write(true).open(&file).unwrap().set_len((1 << 20) + 1).unwrap();
        assert!(read_text(&file, 1 << 20).is_err());
    }
}
