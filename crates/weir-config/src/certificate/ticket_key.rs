//! Keys of session tickets from files, which several nodes share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CertificateError, pem};

/// The lengths of a file, those of nginx's `ssl_session_ticket_key`.
const LENGTHS: [usize; 2] = [80, 48];

const HELP: &str = "make one with `openssl rand -out FILE 80`, readable for the user of Weir only";

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
        let read = || {
            let secret = pem::read(file)?;
            if !LENGTHS.contains(&secret.len()) {
                return Err((
                    format!("a key of tickets has 80 or 48 bytes, not {}", secret.len()),
                    Some(HELP),
                ));
            }
            if secret.iter().all(|byte| *byte == secret[0]) {
                return Err(("a key of tickets is random, and this is not".to_owned(), Some(HELP)));
            }
            Ok(secret)
        };
        match read() {
            Ok(secret) => Ok(Arc::new(Self { file: file.to_owned(), secret: secret.into_boxed_slice() })),
            Err((message, help)) => {
                Err(CertificateError { file: file.to_owned(), is_key: true, message, help })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_random_and_of_the_right_length() {
        let file = std::env::temp_dir().join(format!("weir-ticket-key-{}", std::process::id()));
        let load = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            TicketKey::load(&file)
        };
        let random: Vec<u8> = (0..80).collect();
        assert_eq!(*load(&random).unwrap().secret, *random);
        assert!(load(&random[..48]).is_ok());
        for bad in [&random[..79], &[], &[0; 80]] {
            assert_eq!(load(bad).unwrap_err().help, Some(HELP), "{}", bad.len());
        }
        assert!(!format!("{:?}", load(&random).unwrap()).contains("78, 79"), "the secret is not shown");
        std::fs::remove_file(&file).unwrap();
        assert!(TicketKey::load(&file).is_err());
    }
}
