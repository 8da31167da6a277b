//! The files of a config of another product, as they are on this machine.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use weir_access::PasswordHash;
use weir_config::CheckedConfig;
use weir_control::HTTP3;
use weir_import::{ResultFault, SourceFiles, SourceFormat};

/// The most that is read of one file, which may be a device that never ends; an import takes less.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The most files that a pattern may stand for.
const FILES_MAX: usize = 10_000;

/// The files of this machine, and what was read of them.
#[derive(Debug, Default)]
pub(crate) struct ReadFiles {
    read: RefCell<Vec<(String, String)>>,
}

impl ReadFiles {
    /// The names and texts of what was read, in that order; what could not be read is empty.
    pub(crate) fn into_texts(self) -> Vec<(String, String)> {
        self.read.into_inner()
    }
}

impl SourceFiles for ReadFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        let text = read_text(Path::new(path));
        let mut read = self.read.borrow_mut();
        if read.iter().all(|(name, _)| name != path) {
            let known = text.as_ref().map_or_else(|_| String::new(), Clone::clone);
            read.push((path.to_owned(), known));
        }
        text
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let found = glob::glob(pattern).into_iter().flatten().flatten();
        let files = found.filter(|path| !path.is_dir()).take(FILES_MAX);
        files.map(|path| path.display().to_string()).collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }

    fn has_http3(&self) -> bool {
        HTTP3.is_compiled_in
    }

    fn password_hash(&self, password: &str, salt: &str) -> Option<String> {
        Some(PasswordHash::of_password(password.as_bytes(), salt).text().to_owned())
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        let what = format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

/// The files that are named: HAProxy takes for a folder the files in it whose names end with `.cfg`, in their order.
pub(crate) fn named_files(format: SourceFormat, paths: &[PathBuf]) -> Vec<String> {
    let mut names = Vec::new();
    for path in paths {
        if format != SourceFormat::Haproxy || !path.is_dir() {
            names.push(path.display().to_string());
            continue;
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_config = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.ends_with(".cfg") && !name.starts_with('.') && path.is_file()
        };
        let mut inside: Vec<String> =
            entries.filter(is_config).map(|path| path.display().to_string()).collect();
        inside.sort();
        // A folder without any is told as one that cannot be read.
        if inside.is_empty() {
            inside.push(path.display().to_string());
        }
        names.append(&mut inside);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_configs_in_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.cfg", "a.cfg", ".hidden.cfg", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names = named_files(SourceFormat::Haproxy, &[folder.path().to_owned()]);
        let expected: Vec<String> =
            ["a.cfg", "b.cfg"].map(|name| folder.path().join(name).display().to_string()).to_vec();
        assert_eq!(names, expected);
    }

    #[test]
    fn what_was_read_is_known_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nginx.conf").display().to_string();
        fs::write(&path, "events {}").unwrap();
        let files = ReadFiles::default();
        assert_eq!(files.read(&path).unwrap(), "events {}");
        assert!(files.read("/nowhere/mime.types").is_err());
        files.read(&path).unwrap();
        let texts = files.into_texts();
        assert_eq!(
            texts,
            [(path, "events {}".to_owned()), ("/nowhere/mime.types".to_owned(), String::new())]
        );
    }
}
