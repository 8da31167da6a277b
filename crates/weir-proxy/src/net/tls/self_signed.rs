//! Self-signed certificates of servers or clients that are listed among the authorities.
//!
//! By the standard an authority is not an end-entity certificate (RFC 5280 section 4.2.1.9), so that verification fails; OpenSSL takes such a certificate, and people
//! expect that. It still has to be valid today, and what a list says of it holds.

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};
use weir_config::Authorities;
use weir_http::WallTime;

/// Checks a certificate again that no authority has signed, which `error` reports.
///
/// # Errors
/// `error`, unless the certificate is among `authorities` itself; then why it is not valid today.
pub(super) fn verify(
    authorities: &Authorities,
    certificate: &CertificateDer<'_>,
    now: UnixTime,
    error: Error,
) -> Result<(), Error> {
    if is_about_revocation(&error) {
        return Err(error);
    }
    let Some(validity) = authorities.validity_of(certificate) else { return Err(error) };
    let now = WallTime::from_seconds(now.as_secs());
    if now < *validity.start() {
        Err(CertificateError::NotValidYet.into())
    } else if now > *validity.end() {
        Err(CertificateError::Expired.into())
    } else {
        Ok(())
    }
}

/// Whether a revocation list was checked and did not confirm the certificate.
fn is_about_revocation(error: &Error) -> bool {
    use CertificateError as Certificate;
    matches!(
        error,
        Error::InvalidCertRevocationList(_)
            | Error::InvalidCertificate(
                Certificate::Revoked
                    | Certificate::UnknownRevocationStatus
                    | Certificate::ExpiredRevocationList
                    | Certificate::ExpiredRevocationListContext { .. }
            )
    )
}
