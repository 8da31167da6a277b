//! `[upstream.NAME.tls]`: verification of servers, and parameters of TLS handshakes with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;

use crate::certificate::{Authorities, LoadedCertificate, RevocationLists};
use crate::config::UpstreamFault;
use crate::config::{CipherSuite, KeyExchangeGroup, TlsVersion, versions_without_suite};
use crate::value::CertificateName;

/// TLS with the servers of an upstream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpstreamTls {
    /// The trusted authorities; `None`: any certificate is accepted.
    pub authorities: Option<Arc<Authorities>>,
    /// Certificates that their authorities have revoked; `None`: revocation is not checked.
    pub revocations: Option<Arc<RevocationLists>>,
    /// The certificate that Weir presents to servers that request one; `None`: none.
    pub certificate: Option<Arc<LoadedCertificate>>,
    /// The server name (SNI) that each certificate has to match, in the order of the servers.
    pub names: Vec<ServerName<'static>>,
    /// The server name (SNI) of all servers without one of their own; `None`: their addresses.
    pub server_name: Option<ServerName<'static>>,
    /// The names of which a certificate has to have one, in place of the server name; empty: the server name.
    pub subject_alt_names: Vec<CertificateName>,
    /// The versions, each once, at least one.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites in the order of preference; every version has one.
    pub cipher_suites: Vec<CipherSuite>,
    /// The groups in the order of preference.
    pub groups: Vec<KeyExchangeGroup>,
    /// Whether a new connection resumes the session of an earlier one, where the server allows it.
    pub session_reuse: bool,
    /// The file that gets the secrets of every connection.
    pub key_log: Option<PathBuf>,
    /// How often the files are polled.
    pub reload: Option<Duration>,
}

impl UpstreamTls {
    /// The same for servers whose certificates have to be for these names.
    #[must_use]
    pub fn with_names(&self, names: Vec<ServerName<'static>>) -> Self {
        Self { names, ..self.clone() }
    }

    /// What may not hold of it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = UpstreamFault> {
        let none = self.versions.is_empty().then_some(UpstreamFault::NoTlsVersion);
        none.into_iter().chain(
            versions_without_suite(&self.versions, &self.cipher_suites)
                .map(|version| UpstreamFault::NoSuite(version.name())),
        )
    }
}
