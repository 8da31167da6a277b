//! The settings of TLS at the ends of Weir's connections, from the certificates of the run.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::link::LinkStream;
use crate::array::Client;
use crate::config::HOST;

/// Settings of clients and servers, without the protocols that they offer.
#[derive(Clone)]
pub(crate) struct PeerCertificates {
    client: ClientConfig,
    /// The same with a certificate.
    known_client: ClientConfig,
    server: ServerConfig,
}

impl PeerCertificates {
    /// Reads what `config::write_files` has written.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("ca.pem")).context("no authority")?)?;
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let own = vec![CertificateDer::from_pem_file(folder.join("client.pem")).context("no certificate")?];
        let own_key = PrivateKeyDer::from_pem_file(folder.join("client.key")).context("no key")?;
        let known_client = client.clone().with_client_auth_cert(own, own_key)?;
        let client = client.with_no_client_auth();
        let chain = vec![CertificateDer::from_pem_file(folder.join("server.pem")).context("no certificate")?];
        let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).context("no key")?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self { client, known_client, server })
    }

    /// The settings of a client, with a certificate where it has one.
    pub(super) fn of_client(&self, client: Client) -> ClientConfig {
        if client.has_certificate() { self.known_client.clone() } else { self.client.clone() }
    }

    /// The client's end of HTTP/2.
    pub(super) fn connect(&self, tcp: TcpStream, client: Client) -> Option<LinkStream> {
        let mut config = self.of_client(client);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(HOST).ok()?;
        let session = ClientConnection::new(Arc::new(config), name).ok()?;
        Some(LinkStream::TlsClient(Box::new(StreamOwned::new(session, tcp))))
    }

    /// A server's end, which agrees on `protocol` alone.
    pub(super) fn accept(&self, tcp: TcpStream, protocol: &[u8]) -> Option<LinkStream> {
        let mut config = self.server.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let session = ServerConnection::new(Arc::new(config)).ok()?;
        Some(LinkStream::TlsServer(Box::new(StreamOwned::new(session, tcp))))
    }
}
