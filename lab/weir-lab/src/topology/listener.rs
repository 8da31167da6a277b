//! The protocol of a target with its clients, in no product's words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::length;

/// The traffic between client and server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetProtocol {
    /// HTTP/1.1: each request is parsed.
    #[default]
    Http,
    /// Bytes, whatever they are: each client connection gets one to a server.
    Tcp,
}

/// The one suite that clients offer; other suites of the targets do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Suite {
    /// TLS 1.2, for certificates with an RSA key.
    #[serde(rename = "ECDHE-RSA-AES256-GCM-SHA384")]
    Tls12Aes256,
    /// TLS 1.2, for certificates with an RSA key.
    #[serde(rename = "ECDHE-RSA-CHACHA20-POLY1305")]
    Tls12Chacha20,
    /// TLS 1.3.
    #[serde(rename = "TLS_AES_256_GCM_SHA384")]
    Tls13Aes256,
    /// TLS 1.3, and what browsers offer first.
    #[serde(rename = "TLS_AES_128_GCM_SHA256")]
    Tls13Aes128,
}

impl Suite {
    /// Whether it is one of TLS 1.3.
    pub fn is_tls13(self) -> bool {
        matches!(self, Self::Tls13Aes256 | Self::Tls13Aes128)
    }

    /// Its name, as RFC 8446 and OpenSSL say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12Aes256 => "ECDHE-RSA-AES256-GCM-SHA384",
            Self::Tls12Chacha20 => "ECDHE-RSA-CHACHA20-POLY1305",
            Self::Tls13Aes256 => "TLS_AES_256_GCM_SHA384",
            Self::Tls13Aes128 => "TLS_AES_128_GCM_SHA256",
        }
    }
}

/// The key of the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateKey {
    /// ECDSA over P-256.
    EcdsaP256,
    /// RSA of 2048 bits.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
}

/// How the target ends TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    /// The suite that the clients offer.
    pub suite: Suite,
    /// The key of the certificate.
    pub key: CertificateKey,
    /// Clients resume the sessions of earlier connections; otherwise each handshake is a full one.
    #[serde(default)]
    pub resume: bool,
    /// The time limit of a handshake; without it, the target's default.
    #[serde(default, with = "length::optional", skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<Duration>,
}

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListenerSetup {
    /// The traffic.
    #[serde(default)]
    pub protocol: TargetProtocol,
    /// Clients speak TLS with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}
