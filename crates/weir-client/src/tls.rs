//! TLS with peers: whom to trust, and what Weir presents.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use weir_config::{Authorities, LoadedCertificate};

/// TLS that is ready for connections, or why there can be none.
pub type TlsSetup = Result<TlsConnector, String>;

/// Makes TLS ready for peers whose certificates these authorities have issued; `certificate` is presented to those that request one, `protocols` are offered
/// by ALPN.
pub fn tls_setup(
    authorities: &Authorities,
    certificate: Option<&LoadedCertificate>,
    protocols: &[&[u8]],
) -> TlsSetup {
    let config = tls_config(authorities, certificate, protocols);
    let config = config.map_err(|error| format!("TLS cannot be made ready: {error}"))?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The settings of [`tls_setup`].
///
/// # Errors
/// When the certificate cannot be used.
pub fn tls_config(
    authorities: &Authorities,
    certificate: Option<&LoadedCertificate>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.certificates.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let builder = builder.with_root_certificates(roots);
    let mut config = match certificate {
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
