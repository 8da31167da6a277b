//! The parts of a certificate that Weir needs (RFC 5280): names, validity, the public key.

use rustls_pki_types::CertificateDer;
use weir_http::WallTime;
use x509_parser::prelude::{ASN1Time, FromDer as _, GeneralName, X509Certificate};

use super::{FileProblem, problem};

/// The parsed fields of a certificate.
pub(super) struct ParsedCertificate {
    /// Host names in lower case.
    pub(super) names: Vec<Box<str>>,
    pub(super) not_before: WallTime,
    pub(super) not_after: WallTime,
    /// The content of the bit string `subjectPublicKey`.
    pub(super) public_key: Vec<u8>,
}

/// Reads a certificate; nothing is verified.
pub(super) fn read(der: &CertificateDer<'_>) -> Result<ParsedCertificate, FileProblem> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| problem("the certificate is damaged"))?;
    let alternatives = certificate
        .subject_alternative_name()
        .map_err(|_| problem("the subject alternative names of the certificate are damaged"))?;
    let names = alternatives.iter().flat_map(|names| &names.value.general_names);
    let names = names.filter_map(|name| match name {
        // A name that begins with a dot is none (RFC 5280 section 4.2.1.6).
        GeneralName::DNSName(name) if !name.starts_with('.') => {
            Some(name.to_ascii_lowercase().into_boxed_str())
        }
        _ => None,
    });
    let validity = certificate.validity();
    Ok(ParsedCertificate {
        names: names.collect(),
        not_before: time(validity.not_before),
        not_after: time(validity.not_after),
        public_key: certificate.public_key().subject_public_key.data.to_vec(),
    })
}

/// Whether a certificate has this URI among its subject alternative names; nothing is verified.
pub fn has_uri(der: &CertificateDer<'_>, uri: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return false };
    let names = certificate.subject_alternative_name();
    let mut names = names.iter().flatten().flat_map(|names| &names.value.general_names);
    names.any(|name| matches!(name, GeneralName::URI(known) if *known == uri))
}

/// A moment of X.509, in whole seconds.
pub(super) fn time(time: ASN1Time) -> WallTime {
    WallTime::from_signed_seconds(time.timestamp())
}
