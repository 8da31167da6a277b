//! `[upstream.NAME.tls]` in the text.

use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;

use crate::certificate::Authorities;
use crate::config::{CipherSuite, KeyExchangeGroup, TlsVersion, UpstreamTls};
use crate::key::{NonEmpty, OneOrMany, Spanned, TextFormat, section, text_values};
use crate::value::{CertificateName, ValueError};

section! {
    /// TLS with the servers. For certificates of public authorities, `{}` is sufficient.
    #[derive(Debug, Clone)]
    pub(crate) struct UpstreamTlsText at "upstream.NAME.tls" {
        /// Whether the certificate of a server has to be valid, signed by a trusted authority and issued for its name. Without
        /// verification, an attacker on the network path can impersonate the server.
        verify: bool = true, like "nginx `proxy_ssl_verify`, HAProxy `verify`";
        /// A PEM file with the certificates of the trusted authorities. Without it, the system's authorities.
        ca: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_trusted_certificate`, HAProxy `ca-file`";
        /// A PEM file with certificate revocation lists (CRL), one of each authority in the chain of a server's certificate. Without a
        /// current list, all certificates of that authority are rejected.
        crl: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_crl`, HAProxy `crl-file`";
        /// The name sent in the handshake (SNI), which certificates have to match: a host name or an IP address. Without it, the host of
        /// each server's address.
        server_name: TlsServerName = optional, like "nginx `proxy_ssl_name`, `proxy_ssl_server_name`; HAProxy `sni`, `verifyhost`";
        /// The names of which a certificate has to have one among its subject alternative names: host names, IP addresses, and URIs such as
        /// SPIFFE IDs. Without it, the name of `server_name`, which is then only sent in the handshake.
        subject_alt_names: OneOrMany<CertificateName> = optional, like "HAProxy `verifyhost`, Envoy `match_typed_subject_alt_names`";
        /// A PEM file with the certificate that Weir presents to servers that request one, followed by its intermediates.
        certificate: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_certificate`, HAProxy `crt` (of `server`)";
        /// A PEM file with the private key of `certificate`. It may be the same file.
        key: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_certificate_key`, HAProxy `crt` (of `server`)";
        /// The versions of the protocol. Older ones are not supported (RFC 8996).
        versions: NonEmpty<TlsVersion> = ["1.2", "1.3"], like "nginx `proxy_ssl_protocols`, HAProxy `ssl-min-ver`, `ssl-max-ver`";
        /// The cipher suites that are offered, by their IANA names, in order of preference.
        cipher_suites: NonEmpty<CipherSuite> = [
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
        ], like "nginx `proxy_ssl_ciphers`, HAProxy `ciphers`, `ciphersuites`";
        /// The groups of the key exchange that are offered, by their IANA names, in order of preference.
        groups: NonEmpty<KeyExchangeGroup> = ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"], like "HAProxy `curves`";
        /// Whether new connections resume a session with the same server, which saves most of the cost of a handshake on both sides. Probes
        /// always do full handshakes.
        session_reuse: bool = true, like "nginx `proxy_ssl_session_reuse`, HAProxy `no-ssl-reuse`";
        /// A file for the secrets of every connection, for Wireshark. It allows decryption of all traffic with the servers, so use it for
        /// debugging only, and temporarily. The environment variable `SSLKEYLOGFILE` has no effect.
        key_log: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_key_log`, HAProxy `tune.ssl.keylog`";
        /// How often the files are checked for changes. New ones are used for the connections that follow, and those that are open end with
        /// the requests that they carry; if they cannot be used, the old ones stay in use and the log reports it.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
    }
}

impl UpstreamTls {
    /// TLS with the defaults of the product and without files: servers prove that they are `server_name` by certificates of `authorities`.
    pub fn verifying(authorities: Arc<Authorities>, server_name: ServerName<'static>) -> Self {
        let text = UpstreamTlsText::default();
        Self {
            authorities: Some(authorities),
            revocations: None,
            certificate: None,
            names: Vec::new(),
            server_name: Some(server_name),
            subject_alt_names: Vec::new(),
            versions: text.versions.0,
            cipher_suites: text.cipher_suites.0,
            groups: text.groups.0,
            session_reuse: text.session_reuse,
            key_log: None,
            reload: None,
        }
    }
}

/// The name that the certificate of a server has to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsServerName(pub(crate) ServerName<'static>);

text_values! {
    TlsServerName, parse_server_name, |value: &TlsServerName| value.0.to_str().into_owned(), TextFormat {
        name: "TLS server name",
        article: "the name of a server",
        examples: &["app.internal", "10.0.0.1"],
        pattern: r"^[A-Za-z0-9._:-]+$",
        about: "A host name or an IP address, without a port, as in a certificate.",
    };
    CertificateName, str::parse, |value: &CertificateName| value.to_string(), TextFormat {
        name: "certificate name",
        article: "a name in a certificate",
        examples: &["app.internal", "10.0.0.1", "spiffe://example.test/app"],
        pattern: r"^[^ ]+$",
        about: "A host name, an IP address, or a URI, which has `://` in it, as in the subject alternative names of a certificate. A URI is \
                compared as it is written.",
    };
}

fn parse_server_name(text: &str) -> Result<TlsServerName, ValueError> {
    match ServerName::try_from(text.to_owned()) {
        Ok(name) => Ok(TlsServerName(name)),
        Err(_) => Err(ValueError::new(format!("`{text}` is neither a host name nor an IP address"))
            .help("write the name alone, such as `app.internal`: no port, no wildcard")),
    }
}
