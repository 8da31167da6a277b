//! TLS with Consul and with the real etcd: an own authority, a certificate of Weir, and what goes wrong without them.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use weir_config::{Authorities, CertificateFiles, ServerSource, SourceTls, SourceUrl};

use super::FollowedSource;
use super::consul::{Asked, next, serve, service};
use super::etcd::Etcd;

/// An authority in `ca.pem`; certificates of the server and of Weir in `server.pem` and `client.pem`, their keys beside them.
fn write_certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Authority of a test");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    for stem in ["server", "client"] {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "consul.test".to_owned()]).unwrap();
        // The JSON gateway of etcd is a client of etcd, with the certificate of the server.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, stem);
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &ca).unwrap();
        std::fs::write(folder.join(format!("{stem}.pem")), made.pem()).unwrap();
        std::fs::write(folder.join(format!("{stem}.key")), key.serialize_pem()).unwrap();
    }
}

/// TLS as the config reads it from these files.
fn tls(folder: &Path, presents: bool) -> SourceTls {
    let files = CertificateFiles::new(folder.join("client.pem"), folder.join("client.key"));
    let authorities = Authorities::load(&folder.join("ca.pem")).unwrap();
    SourceTls::new(authorities, presents.then(|| files.load().unwrap()))
}

fn url(host: &str, port: u16) -> SourceUrl {
    SourceUrl::new(true, format!("{host}:{port}"))
}

/// A Consul whose API wants a certificate of its clients.
async fn agent(folder: &Path) -> (u16, UnboundedReceiver<Asked>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("ca.pem")).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_file(folder.join("server.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap(),
        )
        .unwrap();
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let port = listener.local_addr().unwrap().port();
    let (asked, requests) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, asked) = (acceptor.clone(), asked.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, asked).await;
                }
            });
        }
    });
    (port, requests)
}

#[tokio::test]
async fn consul_is_asked_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let (port, mut requests) = agent(folder.path()).await;
    let mut followed = FollowedSource::start(ServerSource::Consul(service()), |config| {
        config.settings.consul.url = url("127.0.0.1", port);
        config.settings.consul.tls = Some(tls(folder.path(), true));
    });
    next(&mut requests).await.answer(1, &[7]);
    followed.until_servers(&["127.0.0.1:7"]).await;

    // The certificate is for 127.0.0.1, not for this name of it.
    followed.config.settings.consul.url = url("localhost", port);
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    let set = followed.until_problem("not valid for name \"localhost\"").await;
    assert!(set.origin.is_stale && set.servers.len() == 1, "the servers of before stay");

    // Without a certificate of its own, Weir is not let in.
    followed.config.settings.consul.url = url("127.0.0.1", port);
    followed.config.settings.consul.tls = Some(tls(folder.path(), false));
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    followed.until_problem("CertificateRequired").await;

    // Another authority has not signed the certificate of the agent.
    let other = tempfile::tempdir().unwrap();
    write_certificates(other.path());
    followed.config.settings.consul.tls = Some(tls(other.path(), true));
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    followed.until_problem("invalid peer certificate").await;
    followed.stop().await;
}

#[tokio::test]
async fn the_real_etcd_is_watched_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let etcd = Etcd::start_tls(folder.path()).await;
    etcd.put("/services/app/a", r#"{"Addr":"10.0.0.1:80"}"#, None).await;
    let source = ServerSource::Etcd("/services/app/".into());
    let mut followed = FollowedSource::start(source, |config| {
        config.settings.etcd.urls = vec![url("127.0.0.1", etcd.tls_port)];
        config.settings.etcd.tls = Some(tls(folder.path(), false));
    });
    followed.until_problem("https://127.0.0.1:").await;
    followed.config.settings.etcd.tls = Some(tls(folder.path(), true));
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    followed.until_servers(&["10.0.0.1:80"]).await;
    etcd.put("/services/app/b", r#"{"Addr":"10.0.0.2:80"}"#, None).await;
    followed.until_servers(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    followed.stop().await;
}
