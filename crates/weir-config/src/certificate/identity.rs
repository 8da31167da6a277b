//! The identity in a client certificate, as servers behind Weir receive it.
//!
//! Read from a certificate that has been verified. Everything except the common name is ASCII that is valid in a header (RFC 9110 section
//! 5.5).

use std::fmt::Write as _;

use aws_lc_rs::digest;
use rustls_pki_types::CertificateDer;
use weir_http::WallTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::distinguished_name::{common_name, print_name};
use super::x509;

/// The identity of the owner of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The subject by RFC 4514, the most specific part first; may be empty.
    pub subject: String,
    /// The common name in the subject, as text; of several, the first.
    pub common_name: Option<String>,
    /// The issuer, in the same form as the subject.
    pub issuer: String,
    /// The serial number, in upper-case hexadecimal.
    pub serial: String,
    /// SHA-256 of the whole certificate, in lower-case hexadecimal.
    pub fingerprint: String,
    /// Until when it is valid.
    pub not_after: WallTime,
}

impl Identity {
    /// Reads a certificate; nothing is verified. `None` when it is damaged.
    pub fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let serial = parsed.raw_serial();
        // DER puts a zero in front of a value that would be negative otherwise.
        let serial = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
        Some(Self {
            subject: print_name(parsed.subject()),
            common_name: common_name(parsed.subject()),
            issuer: print_name(parsed.issuer()),
            serial: hexadecimal(serial).to_ascii_uppercase(),
            fingerprint: hexadecimal(digest::digest(&digest::SHA256, certificate).as_ref()),
            not_after: x509::time(parsed.validity().not_after),
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
