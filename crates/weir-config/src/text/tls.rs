//! `[listener.NAME.tls]` as it is written.

use std::time::Duration;

use super::ClientCertificatesText;
use crate::config::{CipherSuite, KeyExchangeGroup, TlsVersion};
use crate::key::{NonEmpty, Spanned, SpannedTable, section};

section! {
    /// TLS with the clients of a listener. `certificates` is all that it takes; the rest is for those who must allow less, or older things.
    #[derive(Debug, Clone)]
    pub(crate) struct ListenerTlsText at "listener.NAME.tls" {
        /// The certificates, one for each set of names and kind of key. A client gets the one for the name that it asks for (SNI): the
        /// exact name before a wildcard, else the default. Of several for one name, the one whose kind of key the client knows, ECDSA first.
        certificates: NonEmpty<SpannedTable<CertificateText>> = required, like "nginx `ssl_certificate`, HAProxy `bind crt`";
        /// The versions of the protocol. Older ones are not supported (RFC 8996).
        versions: NonEmpty<TlsVersion> = ["1.2", "1.3"], like "nginx `ssl_protocols`, HAProxy `ssl-min-ver`, `ssl-max-ver`";
        /// The cipher suites that may be used, by their IANA names. Those of TLS 1.2 need a certificate of the kind in their name. Which of them
        /// is used is up to the order of this list.
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
        ], like "nginx `ssl_ciphers`, HAProxy `ciphers`, `ciphersuites`";
        /// The groups of the key exchange, by their IANA names. Which of them is used is up to the order of this list.
        groups: NonEmpty<KeyExchangeGroup> = ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"],
            like "nginx `ssl_ecdh_curve`, HAProxy `curves`";
        /// Whether a client may come back without a full handshake by a ticket that it keeps. The keys that tickets are sealed with are shared by
        /// all workers, live in memory only and are replaced every 6 hours; a ticket is good for 12 hours at most.
        session_tickets: bool = true, like "nginx `ssl_session_tickets`, HAProxy `no-tls-tickets`";
        /// Sessions that are kept for clients that bring no ticket, or for all without `session_tickets`. The oldest make room.
        session_cache: Option<u32> = 10_000, in 1..=10_000_000, like "nginx `ssl_session_cache`, HAProxy `tune.ssl.cachesize`";
        /// Handshakes that may begin per second on this listener. More wait for their turn, within `timeouts.tls`.
        handshake_rate: Option<u32> = "off", in 1..=1_000_000, like "HAProxy `maxsslrate`";
        /// Certificates of clients. Without it, none are asked for.
        client_certificates: SpannedTable<ClientCertificatesText> = optional, like "nginx `ssl_verify_client`, HAProxy `verify`";
        /// A file that gets the secrets of every connection, to decrypt captured traffic with Wireshark (`SSLKEYLOGFILE` elsewhere, which means nothing
        /// to Weir). Made for its owner alone when it is not there, else appended to.
        key_log: Spanned<Box<str>> = optional, like "nginx `ssl_key_log`, HAProxy `tune.ssl.keylog`";
        /// How often all these files but `key_log` are looked at for changes. New ones are used for the handshakes that follow; where they cannot be
        /// used, the old ones stay and the log says so.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
    }
}

section! {
    /// A certificate and its key. Paths are relative to the file that names them.
    #[derive(Debug, Clone)]
    pub(crate) struct CertificateText at "listener.NAME.tls.certificates" {
        /// A PEM file with the certificate, and behind it those that lead to a root, which is not needed itself.
        certificate: Spanned<Box<str>> = required, like "nginx `ssl_certificate`, HAProxy `crt`";
        /// A PEM file with the private key: RSA, ECDSA or Ed25519, in PKCS#8, PKCS#1 or SEC1. It may be the same file.
        key: Spanned<Box<str>> = required, like "nginx `ssl_certificate_key`, HAProxy `key`";
        /// A file with the response of the authority that says that the certificate has not been revoked (OCSP, in DER): clients get it with
        /// the certificate (stapling). It is read again when it changes; an outdated one, and one about another certificate, is not shown.
        ocsp: Spanned<Box<str>> = optional, like "nginx `ssl_stapling_file`, HAProxy `crt` with `.ocsp`";
        /// Whether clients get this one that ask for no name, or for one that no certificate is for. Without it, the first certificate.
        default: bool = false, like "nginx `listen default_server`";
    }
}
