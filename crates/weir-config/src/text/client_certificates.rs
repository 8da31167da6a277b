//! `[listener.NAME.tls.client_certificates]` as it is written.

use crate::config::{ClientCertificateHeaders, ClientVerification};
use crate::key::{Spanned, SpannedTable, section};

section! {
    /// Certificates of clients. One that is shown has to be valid today, signed by a trusted authority, and, with `crl`, not revoked; else the
    /// client is refused in the handshake. Weir tells servers whose it was, in headers that no client can forge.
    #[derive(Debug, Clone)]
    pub(crate) struct ClientCertificatesText at "listener.NAME.tls.client_certificates" {
        /// Whether clients without a certificate are refused as well.
        verify: ClientVerification = "required", like "nginx `ssl_verify_client`, HAProxy `verify`";
        /// A PEM file with the certificates of the authorities that are trusted.
        ca: Spanned<Box<str>> = required, like "nginx `ssl_client_certificate`, HAProxy `ca-file`";
        /// A PEM file with lists of revoked certificates (CRL), one of each authority whose certificates clients may have, those between them and
        /// the trusted one included. Where the list is missing or outdated, the certificates of that authority are refused.
        crl: Spanned<Box<str>> = optional, like "nginx `ssl_crl`, HAProxy `crl-file`";
        /// What servers are told about the certificate.
        headers: SpannedTable<ClientCertificateHeaders> = {};
    }
}
