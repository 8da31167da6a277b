//! What is known about the TLS of a client connection, for the log and for servers.

use weir_observe::access_log::TlsRecord;

use super::client_certificates::ClientCertificate;

/// What the handshake agreed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TlsFacts<'a> {
    /// How long it took, in microseconds.
    pub(crate) handshake_micros: u32,
    /// TLS 1.3, else 1.2.
    pub(crate) is_version_13: bool,
    /// Whether an earlier session went on.
    pub(crate) is_resumed: bool,
    /// Whether the request came before the handshake was over.
    pub(crate) is_early: bool,
    /// How long a packet takes to the client and back, where that is known.
    pub(crate) round_trip_micros: Option<u32>,
    /// The name of the cipher suite in the IANA registry.
    pub(crate) cipher_suite: &'static str,
    /// The SNI; empty without one.
    pub(crate) server_name: &'a str,
    /// The certificate that the client has shown.
    pub(crate) client_certificate: Option<&'a ClientCertificate>,
}

impl<'a> TlsFacts<'a> {
    /// The same for the access log.
    pub(crate) fn record(&self) -> TlsRecord<'a> {
        let identity = self.client_certificate.and_then(|certificate| certificate.identity.as_ref());
        TlsRecord {
            version: if self.is_version_13 { "1.3" } else { "1.2" },
            cipher_suite: self.cipher_suite,
            server_name: self.server_name,
            resumed: self.is_resumed,
            early: self.is_early,
            round_trip_micros: self.round_trip_micros,
            client_subject: identity.map_or("", |identity| &identity.subject),
            client_fingerprint: identity.map_or("", |identity| &identity.fingerprint),
        }
    }
}

/// The same, owned: for streams that do not hold their connection.
#[derive(Debug)]
pub(crate) struct OwnedTlsFacts {
    facts: TlsFacts<'static>,
    server_name: Box<str>,
    client_certificate: Option<Box<ClientCertificate>>,
}

impl OwnedTlsFacts {
    /// Those of `facts`, with the certificate that belongs to them.
    pub(crate) fn new(facts: &TlsFacts<'_>, client_certificate: Option<Box<ClientCertificate>>) -> Self {
        let server_name = facts.server_name.into();
        let facts = TlsFacts { server_name: "", client_certificate: None, ..*facts };
        Self { facts, server_name, client_certificate }
    }

    pub(crate) fn get(&self) -> TlsFacts<'_> {
        TlsFacts {
            server_name: &self.server_name,
            client_certificate: self.client_certificate.as_deref(),
            ..self.facts
        }
    }
}
