//! `[listener.NAME.tls.client_certificates]` in the text.

use crate::config::{ClientCertificateHeaders, ClientVerification};
use crate::key::{Spanned, SpannedTable, section};

section! {
    /// Certificates of clients (mutual TLS). A certificate has to be valid, signed by a trusted authority, and, with `crl`, not revoked;
    /// otherwise the handshake fails. Servers receive its details in headers that clients cannot forge.
    #[derive(Debug, Clone)]
    pub(crate) struct ClientCertificatesText at "listener.NAME.tls.client_certificates" {
        /// Whether clients without a certificate are rejected.
        verify: ClientVerification = "required", like "nginx `ssl_verify_client`, HAProxy `verify`";
        /// A PEM file with the certificates of the trusted authorities.
        ca: Spanned<Box<str>> = required, like "nginx `ssl_client_certificate`, HAProxy `ca-file`";
        /// A PEM file with certificate revocation lists (CRL), one of each authority that issues client certificates, intermediate ones
        /// included. Without a current list, all certificates of that authority are rejected.
        crl: Spanned<Box<str>> = optional, like "nginx `ssl_crl`, HAProxy `crl-file`";
        /// Request headers that describe the certificate.
        headers: SpannedTable<ClientCertificateHeaders> = {};
    }
}
