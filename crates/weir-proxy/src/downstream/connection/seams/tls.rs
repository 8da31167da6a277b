//! TLS of the clients and the servers of a rig: which sides have it, and certificates that both trust.

use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

/// The only name of the certificate.
const NAME: &str = "a.test";

/// Which sides of Weir have TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsSides {
    pub(super) clients: bool,
    pub(super) servers: bool,
}

impl TlsSides {
    pub(super) const NEITHER: Self = Self { clients: false, servers: false };
    pub(super) const CLIENTS: Self = Self { clients: true, servers: false };
    pub(super) const SERVERS: Self = Self { clients: false, servers: true };
    pub(super) const BOTH: Self = Self { clients: true, servers: true };

    pub(super) const WITH_TLS: [Self; 3] = [Self::CLIENTS, Self::SERVERS, Self::BOTH];
}

/// A certificate that is its own authority, of Weir and of its servers.
pub(super) struct TlsFiles {
    issued: CertifiedKey<rcgen::KeyPair>,
}

impl TlsFiles {
    /// Writes the certificate and its key into `folder`.
    pub(super) fn write(folder: &Path) -> Self {
        let issued = generate_simple_self_signed([NAME.to_owned()]).expect("a key can be made");
        std::fs::write(folder.join("a.pem"), issued.cert.pem()).expect("the folder takes a file");
        std::fs::write(folder.join("a.key"), issued.signing_key.serialize_pem())
            .expect("the folder takes a file");
        Self { issued }
    }

    /// The settings of the listener.
    pub(super) fn listener(folder: &Path) -> String {
        let folder = folder.display();
        format!(
            "listener.web.tls.certificates = [{{ certificate = \"{folder}/a.pem\", key = \"{folder}/a.key\" }}]"
        )
    }

    /// The settings of an upstream.
    pub(super) fn upstream(folder: &Path) -> String {
        format!("tls = {{ ca = \"{}/a.pem\", server_name = \"{NAME}\" }}", folder.display())
    }

    /// The side of a client that speaks this protocol.
    pub(super) fn client(&self, protocol: &[u8]) -> Connection {
        let mut roots = RootCertStore::empty();
        roots.add(self.issued.cert.der().clone()).expect("it is sound");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("it has suites of them");
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(NAME).expect("it is a name");
        ClientConnection::new(Arc::new(config), name).expect("the settings are sound").into()
    }

    /// What servers have that speak this protocol.
    pub(super) fn server(&self, protocol: &[u8]) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("it has suites of them");
        let key = PrivateKeyDer::try_from(self.issued.signing_key.serialize_der()).expect("it is a key");
        let chain = vec![self.issued.cert.der().clone()];
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        let mut config = config.expect("certificate and key fit");
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}

/// The side of a server of a connection that has just been accepted.
pub(super) fn accepted(config: &Arc<ServerConfig>) -> Connection {
    ServerConnection::new(Arc::clone(config)).expect("the settings are sound").into()
}
