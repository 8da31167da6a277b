//! The TLS of QUIC connections (RFC 9001), with the config of a listener.
//!
//! A session of its own in place of `quinn-proto`'s, which does not tell the cipher suite, nor whether an earlier session goes on.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use rustls::quic::{Connection, KeyChange, Secrets, ServerConnection, Version};
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::{ServerConfig, crypto::aws_lc_rs};

use super::held_hello::{GatheredHello, HeldHello};
use crate::net::tls::certificates::Certificates;

/// The name of HTTP/3 in handshakes (RFC 9114 section 3.1).
const PROTOCOL: &[u8] = b"h3";

/// The config for handshakes of QUIC.
pub(crate) struct QuicTls {
    config: Arc<ServerConfig>,
    /// The keys of the first packets, which any observer has.
    first: Arc<QuicServerConfig>,
    /// Those for which handshakes may wait.
    certificates: Arc<Certificates>,
}

/// What is known of a handshake.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandshakeFacts {
    pub(crate) server_name: Box<str>,
    pub(crate) cipher_suite: Option<rustls::CipherSuite>,
    pub(crate) is_resumed: bool,
    /// Why it has failed.
    pub(crate) error: Option<rustls::Error>,
    /// The first message, if it waits for a certificate.
    pub(crate) held: Option<Arc<HeldHello>>,
}

impl QuicTls {
    /// From the config of a listener for TCP. With `early_sessions`, clients may send requests before the handshake is over: tickets would let them do
    /// that as often as they like, so they get none.
    ///
    /// # Errors
    /// When it has no cipher suite for the first packets.
    pub(crate) fn new(
        config: &ServerConfig,
        certificates: &Arc<Certificates>,
        early_sessions: Option<Arc<dyn StoresServerSessions>>,
    ) -> Result<Self, rustls::Error> {
        let mut config = config.clone();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.max_early_data_size = 0;
        if let Some(sessions) = early_sessions {
            config.ticketer = Arc::new(NoTickets);
            config.session_storage = sessions;
            // There is no other limit in QUIC (RFC 9001 section 4.6.1): flow control bounds what comes.
            config.max_early_data_size = u32::MAX;
        }
        let suite = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let suite = suite.tls13().and_then(rustls::Tls13CipherSuite::quic_suite);
        let config = Arc::new(config);
        let unfit = || rustls::Error::General("no cipher suite for first packets".to_owned());
        let first = suite.and_then(|suite| QuicServerConfig::with_initial(Arc::clone(&config), suite).ok());
        let first = Arc::new(first.ok_or_else(unfit)?);
        Ok(Self { config, first, certificates: Arc::clone(certificates) })
    }
}

/// Sessions are kept here.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl crypto::ServerConfig for QuicTls {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.first.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, original: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.first.retry_tag(version, original, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let begun = ServerConnection::new(Arc::clone(&self.config), Version::V1, encoded);
        let handshake = match begun {
            Ok(tls) => Handshake::Going(Box::new(Connection::Server(tls))),
            Err(error) => Handshake::Failed(error),
        };
        let hello = GatheredHello::new(&self.certificates).map(Box::new);
        Box::new(QuicSession { tls: self, version, handshake, hello, next: None, told: false, error: None })
    }
}

/// One handshake, and the keys that come of it.
struct QuicSession {
    tls: Arc<QuicTls>,
    version: u32,
    handshake: Handshake,
    /// The first message, as long as TLS has not got it.
    hello: Option<Box<GatheredHello>>,
    next: Option<Secrets>,
    /// Whether it was told that the name of the server is known.
    told: bool,
    error: Option<rustls::Error>,
}

/// How far it has come.
enum Handshake {
    Going(Box<Connection>),
    Failed(rustls::Error),
    /// Behind its last message, only what is known of it is kept: an idle connection has some kilobytes less.
    Over(Box<KnownPeer>),
}

/// What stays of a handshake.
struct KnownPeer {
    facts: HandshakeFacts,
    chain: Option<Vec<CertificateDer<'static>>>,
}

impl Handshake {
    fn going(&self) -> Option<&Connection> {
        match self {
            Self::Going(tls) => Some(tls),
            Self::Failed(_) | Self::Over(_) => None,
        }
    }

    fn going_mut(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Going(tls) => Some(tls),
            Self::Failed(_) | Self::Over(_) => None,
        }
    }

    fn facts(&self) -> HandshakeFacts {
        match self {
            Self::Going(tls) => facts(tls),
            Self::Failed(error) => HandshakeFacts { error: Some(error.clone()), ..HandshakeFacts::default() },
            Self::Over(known) => known.facts.clone(),
        }
    }

    fn chain(&self) -> Option<Vec<CertificateDer<'static>>> {
        match self {
            Self::Going(tls) => chain(tls),
            Self::Failed(_) => None,
            Self::Over(known) => known.chain.clone(),
        }
    }
}

fn facts(tls: &Connection) -> HandshakeFacts {
    HandshakeFacts {
        server_name: server_name(tls).unwrap_or_default().into(),
        cipher_suite: tls.negotiated_cipher_suite().map(|suite| suite.suite()),
        is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
        error: None,
        held: None,
    }
}

/// The certificates that the client has shown.
fn chain(tls: &Connection) -> Option<Vec<CertificateDer<'static>>> {
    let owned = |certificate: &CertificateDer<'_>| certificate.clone().into_owned();
    tls.peer_certificates().map(|chain| chain.iter().map(owned).collect())
}

/// The name of the server that a client asks for, once it is known.
fn server_name(connection: &Connection) -> Option<&str> {
    match connection {
        Connection::Server(server) => server.server_name(),
        Connection::Client(_) => None,
    }
}

impl crypto::Session for QuicSession {
    fn initial_keys(&self, id: &ConnectionId, _side: Side) -> Keys {
        let keys = crypto::ServerConfig::initial_keys(&*self.tls, self.version, id);
        keys.unwrap_or_else(|_| unreachable!("a session begins with a version that has keys"))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let mut facts = self.handshake.facts();
        facts.error = self.error.clone().or(facts.error);
        facts.held = self.hello.as_ref().and_then(|hello| hello.held.clone());
        Some(Box::new(facts))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.handshake.chain()?))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.handshake.going()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        match &self.handshake {
            Handshake::Going(tls) => tls.is_handshaking(),
            Handshake::Failed(_) => true,
            Handshake::Over(_) => false,
        }
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        if self.hello.as_mut().is_some_and(|hello| !hello.take(bytes)) {
            return Ok(false);
        }
        let hello = self.hello.take().map(|hello| hello.into_bytes());
        let bytes = hello.as_deref().unwrap_or(bytes);
        let tls = match &mut self.handshake {
            Handshake::Going(tls) => tls,
            Handshake::Failed(_) => return Err(TransportErrorCode::INTERNAL_ERROR.into()),
            // A client has nothing to say behind a handshake (RFC 9001 section 4.4, section 6).
            Handshake::Over(_) => {
                let unexpected = rustls::AlertDescription::UnexpectedMessage;
                return Err(TransportErrorCode::crypto(unexpected.into()).into());
            }
        };
        if let Err(error) = tls.read_hs(bytes) {
            self.error = Some(error);
            let alert = tls.alert().map(|alert| TransportErrorCode::crypto(alert.into()));
            return Err(alert.unwrap_or(TransportErrorCode::PROTOCOL_VIOLATION).into());
        }
        let is_known = server_name(tls).is_some() || !tls.is_handshaking();
        Ok(is_known && !std::mem::replace(&mut self.told, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(encoded) = self.handshake.going().and_then(|tls| tls.quic_transport_parameters()) else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(encoded))?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let released = match &mut self.hello {
            None => None,
            Some(hello) => Some(hello.released()?),
        };
        let tls = self.handshake.going_mut()?;
        if let Some(hello) = released {
            self.hello = None;
            // Nothing is written then; who has released it looks at the error.
            self.error = tls.read_hs(&hello).err();
        }
        let before = out.len();
        let Some(change) = tls.write_hs(out) else {
            if out.len() == before && !tls.is_handshaking() {
                let known = KnownPeer { facts: facts(tls), chain: chain(tls) };
                self.handshake = Handshake::Over(Box::new(known));
            }
            return None;
        };
        let keys = match change {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _original: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        // Only servers send them.
        false
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let tls = self.handshake.going().ok_or(ExportKeyingMaterialError)?;
        let exported = tls.export_keying_material(out, label, Some(context));
        exported.map(|_| ()).map_err(|_| ExportKeyingMaterialError)
    }
}
