//! A certificate with its chain and its key, read from files and compared with each other.
//!
//! Errors name the file that they are in. The data path gets objects that are ready for handshakes, and reads the same files in the same
//! way when they have changed. Must not know where a certificate is used.

mod directory;
mod identity;
mod ocsp;
mod ticket_key;
mod http3_key;
mod random_bytes;
mod revocations;
mod authorities;
mod distinguished_name;
mod key;
mod pem;
mod x509;

pub use authorities::Authorities;
pub use directory::{CertificateDirectory, DirectoryFiles, ListenerCertificate, UnusableCertificate};
pub use http3_key::Http3Key;
pub use identity::Identity;
pub use ocsp::OcspResponse;
pub use revocations::RevocationLists;
pub use ticket_key::TicketKey;
pub use x509::has_uri;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use weir_http::WallTime;

/// The files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// PEM with the certificate first, then the chain to a root.
    pub certificate: PathBuf,
    /// PEM with the private key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// A certificate and its key in these files, which may be one.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }
}

/// A certificate that can be shown in a handshake: chain and key belong together.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadedCertificate {
    /// Where it was read from.
    pub files: CertificateFiles,
    /// The certificate, then the chain to a root.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key of the first of the chain.
    pub key: PrivateKeyDer<'static>,
    /// The host names it is for, in lower case; a leading `*.` matches one label. A leading `.`, which no name in a certificate has, matches
    /// any number of labels, for hosts without a name of the other forms.
    pub names: Vec<Box<str>>,
    /// From when on it is valid.
    pub not_before: WallTime,
    /// Until when it is valid.
    pub not_after: WallTime,
}

impl LoadedCertificate {
    /// One that was made rather than read, valid in this time; its key is that of the first of the chain.
    pub fn new(
        files: CertificateFiles,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        names: Vec<Box<str>>,
        valid: RangeInclusive<WallTime>,
    ) -> Self {
        let (not_before, not_after) = valid.into_inner();
        Self { files, chain, key, names, not_before, not_after }
    }
}

impl LoadedCertificate {
    /// The same certificate for other names.
    pub fn for_names(&self, names: Vec<Box<str>>) -> Self {
        Self {
            files: self.files.clone(),
            chain: self.chain.clone(),
            key: self.key.clone_key(),
            names,
            not_before: self.not_before,
            not_after: self.not_after,
        }
    }
}

/// Why files are not a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateError {
    /// The file that is to blame.
    pub file: PathBuf,
    /// Whether it is the one with the key.
    pub is_key: bool,
    /// The error, in one sentence without a full stop and without the name of the file.
    pub message: String,
    /// The hint.
    pub help: Option<&'static str>,
}

impl CertificateError {
    /// An error in this file.
    pub fn new(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { file: file.into(), is_key: false, message: message.into(), help: None }
    }
}

impl fmt::Display for CertificateError {
    /// `file: message (help)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.message)?;
        match self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CertificateError {}

/// A sentence about a file and a hint.
type FileProblem = (String, Option<&'static str>);

fn problem(message: impl Into<String>) -> FileProblem {
    (message.into(), None)
}

impl CertificateFiles {
    /// Reads both files and compares them.
    ///
    /// # Errors
    /// When one of them cannot be read or used, or when they do not belong together. That a certificate is not valid at the
    /// moment is none: see [`LoadedCertificate::warning`].
    pub fn load(&self) -> Result<Arc<LoadedCertificate>, CertificateError> {
        let chain = pem::read(&self.certificate)
            .and_then(|text| pem::certificates(&text))
            .map_err(|problem| self.error_of_certificate(problem))?;
        self.of(chain, || self.load_key())
    }

    fn error_of_certificate(&self, (message, help): FileProblem) -> CertificateError {
        CertificateError { file: self.certificate.clone(), is_key: false, message, help }
    }

    /// The chain with its key, which is asked for only if the chain can be used.
    fn of(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: impl FnOnce() -> Result<PrivateKeyDer<'static>, CertificateError>,
    ) -> Result<Arc<LoadedCertificate>, CertificateError> {
        let of_key = |(message, help): FileProblem| CertificateError {
            file: self.key.clone(),
            is_key: true,
            message,
            help,
        };
        let leaf = x509::read(&chain[0]).map_err(|problem| self.error_of_certificate(problem))?;
        let key = key()?;
        let public = key::public_key(&key).map_err(of_key)?;
        if public != leaf.public_key {
            let message =
                format!("the key does not belong to the certificate in {}", self.certificate.display());
            let help = match chain[1..]
                .iter()
                .any(|other| x509::read(other).is_ok_and(|it| it.public_key == public))
            {
                true => {
                    "it belongs to a later certificate of that file: its own certificate has to come first"
                }
                false => "was one of the two files renewed without the other?",
            };
            return Err(of_key((message, Some(help))));
        }
        Ok(Arc::new(LoadedCertificate {
            files: self.clone(),
            chain,
            key,
            names: leaf.names,
            not_before: leaf.not_before,
            not_after: leaf.not_after,
        }))
    }

    /// The same from texts that are in no file; these paths are only names in errors and reports.
    ///
    /// # Errors
    /// As [`CertificateFiles::load`].
    pub fn load_texts(
        &self,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<Arc<LoadedCertificate>, CertificateError> {
        let chain = pem::certificates(certificate).map_err(|problem| self.error_of_certificate(problem))?;
        self.of(chain, || {
            pem::private_key(key).map_err(|(message, help)| CertificateError {
                file: self.key.clone(),
                is_key: true,
                message,
                help,
            })
        })
    }
}

impl CertificateFiles {
    /// Reads the key alone.
    ///
    /// # Errors
    /// When the file cannot be read or used.
    pub(crate) fn load_key(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let read = pem::read(&self.key).and_then(|text| pem::private_key(&text));
        read.map_err(|(message, help)| CertificateError {
            file: self.key.clone(),
            is_key: true,
            message,
            help,
        })
    }
}

impl LoadedCertificate {
    /// Whether its key is for RSA; else it is for ECDSA or Ed25519.
    pub(crate) fn has_rsa_key(&self) -> bool {
        key::is_rsa(&self.key)
    }

    /// Why clients may refuse it although it can be used: it is not valid at `now`, or is for no name at all.
    pub fn warning(&self, now: WallTime) -> Option<String> {
        self.expiry_warning(now).or_else(|| {
            self.names.is_empty().then(|| {
                "the certificate matches no host name: it has no DNS name among its subject alternative names"
                    .to_owned()
            })
        })
    }

    /// Why peers may reject it although it is usable: it is not valid at `now`.
    pub fn expiry_warning(&self, now: WallTime) -> Option<String> {
        let days = |time: Duration| time.as_secs() / 86_400;
        if let Some(since) = now.checked_since(self.not_after).map(days) {
            return Some(match since {
                0 => "the certificate has expired".to_owned(),
                days => format!("the certificate expired {days} days ago"),
            });
        }
        (self.not_before > now).then(|| "the certificate is not valid yet".to_owned())
    }
}
