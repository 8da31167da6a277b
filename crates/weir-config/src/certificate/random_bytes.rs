//! Files of random bytes, from which keys are made that several nodes share.

use std::path::Path;

use super::{CertificateError, pem};

/// The lengths of a file, those of nginx's `ssl_session_ticket_key`.
const LENGTHS: [usize; 2] = [80, 48];

const HELP: &str = "make one with `openssl rand -out FILE 80`, readable for the user of Weir only";

/// Reads a file; `of` says what the key is of.
///
/// # Errors
/// When it cannot be read, has another length, or is nothing but one byte again and again.
pub(super) fn load(file: &Path, of: &str) -> Result<Box<[u8]>, CertificateError> {
    let read = || {
        let secret = pem::read(file)?;
        if !LENGTHS.contains(&secret.len()) {
            return Err((format!("a key of {of} has 80 or 48 bytes, not {}", secret.len()), Some(HELP)));
        }
        if secret.iter().all(|byte| *byte == secret[0]) {
            return Err((format!("a key of {of} is random, and this is not"), Some(HELP)));
        }
        Ok(secret.into_boxed_slice())
    };
    read().map_err(|(message, help)| CertificateError { file: file.to_owned(), is_key: true, message, help })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_random_and_of_the_right_length() {
        let file = std::env::temp_dir().join(format!("weir-random-bytes-{}", std::process::id()));
        let load = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            load(&file, "tickets")
        };
        let random: Vec<u8> = (0..80).collect();
        assert_eq!(*load(&random).unwrap(), *random);
        assert!(load(&random[..48]).is_ok());
        for bad in [&random[..79], &[], &[0; 80]] {
            assert_eq!(load(bad).unwrap_err().help, Some(HELP), "{}", bad.len());
        }
        std::fs::remove_file(&file).unwrap();
        assert!(super::load(&file, "tickets").is_err());
    }
}
