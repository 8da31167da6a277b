//! `[listener.NAME.tls.client_certificates]`: verification of client certificates, and the headers that describe them to servers.

use std::sync::Arc;

use weir_sort::CompactSort as _;

use crate::certificate::{Authorities, RevocationLists};
use crate::key::{choice, section};
use crate::value::HeaderName;

/// Certificates of the clients of a listener.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientCertificates {
    /// Whether a certificate is required.
    pub verify: ClientVerification,
    /// The trusted authorities. Absent only when the config was read without its files.
    pub authorities: Option<Arc<Authorities>>,
    /// Certificates that their authorities have revoked.
    pub revocations: Option<Arc<RevocationLists>>,
    /// The headers for servers.
    pub headers: ClientCertificateHeaders,
}

impl ClientCertificates {
    /// Certificates of these authorities, with the defaults of the product.
    pub fn new(verify: ClientVerification, authorities: Arc<Authorities>) -> Self {
        let (authorities, headers) = (Some(authorities), ClientCertificateHeaders::default());
        Self { verify, authorities, revocations: None, headers }
    }
}

choice! {
    /// Whether a certificate is required.
    pub enum ClientVerification {
        /// yes
        #[default]
        Required = "required",
        /// no, but a certificate that is presented has to be valid
        Optional = "optional",
        /// no, and one that is not valid is treated as none: the header `verify` is `FAILED`
        Unverified = "optional-no-ca",
    }
}

section! {
    /// Request headers that describe the certificate of the client; `"off"` omits one. No server receives a client's own headers with these
    /// names, on any listener of this process; only `trusted_proxies` of a listener without `client_certificates` may send them.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ClientCertificateHeaders at "listener.NAME.tls.client_certificates.headers" {
        /// `SUCCESS`, or `NONE` when the client has presented no certificate, or `FAILED` when it is not valid and `verify` lets the client in;
        /// then the others are omitted.
        verify: Option<HeaderName> = "x-ssl-client-verify", like "nginx `$ssl_client_verify`, HAProxy `ssl_c_verify`";
        /// The subject by RFC 4514, such as `CN=Ann,O=Example`, in ASCII: other characters are escaped.
        subject: Option<HeaderName> = "x-ssl-client-s-dn", like "nginx `$ssl_client_s_dn`, HAProxy `ssl_c_s_dn`";
        /// The issuer, in the same form. With several authorities, only subject and issuer together identify the client.
        issuer: Option<HeaderName> = "off", like "nginx `$ssl_client_i_dn`, HAProxy `ssl_c_i_dn`";
        /// The serial number in hexadecimal.
        serial: Option<HeaderName> = "off", like "nginx `$ssl_client_serial`, HAProxy `ssl_c_serial`";
        /// SHA-256 of the certificate in lower-case hexadecimal.
        fingerprint: Option<HeaderName> = "x-ssl-client-fingerprint", like "nginx `$ssl_client_fingerprint`, HAProxy `ssl_c_sha1`";
        /// The whole certificate in the form of `Client-Cert` (RFC 9440), which is the name to use.
        certificate: Option<HeaderName> = "off", like "nginx `$ssl_client_escaped_cert`, HAProxy `ssl_c_der`";
    }
}

/// Common names of headers that describe client certificates: on a listener that verifies certificates, clients may not send them.
const USUAL: [&str; 7] = [
    "x-ssl-client-verify",
    "x-ssl-client-s-dn",
    "x-ssl-client-i-dn",
    "x-ssl-client-serial",
    "x-ssl-client-fingerprint",
    "client-cert",
    "client-cert-chain",
];

impl ClientCertificateHeaders {
    /// Each header that is on, with its key.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &HeaderName)> {
        let all = [
            ("verify", &self.verify),
            ("subject", &self.subject),
            ("issuer", &self.issuer),
            ("serial", &self.serial),
            ("fingerprint", &self.fingerprint),
            ("certificate", &self.certificate),
        ];
        all.into_iter().filter_map(|(key, name)| Some((key, name.as_ref()?)))
    }

    /// Headers that clients of a listener with these headers may not send.
    pub fn withheld(&self) -> Vec<Box<str>> {
        let mut names: Vec<Box<str>> = USUAL.iter().map(|name| (*name).into()).collect();
        names.extend(self.named().map(|(_, name)| (**name).into()));
        names.sort_compact();
        names.dedup();
        names
    }
}
