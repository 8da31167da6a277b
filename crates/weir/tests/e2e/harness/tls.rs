//! TLS for tests: an authority that issues certificates, and clients that trust it.
//!
//! Keys are made anew for every test and are in its own folder only.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SignatureAlgorithm,
};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use tempfile::TempDir;

use super::client::Client;
use super::program::temporary_folder;
use super::stream::{Address, Stream};

pub(crate) const ECDSA: &SignatureAlgorithm = &rcgen::PKCS_ECDSA_P256_SHA256;
pub(crate) const RSA: &SignatureAlgorithm = &rcgen::PKCS_RSA_SHA256;
pub(crate) const ED25519: &SignatureAlgorithm = &rcgen::PKCS_ED25519;

/// Gives the listener `web` the certificate of [`CertificateAuthority::folder_for_web`].
pub(crate) const WEB_TLS: &str =
    "listener.web.tls.certificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n";

/// Issues certificates.
pub(crate) struct CertificateAuthority {
    pub(super) issuer: CertifiedIssuer<'static, KeyPair>,
}

impl CertificateAuthority {
    /// A new one that is not trusted yet.
    pub(crate) fn new() -> CertificateAuthority {
        CertificateAuthority::named(&[])
    }

    /// One whose own certificate is for these names, so that it can be a server as well.
    pub(crate) fn named(names: &[&str]) -> CertificateAuthority {
        CertificateAuthority::named_with(names, |_| {})
    }

    /// One whose own certificate is not valid any more.
    pub(crate) fn expired() -> CertificateAuthority {
        CertificateAuthority::named_with(&[], |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
    }

    /// A folder with a certificate for `a.test`, as [`WEB_TLS`] names it.
    pub(crate) fn folder_for_web(&self) -> TempDir {
        let folder = temporary_folder();
        self.issue(folder.path(), "a", &["a.test"], ECDSA);
        folder
    }

    /// A client that trusts this authority and asks for `a.test`.
    pub(crate) fn connect(&self, to: SocketAddr) -> Client {
        connect(to, self.client(), "a.test")
    }

    fn named_with(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateAuthority {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the test gives host names");
        params.distinguished_name.push(DnType::CommonName, "CertificateAuthority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate_for(ECDSA).expect("a key can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("the parameters are sound");
        CertificateAuthority { issuer }
    }

    /// Writes `STEM.pem` and `STEM.key` for these names into `folder`.
    pub(crate) fn issue(&self, folder: &Path, stem: &str, names: &[&str], kind: &'static SignatureAlgorithm) {
        self.issue_with(folder, stem, names, kind, |_| {});
    }

    fn issue_with(
        &self,
        folder: &Path,
        stem: &str,
        names: &[&str],
        kind: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate_for(kind).expect("a key can be made");
        let mut params = CertificateParams::new(names).expect("the test gives host names");
        params.distinguished_name.push(DnType::CommonName, stem);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("the parameters are sound");
        write(folder, stem, &certificate.pem(), &key.serialize_pem());
    }

    /// Writes its own certificate and key as `STEM.pem` and `STEM.key` into `folder`.
    pub(crate) fn write(&self, folder: &Path, stem: &str) {
        write(folder, stem, &self.issuer.pem(), &self.issuer.key().serialize_pem());
    }

    /// What signs its certificates.
    pub(crate) fn issuer(&self) -> &CertifiedIssuer<'static, KeyPair> {
        &self.issuer
    }

    /// The certificate of the authority itself.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// An origin whose certificate, for these names, is from this authority.
    pub(crate) fn server(&self, names: &[&str]) -> ServerConfig {
        self.server_with(names, rustls::ALL_VERSIONS, None)
    }

    /// The same with a certificate that is not valid any more.
    pub(crate) fn server_expired(&self, names: &[&str]) -> ServerConfig {
        let folder = tempfile::TempDir::new().expect("the system has a folder for temporary files");
        self.issue_with(folder.path(), "origin", names, ECDSA, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        });
        server_of(folder.path(), "origin", rustls::ALL_VERSIONS, None)
    }

    /// The same with a certificate that has a URI as well.
    pub(crate) fn server_with_uri(&self, names: &[&str], uri: &str) -> ServerConfig {
        let folder = tempfile::TempDir::new().expect("the system has a folder for temporary files");
        self.issue_with(folder.path(), "origin", names, ECDSA, |params| {
            params.subject_alt_names.push(rcgen::SanType::URI(uri.try_into().expect("it is ASCII")));
        });
        server_of(folder.path(), "origin", rustls::ALL_VERSIONS, None)
    }

    /// The same with these versions, for clients with a certificate from `clients` if there is one.
    pub(crate) fn server_with(
        &self,
        names: &[&str],
        versions: &[&'static SupportedProtocolVersion],
        clients: Option<&CertificateAuthority>,
    ) -> ServerConfig {
        let folder = tempfile::TempDir::new().expect("the system has a folder for temporary files");
        self.issue(folder.path(), "origin", names, ECDSA);
        server_of(folder.path(), "origin", versions, clients)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("the authority is sound");
        Arc::new(roots)
    }

    /// What verifies certificates of this authority.
    pub(crate) fn verifier(&self) -> Arc<WebPkiServerVerifier> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(self.roots(), provider);
        builder.build().expect("there is an authority")
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
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("the provider has suites of these versions")
            .with_root_certificates(self.roots())
            .with_no_client_auth()
    }
}

fn write(folder: &Path, stem: &str, certificate: &str, key: &str) {
    for (extension, text) in [("pem", certificate), ("key", key)] {
        std::fs::write(folder.join(format!("{stem}.{extension}")), text)
            .expect("the test's own folder takes a file");
    }
}

/// An origin that shows `STEM.pem` of `folder`, to clients with a certificate from `clients` if there is one.
pub(crate) fn server_of(
    folder: &Path,
    stem: &str,
    versions: &[&'static SupportedProtocolVersion],
    clients: Option<&CertificateAuthority>,
) -> ServerConfig {
    let file = |extension: &str| folder.join(format!("{stem}.{extension}"));
    let chain = CertificateDer::pem_file_iter(file("pem")).and_then(Iterator::collect);
    let key = PrivateKeyDer::from_pem_file(file("key")).expect("the key is PEM");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("the provider has suites of these versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(clients.roots(), provider)
                .build()
                .expect("the authority is sound"),
        ),
    };
    let chain = chain.expect("the certificate is PEM");
    builder.with_single_cert(chain, key).expect("certificate and key fit")
}

/// A connection with TLS, of a client or of an origin.
#[derive(Debug)]
pub(crate) struct TlsStream {
    session: RefCell<Connection>,
    pub(crate) tcp: TcpStream,
}

impl TlsStream {
    /// The origin's side of a connection that has just been accepted; it shakes hands with the first read or write.
    pub(crate) fn accepted(config: &Arc<ServerConfig>, tcp: TcpStream) -> TlsStream {
        let session = ServerConnection::new(Arc::clone(config)).expect("the settings are sound");
        TlsStream { session: RefCell::new(session.into()), tcp }
    }

    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let session = self.session.get_mut();
        while session.wants_read() {
            let (received, _) = session.complete_io(&mut self.tcp)?;
            if received == 0 {
                break;
            }
        }
        session.reader().read(buf)
    }

    pub(crate) fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let session = self.session.get_mut();
        if session.is_handshaking() {
            session.complete_io(&mut self.tcp)?;
        }
        let len = session.writer().write(buf)?;
        self.flush()?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        let session = self.session.get_mut();
        while session.wants_write() {
            session.write_tls(&mut self.tcp)?;
        }
        Ok(())
    }

    /// Sends with new keys from now on, which the peer has to take in although nothing comes with it.
    pub(crate) fn change_keys(&mut self) {
        self.session.get_mut().refresh_traffic_keys().expect("the version is TLS 1.3");
        self.flush().expect("the peer is there");
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
    pub(crate) fn session(&mut self) -> &Connection {
        self.session.get_mut()
    }
}

/// Connects to `to` and shakes hands, asking for `name`.
///
/// # Errors
/// What rustls says of a handshake that does not succeed.
pub(crate) fn try_connect(to: SocketAddr, config: ClientConfig, name: &str) -> io::Result<Client> {
    let tls = try_connect_stream(to, config, name)?;
    Ok(Client::on(Stream::Tls(Box::new(tls))))
}

/// The same, for clients that do not speak HTTP/1.
///
/// # Errors
/// What rustls says of a handshake that does not succeed.
pub(crate) fn try_connect_stream(to: SocketAddr, config: ClientConfig, name: &str) -> io::Result<TlsStream> {
    shake(Stream::connect(&Address::Tcp(to))?, config, name)
}

/// Shakes hands on a connected stream, asking for `name`.
fn shake(stream: Stream, config: ClientConfig, name: &str) -> io::Result<TlsStream> {
    let Stream::Tcp(mut tcp) = stream else { unreachable!("the address is TCP") };
    let name = ServerName::try_from(name.to_owned()).expect("the test gives a host name");
    let mut session = ClientConnection::new(Arc::new(config), name).expect("the settings are sound");
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    Ok(TlsStream { session: RefCell::new(session.into()), tcp })
}

/// Connects to `to` from the local address `from`, asking for `name`.
pub(crate) fn connect_from(from: IpAddr, to: SocketAddr, config: ClientConfig, name: &str) -> Client {
    let stream = Stream::connect_from(from, to, 0).expect("the listener accepts connections");
    let tls = shake(stream, config, name).unwrap_or_else(|error| panic!("no TLS with {name}: {error}"));
    Client::on(Stream::Tls(Box::new(tls)))
}

/// Connects to `to`, asking for `name`.
pub(crate) fn connect(to: SocketAddr, config: ClientConfig, name: &str) -> Client {
    try_connect(to, config, name).unwrap_or_else(|error| panic!("no TLS with {name}: {error}"))
}
