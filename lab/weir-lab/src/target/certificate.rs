//! The certificate that the targets show, made for each run.
//!
//! Signed by its own key and trusted by the clients as it is: what a chain costs is not measured. As files, since that is how
//! products take it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rustls::pki_types::CertificateDer;

use crate::topology::listener::CertificateKey;

/// The name it is for.
pub const NAME: &str = "weir-lab.test";

/// See the module.
#[derive(Debug, Clone)]
pub struct TargetCertificate {
    /// The file of the certificate (PEM).
    pub certificate: PathBuf,
    /// The file of its key (PEM).
    pub key: PathBuf,
    /// A file with both, certificate first.
    pub both: PathBuf,
    /// The certificate itself.
    pub der: CertificateDer<'static>,
}

impl TargetCertificate {
    /// Makes one in `dir`.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn make(key: CertificateKey, dir: &Path) -> anyhow::Result<Self> {
        let pair = match key {
            CertificateKey::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            // 2048 bits by default.
            CertificateKey::Rsa2048 => KeyPair::generate_for(&PKCS_RSA_SHA256),
        };
        let pair = pair.context("no key")?;
        let made = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&pair)?;
        let (certificate, secret) = (made.pem(), pair.serialize_pem());
        let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            certificate: write("certificate.pem", &certificate)?,
            key: write("key.pem", &secret)?,
            both: write("both.pem", &format!("{certificate}{secret}"))?,
            der: made.der().clone(),
        })
    }
}
