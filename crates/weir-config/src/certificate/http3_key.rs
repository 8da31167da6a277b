//! Keys of HTTP/3 from files, which the nodes of a pair share.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CertificateError;
use super::random_bytes;

/// What others than owner and group may do with a file.
const OTHERS: u32 = 0o007;

/// A key from which those of stateless resets, of Retry tokens and of connection IDs are made. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http3Key {
    /// The file.
    pub file: PathBuf,
    /// Its content: random bytes.
    pub secret: Box<[u8]>,
    /// Whether every user of the machine may read or change it.
    pub is_open: bool,
}

impl Http3Key {
    /// A key that is in this file.
    pub fn new(file: impl Into<PathBuf>, secret: Box<[u8]>) -> Self {
        Self { file: file.into(), secret, is_open: false }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, has another length, or is nothing but one byte again and again.
    pub fn load(file: &Path) -> Result<Arc<Self>, CertificateError> {
        let secret = random_bytes::load(file, "HTTP/3")?;
        let is_open = fs::metadata(file).is_ok_and(|found| found.permissions().mode() & OTHERS != 0);
        Ok(Arc::new(Self { file: file.to_owned(), secret, is_open }))
    }
}

impl fmt::Debug for Http3Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http3Key").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_everyone_is_noticed_and_the_secret_is_not_shown() {
        let file = std::env::temp_dir().join(format!("weir-http3-key-{}", std::process::id()));
        fs::write(&file, (0..80).collect::<Vec<u8>>()).unwrap();
        for (mode, is_open) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let key = Http3Key::load(&file).unwrap();
            assert_eq!(key.is_open, is_open, "{mode:o}");
            assert!(!format!("{key:?}").contains("78, 79"));
        }
        fs::write(&file, "short").unwrap();
        let error = Http3Key::load(&file).unwrap_err();
        assert_eq!(error.message, "a key of HTTP/3 has 80 or 48 bytes, not 5");
        fs::remove_file(&file).unwrap();
    }
}
