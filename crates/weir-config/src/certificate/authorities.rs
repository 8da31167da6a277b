//! Certificates of authorities: the trust anchors for certificates of peers.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use weir_http::WallTime;

use super::{CertificateError, FileProblem, pem, x509};

/// The content of a file of authorities: at least one certificate, each of which can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authorities {
    /// Where they were read from; `None`: from where this system keeps them.
    pub file: Option<PathBuf>,
    /// Each is independent; their order has no meaning.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Those of several files, or none; `file`: as errors and reports name them.
    pub fn new(file: Option<PathBuf>, certificates: Vec<CertificateDer<'static>>) -> Self {
        Self { file, certificates }
    }
}

impl Authorities {
    /// Reads a PEM file with the certificates of one or more authorities.
    ///
    /// # Errors
    /// When the file cannot be read, holds no certificate, or one that is damaged.
    pub fn load(file: &Path) -> Result<Arc<Self>, CertificateError> {
        match read(file) {
            Ok(certificates) => Ok(Arc::new(Self { file: Some(file.to_owned()), certificates })),
            Err((message, help)) => {
                Err(CertificateError { file: file.to_owned(), is_key: false, message, help })
            }
        }
    }

    /// Reads the same from a text that is in no file; `name` is only a name in errors and reports.
    ///
    /// # Errors
    /// As [`Authorities::load`].
    pub fn of_text(name: &Path, text: &[u8]) -> Result<Arc<Self>, CertificateError> {
        match parse(text) {
            Ok(certificates) => Ok(Arc::new(Self { file: Some(name.to_owned()), certificates })),
            Err((message, help)) => {
                Err(CertificateError { file: name.to_owned(), is_key: false, message, help })
            }
        }
    }

    /// The authorities that this system trusts.
    ///
    /// # Errors
    /// When it has none that can be used; the file is then the folder or bundle that was looked for.
    pub fn of_system() -> Result<Arc<Self>, CertificateError> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
            let message = format!("the system has no trusted authorities{why}");
            let help = Some("install the package `ca-certificates`, or name a file with authorities as `ca`");
            let file = PathBuf::from("the certificates of the system");
            return Err(CertificateError { file, is_key: false, message, help });
        }
        Ok(Arc::new(Self { file: None, certificates: found.certs }))
    }

    /// The first that nothing can be verified by, if there is one.
    pub fn unusable(&self) -> Option<CertificateError> {
        let is_unusable =
            |certificate: &CertificateDer<'_>| webpki::anchor_from_trusted_cert(certificate).is_err();
        let index = self.certificates.iter().position(is_unusable)?;
        let file = self.file.clone().unwrap_or_default();
        let message = format!("certificate {}: it is not usable as a trust anchor", index + 1);
        Some(CertificateError { file, is_key: false, message, help: None })
    }

    /// From when until when `certificate` is valid, if it is itself among these: one that has signed itself, say.
    pub fn validity_of(&self, certificate: &CertificateDer<'_>) -> Option<RangeInclusive<WallTime>> {
        let known = self.certificates.iter().find(|known| ***known == **certificate)?;
        let read = x509::read(known).ok()?;
        Some(read.not_before..=read.not_after)
    }
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    parse(&pem::read(file)?)
}

fn parse(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let certificates = pem::certificates(text)?;
    for (index, certificate) in certificates.iter().enumerate() {
        x509::read(certificate)
            .map_err(|(message, help)| (format!("certificate {}: {message}", index + 1), help))?;
    }
    Ok(certificates)
}
