//! From the TLS config of an upstream to the `ClientConfig`s of rustls: how its servers are verified.
//!
//! Each server has its own sessions to go on with: a ticket of one is of no use to another. Must not open connections.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, KeyLog, RootCertStore, SignatureScheme,
};
use weir_config::{Authorities, CertificateName, LoadedCertificate, RevocationLists, UpstreamTls};

use super::server_config::{TlsConfigError, provider, versions};
use super::{key_log, self_signed};

/// Sessions of one server that are kept. Each is good for one connection, and each connection brings one or two new ones.
const SESSIONS_MAX: usize = 8;

/// The name of HTTP/1.1 over TLS (RFC 7301 section 6).
const HTTP1: &[u8] = b"http/1.1";

/// The TLS of the connections to the servers of an upstream.
#[derive(Debug)]
pub struct TlsClientConfig {
    now: ArcSwap<ClientConfigs>,
    /// Held by who replaces them: files and servers change on different threads.
    replacing: Mutex<()>,
    /// Whether a connection goes on with a session of an earlier one.
    session_reuse: bool,
    /// What servers are offered (ALPN), best first.
    protocols: &'static [&'static [u8]],
    key_log: Arc<dyn KeyLog>,
}

/// The files that handshakes use.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTlsFiles {
    /// The authorities that servers are verified by; none: those of the system.
    pub authorities: Option<Arc<Authorities>>,
    /// The revoked certificates of servers.
    pub revocations: Option<Arc<RevocationLists>>,
    /// The certificate that Weir presents to servers.
    pub certificate: Option<Arc<LoadedCertificate>>,
}

/// The configs that handshakes use.
#[derive(Debug)]
struct ClientConfigs {
    /// The name that the certificate of each server has to be valid for.
    names: Box<[ServerName<'static>]>,
    /// For the traffic of each server.
    traffic: Box<[Arc<ClientConfig>]>,
    /// The same for HTTP/1.1, where servers are offered more than one protocol otherwise.
    http1_traffic: Option<Box<[Arc<ClientConfig>]>>,
    /// For the probes of all: these never go on with a session.
    probes: Arc<ClientConfig>,
    files: UpstreamTlsFiles,
}

/// The config of one handshake with a server.
#[derive(Debug, Clone)]
pub struct HandshakeConfig {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl TlsClientConfig {
    /// # Errors
    /// When rustls does not take a key or a combination that the config check let pass, or the key log cannot be opened.
    pub(crate) fn new(
        tls: &UpstreamTls,
        protocols: &'static [&'static [u8]],
    ) -> Result<Self, TlsConfigError> {
        let key_log = key_log::open(tls.key_log.as_deref()).map_err(TlsConfigError::KeyLog)?;
        let files = UpstreamTlsFiles {
            authorities: tls.authorities.clone(),
            revocations: tls.revocations.clone(),
            certificate: tls.certificate.clone(),
        };
        let clients = ClientConfigs::new(tls, &tls.names, files, protocols, &key_log)?;
        Ok(Self {
            now: ArcSwap::from_pointee(clients),
            replacing: Mutex::default(),
            session_reuse: tls.session_reuse,
            protocols,
            key_log,
        })
    }

    /// For a connection that carries traffic to a server.
    pub(crate) fn for_traffic(&self, server: usize) -> HandshakeConfig {
        let now = self.now.load();
        HandshakeConfig { config: Arc::clone(&now.traffic[server]), name: now.names[server].clone() }
    }

    /// For a connection that carries traffic to a server over HTTP/1.1 only: it is offered no other protocol.
    pub(crate) fn for_http1_traffic(&self, server: usize) -> HandshakeConfig {
        let now = self.now.load();
        let config = Arc::clone(&now.http1_traffic.as_ref().unwrap_or(&now.traffic)[server]);
        HandshakeConfig { config, name: now.names[server].clone() }
    }

    /// For a probe of a server.
    pub fn for_probe(&self, server: usize) -> HandshakeConfig {
        let now = self.now.load();
        HandshakeConfig { config: Arc::clone(&now.probes), name: now.names[server].clone() }
    }

    /// For a probe of a server over HTTP/1.1 only.
    pub fn for_http1_probe(&self, server: usize) -> HandshakeConfig {
        let mut handshake = self.for_probe(server);
        let mut config = (*handshake.config).clone();
        config.alpn_protocols = vec![HTTP1.to_vec()];
        handshake.config = Arc::new(config);
        handshake
    }

    /// The files in use.
    pub fn files(&self) -> UpstreamTlsFiles {
        self.now.load().files.clone()
    }

    /// Uses other files from now on; sessions end with those that they began with.
    ///
    /// # Errors
    /// When rustls does not take one of them; then nothing changes.
    pub fn replace(&self, tls: &UpstreamTls, files: UpstreamTlsFiles) -> Result<(), Error> {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let names = &self.now.load().names;
        self.now.store(Arc::new(ClientConfigs::new(tls, names, files, self.protocols, &self.key_log)?));
        Ok(())
    }

    /// Takes over the names of other servers, each in its place; a place whose name stays keeps its sessions. A place is given to another
    /// server only when nothing runs on it any more, so that requests of before find what they began with.
    pub(crate) fn follow_names(&self, names: &[ServerName<'static>]) {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now.load();
        if *now.names == *names {
            return;
        }
        let follow = |known: &[Arc<ClientConfig>], protocols: &[&[u8]]| -> Box<[Arc<ClientConfig>]> {
            let of_place = |(place, name): (usize, &ServerName<'static>)| {
                let stays = now.names.get(place) == Some(name);
                let known = known.get(place).filter(|_| stays).cloned();
                known.unwrap_or_else(|| for_server(&now.probes, protocols, self.session_reuse))
            };
            names.iter().enumerate().map(of_place).collect()
        };
        self.now.store(Arc::new(ClientConfigs {
            names: names.into(),
            traffic: follow(&now.traffic, self.protocols),
            http1_traffic: now.http1_traffic.as_deref().map(|known| follow(known, &[HTTP1])),
            probes: Arc::clone(&now.probes),
            files: now.files.clone(),
        }));
    }
}

impl HandshakeConfig {
    /// For a probe where the traffic passes through encrypted: any certificate is accepted for `name`.
    ///
    /// # Errors
    /// None that a config can cause.
    pub fn blind(name: ServerName<'static>) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Arc::new(AnyCertificate { provider: Arc::clone(&provider) });
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }
}

/// The config of connections of Weir's own, in any protocol: the certificate of the server has to be issued by one of `authorities`, and Weir presents `certificate`
/// to a server that requests one.
///
/// # Errors
/// When none of the authorities can be used, or the certificate.
pub fn verifying(
    authorities: &Arc<Authorities>,
    certificate: Option<&LoadedCertificate>,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(ServerVerifier::new(authorities, None, Vec::new(), &provider)?);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match certificate {
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

impl ClientConfigs {
    fn new(
        tls: &UpstreamTls,
        names: &[ServerName<'static>],
        files: UpstreamTlsFiles,
        protocols: &[&[u8]],
        key_log: &Arc<dyn KeyLog>,
    ) -> Result<Self, Error> {
        let provider = Arc::new(provider(&tls.cipher_suites, &tls.groups));
        let verifier: Arc<dyn ServerCertVerifier> = match &files.authorities {
            Some(authorities) => {
                let names = tls.subject_alt_names.clone();
                Arc::new(ServerVerifier::new(authorities, files.revocations.as_deref(), names, &provider)?)
            }
            None => Arc::new(AnyCertificate { provider: Arc::clone(&provider) }),
        };
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions(&tls.versions))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut probes = match &files.certificate {
            Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
            None => builder.with_no_client_auth(),
        };
        probes.key_log = Arc::clone(key_log);
        probes.resumption = Resumption::disabled();
        probes.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let for_servers = |protocols: &[&[u8]]| -> Box<[Arc<ClientConfig>]> {
            names.iter().map(|_| for_server(&probes, protocols, tls.session_reuse)).collect()
        };
        let traffic = for_servers(protocols);
        let http1_traffic = (protocols.len() > 1).then(|| for_servers(&[HTTP1]));
        Ok(Self { names: names.into(), traffic, http1_traffic, probes: Arc::new(probes), files })
    }
}

/// The config of traffic with one server, made from that of probes: with sessions of its own.
fn for_server(probes: &ClientConfig, protocols: &[&[u8]], session_reuse: bool) -> Arc<ClientConfig> {
    let mut config = probes.clone();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    if session_reuse {
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    }
    Arc::new(config)
}

/// Trusts what an authority has signed, and those certificates that are among the authorities themselves.
#[derive(Debug)]
struct ServerVerifier {
    by_authority: Arc<WebPkiServerVerifier>,
    authorities: Arc<Authorities>,
    /// The names of which a certificate has to have one; empty: that of the connection.
    subject_alt_names: Vec<CertificateName>,
}

impl ServerVerifier {
    fn new(
        authorities: &Arc<Authorities>,
        revocations: Option<&RevocationLists>,
        subject_alt_names: Vec<CertificateName>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        // One that cannot be a root may still be a server's own.
        roots.add_parsable_certificates(authorities.certificates.iter().cloned());
        let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        if let Some(revocations) = revocations {
            // An outdated list says nothing about what was revoked since.
            builder = builder.with_crls(revocations.lists.iter().cloned()).enforce_revocation_expiration();
        }
        let by_authority = builder.build().map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { by_authority, authorities: Arc::clone(authorities), subject_alt_names })
    }

    /// Whether a certificate that is trusted is for one of the names.
    fn verify_names(
        &self,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        if self.subject_alt_names.is_empty() {
            return verify_server_name(&parsed, server_name);
        }
        let is_for = |name: &CertificateName| match name {
            CertificateName::Host(name) => verify_server_name(&parsed, name).is_ok(),
            CertificateName::Uri(uri) => weir_config::has_uri(end_entity, uri),
        };
        match self.subject_alt_names.iter().any(is_for) {
            true => Ok(()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_authority = &self.by_authority;
        match by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Ok(verified) if self.subject_alt_names.is_empty() => return Ok(verified),
            Ok(_) => {}
            // The name is what is verified last.
            Err(error) if !self.subject_alt_names.is_empty() && is_of_name(&error) => {}
            Err(error) => self_signed::verify(&self.authorities, end_entity, now, error)?,
        }
        self.verify_names(end_entity, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Whether a certificate is trusted, but not for the name of the connection.
fn is_of_name(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    )
}

/// Takes any certificate, but of its holder only: the signature still has to be by its key.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_stays_keeps_its_sessions_when_others_come_and_go() {
        let text = "listener.web = { address = \":0\", upstream = \"app\" }
            upstream.app = { servers = [\"a.test:1\", \"b.test:1\"], tls = { verify = false } }";
        let config = weir_config::Config::parse(text, "weir.toml").expect("a good config");
        let tls = config.upstreams[0].tls.as_ref().expect("it has TLS");
        let client_config = TlsClientConfig::new(tls, &[b"h2", HTTP1]).expect("it can be used");
        let of = |server| {
            (client_config.for_traffic(server).config, client_config.for_http1_traffic(server).config)
        };
        let before = [of(0), of(1)];
        let name = |name: &'static str| ServerName::try_from(name).expect("a name");
        client_config.follow_names(&[name("a.test"), name("c.test"), name("d.test")]);
        let is_same = |server: usize| {
            let (one, two) = (&before[server], of(server));
            (Arc::ptr_eq(&one.0, &two.0), Arc::ptr_eq(&one.1, &two.1))
        };
        assert_eq!((is_same(0), is_same(1)), ((true, true), (false, false)));
        let third = client_config.for_traffic(2);
        assert_eq!(third.name, name("d.test"));
        assert_eq!(third.config.alpn_protocols, [&b"h2"[..], HTTP1]);
        // Other files are used with the names of now, not with those of the config.
        client_config.replace(tls, client_config.files()).expect("they are the same");
        assert_eq!(client_config.for_probe(2).name, name("d.test"));
    }
}
