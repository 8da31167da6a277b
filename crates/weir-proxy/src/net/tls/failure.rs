//! Maps errors of rustls to causes of failures.

use rustls::{CertificateError, PeerIncompatible, PeerMisbehaved};
use weir_observe::Cause;

/// The cause behind an error of rustls.
pub(crate) fn of_rustls(error: &rustls::Error) -> Cause {
    use rustls::Error;
    match error {
        Error::AlertReceived(_) => Cause::TlsAlert,
        Error::NoCertificatesPresented => Cause::TlsCertificateMissing,
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::InvalidCertRevocationList(_) => Cause::TlsRevocationUnknown,
        Error::PeerIncompatible(PeerIncompatible::ServerRejectedEncryptedClientHello(_)) => {
            Cause::TlsHandshakeFailed
        }
        // No certificate was chosen for the server name.
        Error::General(message) if message.starts_with("no server certificate chain") => {
            Cause::TlsUnrecognizedName
        }
        // `General` means that no certificate fits the signature schemes of the client.
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol | Error::General(_) => {
            Cause::TlsNoSharedCipher
        }
        Error::PeerMisbehaved(PeerMisbehaved::TooManyEmptyFragments) => Cause::TlsEmptyRecords,
        _ => Cause::TlsHandshakeFailed,
    }
}

/// The cause behind a certificate that is not taken.
fn of_certificate(error: &CertificateError) -> Cause {
    use CertificateError as Error;
    match error {
        Error::Expired
        | Error::ExpiredContext { .. }
        | Error::NotValidYet
        | Error::NotValidYetContext { .. } => Cause::TlsCertificateExpired,
        Error::Revoked => Cause::TlsCertificateRevoked,
        Error::UnknownRevocationStatus
        | Error::ExpiredRevocationList
        | Error::ExpiredRevocationListContext { .. } => Cause::TlsRevocationUnknown,
        _ => Cause::TlsCertificateRejected,
    }
}
