//! `[upstream.NAME.tls]` as it is written.

use std::time::Duration;

use rustls_pki_types::ServerName;

use crate::config::{CipherSuite, KeyExchangeGroup, TlsVersion};
use crate::key::{NonEmpty, Spanned, TextFormat, section, text_values};
use crate::value::ValueError;

section! {
    /// TLS with the servers. Where a public authority has signed their certificates, `{}` is all that it takes.
    #[derive(Debug, Clone)]
    pub(crate) struct UpstreamTlsText at "upstream.NAME.tls" {
        /// Whether the certificate of a server has to be signed by a trusted authority, valid today and for its name. Without that, whoever is on the
        /// way to a server can be that server.
        verify: bool = true, like "nginx `proxy_ssl_verify`, HAProxy `verify`";
        /// A PEM file with the certificates of the authorities that are trusted. Without it, those that the system trusts.
        ca: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_trusted_certificate`, HAProxy `ca-file`";
        /// A PEM file with lists of revoked certificates (CRL), one of each authority in the chain of a server's certificate. Where the list is missing or
        /// outdated, the certificates of that authority are refused.
        crl: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_crl`, HAProxy `crl-file`";
        /// What servers are asked for (SNI) and what their certificates have to be for: a host name or an IP address. Without it, the host in the
        /// address of each.
        server_name: TlsServerName = optional, like "nginx `proxy_ssl_name`, `proxy_ssl_server_name`; HAProxy `sni`, `verifyhost`";
        /// A PEM file with the certificate that Weir shows to servers that ask for one, and behind it those that lead to a root.
        certificate: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_certificate`, HAProxy `crt` (of `server`)";
        /// A PEM file with the private key of `certificate`. It may be the same file.
        key: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_certificate_key`, HAProxy `crt` (of `server`)";
        /// The versions of the protocol. Older ones are not supported (RFC 8996).
        versions: NonEmpty<TlsVersion> = ["1.2", "1.3"], like "nginx `proxy_ssl_protocols`, HAProxy `ssl-min-ver`, `ssl-max-ver`";
        /// The cipher suites that are offered, by their IANA names, best first.
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
        /// The groups of the key exchange that are offered, by their IANA names, best first.
        groups: NonEmpty<KeyExchangeGroup> = ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"], like "HAProxy `curves`";
        /// Whether a new connection goes on with the session of an earlier one to the same server, which spares both sides most of a handshake.
        /// Probes never do, so that they see what a full handshake sees.
        session_reuse: bool = true, like "nginx `proxy_ssl_session_reuse`, HAProxy `no-ssl-reuse`";
        /// A file that gets the secrets of every connection, for Wireshark. Whoever reads it can decrypt all traffic with the servers, so it is for a
        /// search after a fault and never for good. The environment variable `SSLKEYLOGFILE` has no effect.
        key_log: Spanned<Box<str>> = optional, like "nginx `proxy_ssl_key_log`, HAProxy `tune.ssl.keylog`";
        /// How often the files are looked at for changes. New ones are used for the connections that follow; where they cannot be used, the
        /// old ones stay and the log says so.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
    }
}

/// Whom the certificate of a server has to be for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsServerName(pub(crate) ServerName<'static>);

text_values! {
    TlsServerName, parse_server_name, |value: &TlsServerName| value.0.to_str().into_owned(), TextFormat {
        name: "TLS server name",
        article: "the name of a server",
        examples: &["app.internal", "10.0.0.1"],
        pattern: r"^[A-Za-z0-9._:-]+$",
        about: "A host name or an IP address, without a port, as it stands in a certificate.",
    };
}

fn parse_server_name(text: &str) -> Result<TlsServerName, ValueError> {
    match ServerName::try_from(text.to_owned()) {
        Ok(name) => Ok(TlsServerName(name)),
        Err(_) => Err(ValueError::new(format!("`{text}` is neither a host name nor an IP address"))
            .help("write the name alone, such as `app.internal`: no port, no wildcard")),
    }
}
