//! Keys of session tickets from files, which several nodes share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CertificateError;
use super::random_bytes;

/// A key of tickets. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TicketKey {
    /// The file.
    pub file: PathBuf,
    /// Its content: random bytes.
    pub secret: Box<[u8]>,
}

impl TicketKey {
    /// A key that is in this file.
    pub fn new(file: impl Into<PathBuf>, secret: Box<[u8]>) -> Self {
        Self { file: file.into(), secret }
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").field("file", &self.file).finish_non_exhaustive()
    }
}

impl TicketKey {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, has another length, or is nothing but one byte again and again.
    pub fn load(file: &Path) -> Result<Arc<Self>, CertificateError> {
        let secret = random_bytes::load(file, "tickets")?;
        Ok(Arc::new(Self { file: file.to_owned(), secret }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_not_shown() {
        let key = TicketKey::new("/etc/weir/tickets.key", (0..80).collect());
        assert!(!format!("{key:?}").contains("78, 79"));
    }
}
