//! `[listener.NAME.tls]` in the text, and its short form `tls = "internal"`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::certificate::{ListenerCertificate, LoadedCertificate};
use crate::config::{
    CertificateSource, CipherSuite, KeyExchangeGroup, ListenerTls, TlsVersion, UnknownNames,
};
use crate::key::{
    Bounds, ConfigValue, NonEmpty, OneOrMany, Spanned, SpannedTable, TreeReader, ValueKind, choice, section,
};
use crate::source::{Tree, TreeNode};
use crate::text::{AcmeText, ClientCertificatesText, InternalText};

section! {
    /// TLS with the clients of a listener. `certificates`, `acme` or `internal` is sufficient; the other keys restrict TLS or support older clients.
    #[derive(Debug, Clone)]
    pub(crate) struct ListenerTlsText at "listener.NAME.tls" {
        /// The certificates, one for each set of names and kind of key. A client gets the one for its server name (SNI): an exact name
        /// before a wildcard, else the default. Of several for one name, the one whose kind of key the client supports, ECDSA first.
        certificates: NonEmpty<SpannedTable<CertificateText>> = optional, like "nginx `ssl_certificate`, HAProxy `bind crt`";
        /// Certificates that Weir obtains by itself. With `certificates` beside it, those go first for the names that they are for.
        acme: SpannedTable<AcmeText> = optional, like "nginx `acme_certificate`, HAProxy `acme`, Traefik `certResolver`, Caddy automatic HTTPS";
        /// Certificates of an authority of Weir's own, for development. `tls = "internal"` is short for it.
        internal: SpannedTable<InternalText> = optional, like "Caddy `tls internal`, `local_certs`";
        /// The versions of the protocol. Older ones are not supported (RFC 8996).
        versions: NonEmpty<TlsVersion> = ["1.2", "1.3"], like "nginx `ssl_protocols`, HAProxy `ssl-min-ver`, `ssl-max-ver`";
        /// The cipher suites that may be used, by their IANA names, in order of preference. Those of TLS 1.2 need a certificate of the kind
        /// in their name.
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
        /// The groups of the key exchange, by their IANA names, in order of preference.
        groups: NonEmpty<KeyExchangeGroup> = ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"],
            like "nginx `ssl_ecdh_curve`, HAProxy `curves`";
        /// Whether clients may resume sessions by ticket. The keys that encrypt tickets are shared by all workers, kept in memory only and
        /// rotated every 6 hours; a ticket is valid for at most 12 hours.
        session_tickets: bool = true, like "nginx `ssl_session_tickets`, HAProxy `no-tls-tickets`";
        /// Files with keys for tickets, so that nodes with the same files resume each other's sessions: 80 random bytes each (`openssl rand -out
        /// FILE 80`). The first one encrypts, all of them decrypt. To change it, add the new one as the second on all nodes, then make it the
        /// first, and remove the old one after 12 hours. A key decrypts recorded connections of TLS 1.2 that were resumed by it, so keep it secret. Not
        /// with `client_certificates`.
        ticket_keys: OneOrMany<Spanned<Box<str>>> = optional, like "nginx `ssl_session_ticket_key`, HAProxy `tls-ticket-keys`";
        /// The number of cached sessions, for clients without tickets, or for all without `session_tickets`. The oldest are evicted.
        session_cache: Option<u32> = 10_000, in 1..=10_000_000, like "nginx `ssl_session_cache`, HAProxy `tune.ssl.cachesize`";
        /// The maximum number of handshakes per second on this listener. Further ones wait, within `timeouts.tls`.
        handshake_rate: Option<u32> = "off", in 1..=1_000_000, like "HAProxy `maxsslrate`";
        /// What a client gets that names no server (SNI), or one that no certificate is for.
        unknown_names: UnknownNames = "default", like "nginx `ssl_reject_handshake`, HAProxy `strict-sni`, Traefik `sniStrict`";
        /// Certificates of clients. Without it, clients are not asked for one.
        client_certificates: SpannedTable<ClientCertificatesText> = optional, like "nginx `ssl_verify_client`, HAProxy `verify`";
        /// A file for the secrets of every connection, to decrypt captured traffic with Wireshark (`SSLKEYLOGFILE` in other programs; Weir
        /// ignores that variable). A new file is readable for its owner only; an existing one is appended to.
        key_log: Spanned<Box<str>> = optional, like "nginx `ssl_key_log`, HAProxy `tune.ssl.keylog`";
        /// How often these files, except `key_log`, are checked for changes. New ones are used for the handshakes that follow; if they
        /// cannot be used, the old ones stay in use and the log reports it.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
    }
}

impl ListenerTls {
    /// TLS with the defaults of the product and without files, the default certificate first.
    pub fn with_certificates(certificates: Vec<Arc<LoadedCertificate>>) -> Self {
        let text = ListenerTlsText::default();
        let source = |certificate| CertificateSource::Files(ListenerCertificate { certificate, ocsp: None });
        Self {
            sources: certificates.into_iter().map(source).collect(),
            acme: None,
            versions: text.versions.0,
            cipher_suites: text.cipher_suites.0,
            groups: text.groups.0,
            session_tickets: text.session_tickets,
            ticket_keys: Vec::new(),
            session_cache: text.session_cache,
            handshake_rate: text.handshake_rate,
            unknown_names: text.unknown_names,
            client_certificates: None,
            key_log: None,
            reload: None,
        }
    }
}

section! {
    /// A certificate and its key, or a folder of such. Paths are relative to the file that names them.
    #[derive(Debug, Clone)]
    pub(crate) struct CertificateText at "listener.NAME.tls.certificates" {
        /// A PEM file with the certificate, followed by its intermediates; the root is not needed.
        certificate: Spanned<Box<str>> = optional, like "nginx `ssl_certificate`, HAProxy `crt`";
        /// A PEM file with the private key: RSA, ECDSA or Ed25519, in PKCS#8, PKCS#1 or SEC1. It may be the same file.
        key: Spanned<Box<str>> = optional, like "nginx `ssl_certificate_key`, HAProxy `key`";
        /// A file with the authority's OCSP response for the certificate, in DER, which clients receive in the handshake (stapling). It is
        /// read again when it changes; an outdated response, or one for another certificate, is not sent.
        ocsp: Spanned<Box<str>> = optional, like "nginx `ssl_stapling_file`, HAProxy `crt` with `.ocsp`";
        /// A folder of certificates, in place of `certificate` and `key`; each is for the names in it. A file `NAME.pem`, `NAME.crt` or `NAME.cer` has
        /// its key in `NAME.key`, `NAME-key.pem` or in itself, and its OCSP response in `NAME.ocsp`; a folder `NAME` below it has `fullchain.pem`
        /// and `privkey.pem`, as in `/etc/letsencrypt/live`. Files that come, change and go count without a reload; one that cannot be used is
        /// left out with a warning, or the old one stays in use.
        directory: Spanned<Box<str>> = optional, like "HAProxy `crt DIRECTORY`";
        /// Whether this is the certificate for clients without a server name, or with one that no certificate matches. Without it, the
        /// first certificate. Of a folder, the one whose file comes first in the order of names.
        default: bool = false, like "nginx `listen default_server`";
    }
}

choice! {
    /// The word in place of a table.
    pub(crate) enum TlsWord {
        /// as `{ internal = {} }`: certificates of an authority of Weir's own, for development
        #[default]
        Internal = "internal",
    }
}

/// TLS of a listener: a table, or a word.
#[derive(Debug, Clone)]
pub(crate) struct TlsChoice(pub(crate) SpannedTable<ListenerTlsText>);

impl Deref for TlsChoice {
    type Target = SpannedTable<ListenerTlsText>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl ConfigValue for TlsChoice {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![TlsWord::kind(bounds), ListenerTlsText::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Table(_) => SpannedTable::read(node, bounds, reader).map(Self),
            Tree::Text(_) => {
                let TlsWord::Internal = TlsWord::read(node, bounds, reader)?;
                let internal = SpannedTable::unwritten(InternalText::default(), node.span);
                let text = ListenerTlsText { internal: Some(internal), ..ListenerTlsText::default() };
                Some(Self(SpannedTable::unwritten(text, node.span)))
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        self.0.write()
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.0.lines(path, lines);
    }
}
