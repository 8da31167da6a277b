//! TLS for tests: an authority that issues certificates, and clients that trust it.
//!
//! Keys are made anew for every test and stand in its own folder only.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SignatureAlgorithm,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::client::Client;
use super::stream::{Address, Stream};

pub(crate) const ECDSA: &SignatureAlgorithm = &rcgen::PKCS_ECDSA_P256_SHA256;
pub(crate) const RSA: &SignatureAlgorithm = &rcgen::PKCS_RSA_SHA256;
pub(crate) const ED25519: &SignatureAlgorithm = &rcgen::PKCS_ED25519;

/// Issues certificates.
pub(crate) struct Authority {
    pub(super) issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one that nobody trusts yet.
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(ECDSA).expect("a key can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("the parameters are sound");
        Authority { issuer }
    }

    /// Writes `STEM.pem` and `STEM.key` for these names into `folder`.
    pub(crate) fn issue(&self, folder: &Path, stem: &str, names: &[&str], kind: &'static SignatureAlgorithm) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate_for(kind).expect("a key can be made");
        let mut params = CertificateParams::new(names).expect("the test gives host names");
        params.distinguished_name.push(DnType::CommonName, stem);
        let certificate = params.signed_by(&key, &self.issuer).expect("the parameters are sound");
        let write = |extension: &str, text: String| {
            std::fs::write(folder.join(format!("{stem}.{extension}")), text)
                .expect("the test's own folder takes a file");
        };
        write("pem", certificate.pem());
        write("key", key.serialize_pem());
    }

    /// The certificate of the authority itself.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A client that trusts this authority and offers everything.
    pub(crate) fn client(&self) -> ClientConfig {
        self.client_with(aws_lc_rs::default_provider(), rustls::ALL_VERSIONS)
    }

    /// A client that trusts this authority and offers what `provider` has in these versions.
    pub(crate) fn client_with(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("the authority is sound");
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("the provider has suites of these versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

/// A connection with TLS.
#[derive(Debug)]
pub(crate) struct TlsStream {
    session: RefCell<ClientConnection>,
    pub(crate) tcp: TcpStream,
}

impl TlsStream {
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(self.session.get_mut(), &mut self.tcp).read(buf)
    }

    pub(crate) fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut stream = rustls::Stream::new(self.session.get_mut(), &mut self.tcp);
        let len = stream.write(buf)?;
        stream.flush()?;
        Ok(len)
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn notify(&self) {
        let mut session = self.session.borrow_mut();
        session.send_close_notify();
        while session.wants_write() {
            if session.write_tls(&mut &self.tcp).is_err() {
                return;
            }
        }
    }

    /// What the handshake agreed on.
    pub(crate) fn session(&mut self) -> &ClientConnection {
        self.session.get_mut()
    }
}

/// Connects to `to` and shakes hands, asking for `name`.
///
/// # Errors
/// What rustls says of a handshake that does not succeed.
pub(crate) fn try_connect(to: SocketAddr, config: ClientConfig, name: &str) -> io::Result<Client> {
    let Stream::Tcp(mut tcp) = Stream::connect(&Address::Tcp(to))? else {
        unreachable!("the address is TCP")
    };
    let name = ServerName::try_from(name.to_owned()).expect("the test gives a host name");
    let mut session = ClientConnection::new(Arc::new(config), name).expect("the settings are sound");
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    Ok(Client::on(Stream::Tls(Box::new(TlsStream { session: RefCell::new(session), tcp }))))
}

/// Connects to `to`, asking for `name`.
pub(crate) fn connect(to: SocketAddr, config: ClientConfig, name: &str) -> Client {
    try_connect(to, config, name).unwrap_or_else(|error| panic!("no TLS with {name}: {error}"))
}
