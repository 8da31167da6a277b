//! Responses of the authority that clients get with the certificate.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::harness::ocsp::outdated_from;
use crate::harness::tls::{ECDSA, connect};
use crate::harness::{CertificateAuthority, Origin, Weir, eventually};

/// A Weir with a certificate for `a.test` and the response `a.ocsp`, as `change` makes it.
struct Site {
    authority: CertificateAuthority,
    weir: Weir,
    _origin: Origin,
}

impl Site {
    fn start(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Site {
        let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
        let folder = authority.folder_for_web();
        let response = change(authority.vouch(folder.path(), "a"));
        std::fs::write(folder.path().join("a.ocsp"), response).expect("the folder takes a file");
        let text = format!(
            "listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\", tls = {{ reload = \"100ms\", \
             certificates = [{{ certificate = \"a.pem\", key = \"a.key\", ocsp = \"a.ocsp\" }}] }} }}\n\
             admin.address = \"127.0.0.1:0\"\nupstream.app.servers = [\"{}\"]\n",
            origin.address()
        );
        Site { authority, weir: Weir::start_in(folder, &text), _origin: origin }
    }

    fn file(&self) -> Vec<u8> {
        std::fs::read(self.weir.folder().join("a.ocsp")).expect("it is there")
    }

    fn write(&self, response: &[u8]) {
        std::fs::write(self.weir.folder().join("a.ocsp"), response).expect("the folder takes a file");
    }

    /// The response that a client gets; empty when there is none.
    fn stapled(&self) -> Vec<u8> {
        let seen = Arc::new(Mutex::new(None));
        let mut config = self.authority.client();
        let inner = self.authority.verifier();
        config.dangerous().set_certificate_verifier(Arc::new(Watching { inner, seen: Arc::clone(&seen) }));
        connect(self.weir.web(), config, "a.test").assert_alive();
        let stapled = seen.lock().expect("no thread panics while it holds it").take();
        stapled.expect("a full handshake shows a certificate")
    }
}

/// Verifies as always, and remembers what came with the certificate.
#[derive(Debug)]
struct Watching {
    inner: Arc<WebPkiServerVerifier>,
    seen: Arc<Mutex<Option<Vec<u8>>>>,
}

impl ServerCertVerifier for Watching {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.seen.lock().expect("no thread panics while it holds it") = Some(ocsp_response.to_vec());
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[test]
fn clients_that_ask_get_the_response() {
    let site = Site::start(|response| response);
    assert_eq!(site.stapled(), site.file());
    std::fs::write(site.weir.folder().join("ca.pem"), site.authority.pem()).expect("the folder takes a file");
    for version in ["-tls1_2", "-tls1_3"] {
        let out = Command::new("openssl")
            .current_dir(site.weir.folder())
            .args(["s_client", "-connect", &site.weir.web().to_string(), "-servername", "a.test"])
            .args(["-status", "-CAfile", "ca.pem", version])
            .stdin(Stdio::null())
            .output()
            .expect("openssl is installed");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("OCSP Response Status: successful (0x0)"), "{text}");
        assert!(text.contains("Cert Status: good"), "{text}");
    }
    // It is a valid one: its verification succeeds.
    let out = Command::new("openssl")
        .current_dir(site.weir.folder())
        .args(["ocsp", "-respin", "a.ocsp", "-issuer", "ca.pem", "-cert", "a.pem", "-CAfile", "ca.pem"])
        .output()
        .expect("openssl is installed");
    assert!(String::from_utf8_lossy(&out.stdout).contains("a.pem: good"), "{out:?}");
}

#[test]
fn an_outdated_response_is_not_shown_until_there_is_a_new_one() {
    let site = Site::start(|response| outdated_from(response, "yesterday"));
    assert_eq!(site.stapled(), b"");
    site.weir.line(&["a.ocsp", "outdated", "an OCSP response is not shown to clients"]);
    let fresh = site.authority.vouch(site.weir.folder(), "a");
    site.write(&fresh);
    eventually("the new one is shown", || site.stapled() == fresh);
    // What cannot be used changes nothing.
    site.write(b"no response");
    site.weir.line(&["a.ocsp", "is not an OCSP response", "the old one stays in use"]);
    assert_eq!(site.stapled(), fresh);
}

#[test]
fn a_response_is_shown_as_long_as_it_holds() {
    let site = Site::start(|response| outdated_from(response, "5 seconds"));
    if !site.stapled().is_empty() {
        eventually("it is outdated", || site.stapled().is_empty());
    }
    site.weir.line(&["a.ocsp", "outdated", "an OCSP response is not shown to clients"]);
}

#[test]
fn a_response_about_another_certificate_is_not_shown() {
    let site = Site::start(|response| response);
    let before = site.file();
    site.authority.issue(site.weir.folder(), "a", &["a.test"], ECDSA);
    // The certificate was renewed, and is served; the response will come later.
    site.weir.line(&["a.ocsp", "for another certificate"]);
    assert_eq!(site.stapled(), b"");
    let after = site.authority.vouch(site.weir.folder(), "a");
    assert_ne!(before, after);
    site.write(&after);
    eventually("the new one is shown", || site.stapled() == after);
}
