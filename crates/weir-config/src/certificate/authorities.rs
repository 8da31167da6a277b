//! The certificates of authorities: whose signature makes a peer's certificate one to trust.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use super::{CertificateError, Said, pem, x509};

/// What a file of authorities holds: at least one certificate, each of which can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    /// Where they were read from.
    pub file: PathBuf,
    /// Each stands for itself; their order means nothing.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Reads a PEM file with the certificates of one or more authorities.
    ///
    /// # Errors
    /// When the file cannot be read, holds no certificate, or one that is damaged.
    pub fn load(file: &Path) -> Result<Arc<Self>, CertificateError> {
        match read(file) {
            Ok(certificates) => Ok(Arc::new(Self { file: file.to_owned(), certificates })),
            Err((what, hint)) => Err(CertificateError { file: file.to_owned(), is_key: false, what, hint }),
        }
    }
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, Said> {
    let certificates = pem::certificates(&pem::read(file)?)?;
    for (index, certificate) in certificates.iter().enumerate() {
        x509::read(certificate)
            .map_err(|(what, hint)| (format!("certificate {}: {what}", index + 1), hint))?;
    }
    Ok(certificates)
}
