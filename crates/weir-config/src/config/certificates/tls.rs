//! `[listener.NAME.tls]`: certificates and parameters of TLS handshakes with clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::certificate::{CertificateDirectory, ListenerCertificate, TicketKey};
use crate::config::faults::ListenerFault;
use crate::config::{Acme, ClientCertificates, InternalAuthority};
use crate::key::choice;

/// Where certificates for clients are.
#[derive(Debug, Clone, PartialEq)]
pub enum CertificateSource {
    /// One whose files the config names.
    Files(ListenerCertificate),
    /// Those of a folder.
    Directory(CertificateDirectory),
    /// One of an authority of Weir's own.
    Internal(InternalSource),
}

/// A certificate of an authority of Weir's own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InternalSource {
    /// What it is for, and where the authority is.
    pub authority: InternalAuthority,
    /// The certificate, once it was made; its file is that of the root.
    pub certificate: Option<ListenerCertificate>,
    /// Why it could not be renewed, if the last attempt has failed.
    pub last_error: Option<Box<str>>,
}

impl CertificateSource {
    /// The certificates that are there now.
    pub fn certificates(&self) -> &[ListenerCertificate] {
        match self {
            Self::Files(certificate) => std::slice::from_ref(certificate),
            Self::Directory(directory) => &directory.certificates,
            Self::Internal(internal) => internal.certificate.as_slice(),
        }
    }
}

/// TLS with the clients of a listener.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ListenerTls {
    /// Where the certificates are, with the default first.
    pub sources: Vec<CertificateSource>,
    /// Certificates that Weir obtains by itself.
    pub acme: Option<Acme>,
    /// The versions, each once, at least one.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites in the order of preference; every version has one.
    pub cipher_suites: Vec<CipherSuite>,
    /// The groups in the order of preference.
    pub groups: Vec<KeyExchangeGroup>,
    /// Whether clients may resume a session by a ticket.
    pub session_tickets: bool,
    /// The keys of tickets that nodes share, the one that encrypts first; empty: keys in memory.
    pub ticket_keys: Vec<Arc<TicketKey>>,
    /// Sessions that are kept for clients without tickets.
    pub session_cache: Option<u32>,
    /// Handshakes that may begin per second.
    pub handshake_rate: Option<u32>,
    /// What clients get whose server name no certificate is for.
    pub unknown_names: UnknownNames,
    /// Certificates of clients; `None`: clients are not asked for one.
    pub client_certificates: Option<ClientCertificates>,
    /// The file for the secrets of every connection.
    pub key_log: Option<PathBuf>,
    /// How often the files of the certificates are checked for changes.
    pub reload: Option<Duration>,
}

impl ListenerTls {
    /// What may not hold of it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = ListenerFault> {
        let none = self.versions.is_empty().then_some(ListenerFault::NoTlsVersion);
        let tickets = !self.ticket_keys.is_empty() && self.client_certificates.is_some();
        let tickets = tickets.then_some(ListenerFault::TicketsAndClientCertificates);
        let suites = versions_without_suite(&self.versions, &self.cipher_suites);
        none.into_iter().chain(tickets).chain(suites.map(|version| ListenerFault::NoSuite(version.name())))
    }

    /// The certificates of the config, the default first. Without `acme`, empty only when the config was read without its files.
    pub fn certificates(&self) -> impl Iterator<Item = &ListenerCertificate> {
        self.sources.iter().flat_map(CertificateSource::certificates)
    }
}

/// The versions that have no suite.
pub(crate) fn versions_without_suite(
    versions: &[TlsVersion],
    suites: &[CipherSuite],
) -> impl Iterator<Item = TlsVersion> {
    let has_none = |version: &TlsVersion| !suites.iter().any(|suite| suite.version() == *version);
    versions.iter().copied().filter(has_none)
}

choice! {
    /// What a client gets that names no server, or one that no certificate is for.
    pub enum UnknownNames {
        /// the default certificate
        #[default]
        Default = "default",
        /// none: the handshake ends with an alert
        Refused = "refused",
    }
}

choice! {
    /// A version of TLS.
    pub enum TlsVersion {
        /// RFC 5246
        Tls12 = "1.2",
        /// RFC 8446
        #[default]
        Tls13 = "1.3",
    }
}

choice! {
    /// A cipher suite, by its name in the IANA registry.
    pub enum CipherSuite {
        /// TLS 1.3
        #[default]
        Aes128Gcm = "TLS_AES_128_GCM_SHA256",
        /// TLS 1.3
        Aes256Gcm = "TLS_AES_256_GCM_SHA384",
        /// TLS 1.3
        Chacha20 = "TLS_CHACHA20_POLY1305_SHA256",
        /// TLS 1.2, in OpenSSL `ECDHE-ECDSA-AES128-GCM-SHA256`
        EcdsaAes128Gcm = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        /// TLS 1.2, in OpenSSL `ECDHE-ECDSA-AES256-GCM-SHA384`
        EcdsaAes256Gcm = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        /// TLS 1.2, in OpenSSL `ECDHE-ECDSA-CHACHA20-POLY1305`
        EcdsaChacha20 = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        /// TLS 1.2, in OpenSSL `ECDHE-RSA-AES128-GCM-SHA256`
        RsaAes128Gcm = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        /// TLS 1.2, in OpenSSL `ECDHE-RSA-AES256-GCM-SHA384`
        RsaAes256Gcm = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        /// TLS 1.2, in OpenSSL `ECDHE-RSA-CHACHA20-POLY1305`
        RsaChacha20 = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    }
}

impl CipherSuite {
    /// The version of TLS that the suite is for.
    pub const fn version(self) -> TlsVersion {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm | Self::Chacha20 => TlsVersion::Tls13,
            Self::EcdsaAes128Gcm
            | Self::EcdsaAes256Gcm
            | Self::EcdsaChacha20
            | Self::RsaAes128Gcm
            | Self::RsaAes256Gcm
            | Self::RsaChacha20 => TlsVersion::Tls12,
        }
    }

    /// Whether a server whose key is for RSA, or else for ECDSA or Ed25519, can use the suite.
    pub(crate) const fn fits(self, has_rsa_key: bool) -> bool {
        match self {
            Self::RsaAes128Gcm | Self::RsaAes256Gcm | Self::RsaChacha20 => has_rsa_key,
            Self::EcdsaAes128Gcm | Self::EcdsaAes256Gcm | Self::EcdsaChacha20 => !has_rsa_key,
            Self::Aes128Gcm | Self::Aes256Gcm | Self::Chacha20 => true,
        }
    }
}

choice! {
    /// A group of the key exchange, by its name in the IANA registry.
    pub enum KeyExchangeGroup {
        /// hybrid with ML-KEM-768, safe from decryption of recorded traffic by a future quantum computer
        #[default]
        X25519Mlkem768 = "X25519MLKEM768",
        /// hybrid with ML-KEM-768 on P-256
        Secp256r1Mlkem768 = "SecP256r1MLKEM768",
        /// RFC 7748
        X25519 = "x25519",
        /// P-256
        Secp256r1 = "secp256r1",
        /// P-384
        Secp384r1 = "secp384r1",
    }
}

impl KeyExchangeGroup {
    /// Whether the group is for TLS 1.3 alone (draft-ietf-tls-ecdhe-mlkem).
    pub(crate) const fn is_hybrid(self) -> bool {
        matches!(self, Self::X25519Mlkem768 | Self::Secp256r1Mlkem768)
    }
}
