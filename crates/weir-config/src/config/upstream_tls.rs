//! `[upstream.NAME.tls]`: how servers prove who they are, and what a TLS handshake with them may agree on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;

use super::{CipherSuite, KeyExchangeGroup, TlsVersion};
use crate::certificate::{Authorities, LoadedCertificate, RevocationLists};

/// TLS with the servers of an upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTls {
    /// Whose signature makes the certificate of a server one to trust; `None`: any certificate will do.
    pub authorities: Option<Arc<Authorities>>,
    /// Whom the authorities do not vouch for any more; `None`: nobody asks.
    pub revocations: Option<Arc<RevocationLists>>,
    /// What Weir shows to servers that ask who it is; `None`: nothing.
    pub certificate: Option<Arc<LoadedCertificate>>,
    /// What each server is asked for, and what its certificate has to be for; in the order of the servers.
    pub names: Vec<ServerName<'static>>,
    /// The versions, each once, at least one.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites in the order of preference; every version has one.
    pub cipher_suites: Vec<CipherSuite>,
    /// The groups in the order of preference.
    pub groups: Vec<KeyExchangeGroup>,
    /// Whether a new connection goes on with the session of an earlier one, where the server allows it.
    pub session_reuse: bool,
    /// The file that gets the secrets of every connection.
    pub key_log: Option<PathBuf>,
    /// How often the files are looked at.
    pub reload: Option<Duration>,
}
