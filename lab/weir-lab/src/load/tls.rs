//! How the clients of a load speak TLS: one suite, one group, one certificate that they trust.
//!
//! One of each, so that every target has the same to do, whatever it would prefer.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::topology::listener::{Suite, Tls};

/// See the module.
#[derive(Debug, Clone)]
pub struct TlsClient {
    /// The offered suites, the trusted certificate, and the sessions that can be resumed.
    pub config: Arc<ClientConfig>,
    /// The server name that the certificate must have.
    pub name: ServerName<'static>,
    /// Sessions are resumed.
    resume: bool,
}

impl TlsClient {
    /// Clients that speak as `tls` says with a server called `name` that shows `certificate`.
    ///
    /// # Errors
    /// The error of the TLS library.
    pub fn new(tls: Tls, certificate: &CertificateDer<'static>, name: &'static str) -> anyhow::Result<Self> {
        let mut provider = default_provider();
        provider.cipher_suites = vec![match tls.suite {
            Suite::Tls12Aes256 => cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            Suite::Tls12Chacha20 => cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
            Suite::Tls13Aes256 => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Suite::Tls13Aes128 => cipher_suite::TLS13_AES_128_GCM_SHA256,
        }];
        provider.kx_groups = vec![kx_group::X25519];
        let version = if tls.suite.is_tls13() { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption =
            if tls.resume { Resumption::in_memory_sessions(1) } else { Resumption::disabled() };
        Ok(Self { config: Arc::new(config), name: ServerName::try_from(name)?, resume: tls.resume })
    }

    /// Clients of a server of others, called `name`: with every suite of the library, a protocol to agree on, and sessions that are
    /// resumed where that is wanted.
    ///
    /// # Errors
    /// The error of the TLS library.
    pub fn of_site(
        trust: ServerTrust,
        name: ServerName<'static>,
        protocol: &[u8],
        resume: bool,
    ) -> anyhow::Result<Self> {
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let mut config = match trust {
            ServerTrust::Roots(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
            ServerTrust::Anyone => {
                let anyone = Arc::new(Unverified { provider });
                builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = if resume { Resumption::in_memory_sessions(1) } else { Resumption::disabled() };
        Ok(Self { config: Arc::new(config), name, resume })
    }

    /// The same for one more client, with sessions of its own: those in a common store are lost when many clients leave one
    /// at once.
    pub(crate) fn for_client(&self) -> Self {
        if !self.resume {
            return self.clone();
        }
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(1);
        Self { config: Arc::new(config), ..self.clone() }
    }
}

/// Whom the clients of a site trust.
#[derive(Debug, Clone)]
pub enum ServerTrust {
    /// Certificates of these authorities.
    Roots(RootCertStore),
    /// No check of the certificate: the user has asked for that.
    Anyone,
}

/// Takes every certificate. Signatures are checked nevertheless, so that the work of the handshake is the usual one.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{TlsClient, default_provider};
    use crate::load::exchange::{RequestShape, prepare};
    use crate::load::{Connections, ExchangeOrder, LoadOutcome, LoadPattern, LoadPlan, LoadProgress, driver};
    use crate::target::certificate::{NAME, TargetCertificate};
    use crate::topology::listener::{CertificateKey, Suite, Tls};
    use crate::wire::{fields, pattern};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::time::Duration;

    const ANSWER_LEN: usize = 40_000;

    /// A server with TLS that answers every request, and goes when the request says so.
    fn serve(certificate: &TargetCertificate) -> SocketAddr {
        let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der.clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                std::thread::spawn(move || answer(StreamOwned::new(session, stream)));
            }
        });
        addr
    }

    fn answer(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) {
        let (mut seen, mut part) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut part) {
                Ok(len) if len > 0 => seen.extend_from_slice(&part[..len]),
                _ => return,
            }
            if fields::head_len(&seen).is_none() {
                continue;
            }
            let closes = memchr::memmem::find(&seen, b"Connection: close").is_some();
            seen.clear();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {ANSWER_LEN}\r\n\r\n");
            let whole = [head.as_bytes(), pattern::run(0, ANSWER_LEN)].concat();
            if stream.write_all(&whole).is_err() || closes {
                stream.conn.send_close_notify();
                let _farewell = stream.flush();
                return;
            }
        }
    }

    fn drive(tls: Tls, close: bool) -> LoadOutcome {
        let dir = tempfile::tempdir().unwrap();
        let certificate = TargetCertificate::make(tls.key, dir.path()).unwrap();
        let target = serve(&certificate);
        let shape = RequestShape {
            host: &target.to_string(),
            path: "/",
            body_len: 0,
            answer_len: ANSWER_LEN as u64,
            close,
            cookie: None,
        };
        let plan = LoadPlan {
            target,
            secure: Some(TlsClient::new(tls, &certificate.der, NAME).unwrap()),
            exchanges: prepare(&shape),
            choice: ExchangeOrder::ByClient,
            clients: 3,
            connections: if close { Connections::PerExchange } else { Connections::Kept },
            arrival: LoadPattern::Closed,
            warm_up: Duration::ZERO,
            window: Duration::from_secs(1),
            timeout: Duration::from_secs(20),
            faults_max: 20,
            trace: false,
            pace: None,
            name: None,
        };
        driver::run(&plan, &LoadProgress::default()).unwrap()
    }

    #[test]
    fn every_suite_carries_many_exchanges_on_one_connection() {
        for (suite, key) in [
            (Suite::Tls12Aes256, CertificateKey::Rsa2048),
            (Suite::Tls12Chacha20, CertificateKey::Rsa2048),
            (Suite::Tls13Aes256, CertificateKey::EcdsaP256),
        ] {
            let outcome = drive(Tls { suite, key, resume: false, handshake_timeout: None }, false);
            assert!(outcome.faults.is_empty(), "{suite:?}: {}", outcome.faults);
            assert!(outcome.exchanges > 3, "{suite:?}: {} exchanges", outcome.exchanges);
            assert_eq!((outcome.opened, outcome.resumed_handshakes), (3, 0));
        }
    }

    #[test]
    fn sessions_are_resumed_if_they_are_to_be() {
        for suite in [Suite::Tls12Aes256, Suite::Tls13Aes256] {
            let full = drive(
                Tls { suite, key: CertificateKey::Rsa2048, resume: false, handshake_timeout: None },
                true,
            );
            assert!(full.faults.is_empty(), "{suite:?}: {}", full.faults);
            assert!(full.full_handshakes > 0 && full.resumed_handshakes == 0, "{suite:?}");
            let resumed = drive(
                Tls { suite, key: CertificateKey::Rsa2048, resume: true, handshake_timeout: None },
                true,
            );
            assert!(resumed.faults.is_empty(), "{suite:?}: {}", resumed.faults);
            // The first of each client has nothing to resume.
            assert!((1..=3).contains(&resumed.full_handshakes), "{suite:?}: {}", resumed.full_handshakes);
            assert!(resumed.resumed_handshakes > 0, "{suite:?}");
        }
    }

    #[test]
    fn another_certificate_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let (shown, other) = (dir.path().join("shown"), dir.path().join("other"));
        std::fs::create_dir(&shown).unwrap();
        std::fs::create_dir(&other).unwrap();
        let target = serve(&TargetCertificate::make(CertificateKey::EcdsaP256, &shown).unwrap());
        let trusted = TargetCertificate::make(CertificateKey::EcdsaP256, &other).unwrap();
        let tls = Tls {
            suite: Suite::Tls13Aes256,
            key: CertificateKey::EcdsaP256,
            resume: false,
            handshake_timeout: None,
        };
        let shape = RequestShape {
            host: &target.to_string(),
            path: "/",
            body_len: 0,
            answer_len: 1,
            close: true,
            cookie: None,
        };
        let secure = TlsClient::new(tls, &trusted.der, NAME).unwrap();
        let seen =
            crate::load::probe::once_secure(target, &secure, &prepare(&shape)[0], Duration::from_secs(20));
        assert!(seen.is_err_and(|fault| fault.to_string().contains("certificate")));
    }
}
