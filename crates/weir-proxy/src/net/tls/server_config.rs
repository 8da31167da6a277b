//! From the config of a listener to the `ServerConfig` of rustls, made once for all workers.

use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::server::{
    NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use weir_config::{CipherSuite, KeyExchangeGroup, ListenerTls, TlsVersion};
use weir_traffic::limit::TurnRate;

use super::certificates::{Certificates, keep_old};
use super::client_certificates::{ClientAuthorities, ClientVerifier};
use super::early_data;
use super::issued::{CHALLENGE_PROTOCOL, Issuers, ListenerIssued};
use super::key_log;
use super::tickets::TicketKeys;

/// Sessions of clients that may send early data which a listener keeps, unless `session_cache` says how many.
const EARLY_SESSIONS_MAX: usize = 10_000;

/// Why a TLS config cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsConfigError {
    #[error("{0}")]
    Rustls(#[from] rustls::Error),
    #[error("the key log cannot be opened: {0}")]
    KeyLog(io::Error),
}

/// What the TLS of a listener offers its clients.
#[derive(Debug)]
pub struct TlsServerConfig {
    config: ArcSwap<ServerConfig>,
    /// The current authorities for client certificates.
    authorities: ArcSwapOption<ClientAuthorities>,
    /// What verifies them.
    verifier: ArcSwapOption<ClientVerifier>,
    /// The certificates that clients are shown.
    pub certificates: Arc<Certificates>,
    /// The limit on handshakes per second, if there is one.
    pub(crate) handshake_rate: Option<TurnRate>,
    /// The keys of session tickets, where another process or node may go on with them: not where clients have certificates, of which that
    /// may trust others.
    pub tickets: Option<Arc<TicketKeys>>,
    /// Sessions in which clients may send early data, where there are any: kept here and used once, so that no packet of them counts twice.
    early_sessions: Mutex<Option<EarlySessions>>,
    early_sessions_max: usize,
}

/// What clients remember with a session of what they may do, and rely on with their early data (RFC 9000 section 7.4.1, RFC 9114 section 7.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlyAllowance {
    /// Streams that may be open at once.
    pub(crate) streams: u32,
    pub(crate) head_bytes: usize,
}

impl EarlyAllowance {
    fn is_no_less_than(self, before: Self) -> bool {
        self.streams >= before.streams && self.head_bytes >= before.head_bytes
    }
}

/// Sessions, and what their clients were allowed at most.
#[derive(Debug, Clone)]
struct EarlySessions {
    store: Arc<dyn StoresServerSessions>,
    allowed: EarlyAllowance,
}

impl TlsServerConfig {
    /// `protocols` are the names that clients may agree on (ALPN), the preferred one first; none when what the bytes mean is between the
    /// client and the server. `before` is what the listener has offered so far.
    ///
    /// # Errors
    /// When rustls does not take a key or a combination that the config check let pass, there are no random numbers, or the key log
    /// cannot be opened.
    pub(crate) fn new(
        tls: &ListenerTls,
        protocols: &[&[u8]],
        issuers: &Issuers,
        before: Option<&Self>,
    ) -> Result<Self, TlsConfigError> {
        let provider = Arc::new(provider(&tls.cipher_suites, &tls.groups));
        let issued = tls.acme.as_ref().map(|acme| ListenerIssued::new(acme, issuers));
        let has_issued = issued.is_some();
        let mut sources = tls.sources.clone();
        if let Some(before) = before {
            keep_old(&mut sources, &before.certificates.sources());
        }
        let certificates = Certificates::new(sources, issued, tls.unknown_names, Arc::clone(&provider))?;
        let certificates = Arc::new(certificates);
        let authorities = tls.client_certificates.as_ref().map(ClientAuthorities::new).transpose()?;
        let key_log = key_log::open(tls.key_log.as_deref()).map_err(TlsConfigError::KeyLog)?;
        let tickets = ticket_keys(tls)?;
        let verifier = client_verifier(tls, authorities.as_ref(), &provider)?;
        let mut config = server_config(tls, &certificates, verifier.as_ref(), provider, tickets.clone())?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        if has_issued {
            // The last: a client that offers another one as well gets that.
            config.alpn_protocols.push(CHALLENGE_PROTOCOL.to_vec());
        }
        config.key_log = key_log;
        let handshake_rate = tls.handshake_rate.and_then(NonZeroU32::new).map(TurnRate::new);
        let tickets = tickets.filter(|_| authorities.is_none());
        let authorities = ArcSwapOption::from_pointee(authorities);
        let early_sessions = before.and_then(|before| before.lock_early_sessions().clone());
        Ok(Self {
            config: ArcSwap::from_pointee(config),
            authorities,
            verifier: ArcSwapOption::new(verifier),
            certificates,
            handshake_rate,
            tickets,
            early_sessions: Mutex::new(early_sessions),
            early_sessions_max: tls.session_cache.map_or(EARLY_SESSIONS_MAX, |sessions| sessions as usize),
        })
    }

    /// The config for the next handshake.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Sessions in which clients may send early data. Those of before, if their clients were allowed no more than they are from now on.
    #[cfg_attr(not(feature = "http3"), expect(dead_code, reason = "only QUIC takes early data"))]
    pub(crate) fn early_sessions(&self, allowed: EarlyAllowance) -> Arc<dyn StoresServerSessions> {
        let mut sessions = self.lock_early_sessions();
        let kept = sessions.take().filter(|sessions| allowed.is_no_less_than(sessions.allowed));
        let store: Arc<dyn StoresServerSessions> = match kept {
            Some(kept) => kept.store,
            None => ServerSessionMemoryCache::new(self.early_sessions_max),
        };
        *sessions = Some(EarlySessions { store: Arc::clone(&store), allowed });
        store
    }

    fn lock_early_sessions(&self) -> MutexGuard<'_, Option<EarlySessions>> {
        self.early_sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The authorities for client certificates, where they are requested.
    pub fn client_authorities(&self) -> Option<Arc<ClientAuthorities>> {
        self.authorities.load_full()
    }

    /// What verifies certificates of clients, where they are requested.
    pub(crate) fn client_verifier(&self) -> Option<Arc<ClientVerifier>> {
        self.verifier.load_full()
    }

    /// Verifies certificates of clients by other files from now on. Earlier sessions are not resumed: a client accepted before may be
    /// rejected now.
    ///
    /// # Errors
    /// When one of them cannot be used; then nothing changes.
    pub fn replace_authorities(
        &self,
        authorities: &ClientAuthorities,
        tls: &ListenerTls,
    ) -> Result<(), rustls::Error> {
        let before = self.config.load();
        let provider = Arc::clone(before.crypto_provider());
        let tickets = ticket_keys(tls)?;
        let verifier = client_verifier(tls, Some(authorities), &provider)?;
        let mut config = server_config(tls, &self.certificates, verifier.as_ref(), provider, tickets)?;
        config.alpn_protocols.clone_from(&before.alpn_protocols);
        config.key_log = Arc::clone(&before.key_log);
        self.config.store(Arc::new(config));
        self.verifier.store(verifier);
        self.authorities.store(Some(Arc::new(authorities.clone())));
        Ok(())
    }
}

/// Keys for session tickets, where it has such.
fn ticket_keys(tls: &ListenerTls) -> Result<Option<Arc<TicketKeys>>, rustls::Error> {
    tls.session_tickets.then(|| TicketKeys::new(&tls.ticket_keys).map(Arc::new)).transpose()
}

fn client_verifier(
    tls: &ListenerTls,
    authorities: Option<&ClientAuthorities>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<ClientVerifier>>, rustls::Error> {
    let clients = tls.client_certificates.as_ref().zip(authorities);
    clients.map(|(clients, authorities)| authorities.verifier(clients.verify, provider)).transpose()
}

/// With a cache of sessions of its own.
fn server_config(
    tls: &ListenerTls,
    certificates: &Arc<Certificates>,
    verifier: Option<&Arc<ClientVerifier>>,
    provider: Arc<CryptoProvider>,
    tickets: Option<Arc<TicketKeys>>,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = match verifier {
        Some(verifier) => Arc::clone(verifier) as _,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(&tls.versions))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::clone(certificates) as _);
    config.ignore_client_order = true;
    if let Some(tickets) = tickets {
        config.ticketer = tickets;
        // Beside tickets rustls takes no early data: this is only how much of it is skipped.
        config.max_early_data_size = early_data::SKIPPED_MAX;
    }
    config.session_storage = match tls.session_cache {
        Some(sessions) => ServerSessionMemoryCache::new(sessions as usize),
        None => Arc::new(NoServerSessionStorage {}),
    };
    Ok(config)
}

/// The provider of all cryptography, reduced to these suites and groups.
pub(super) fn provider(suites: &[CipherSuite], groups: &[KeyExchangeGroup]) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: suites.iter().map(|suite| supported_suite(*suite)).collect(),
        kx_groups: groups.iter().map(|group| supported_group(*group)).collect(),
        ..aws_lc_rs::default_provider()
    }
}

pub(super) fn versions(versions: &[TlsVersion]) -> Vec<&'static SupportedProtocolVersion> {
    let one = |version: &TlsVersion| match version {
        TlsVersion::Tls12 => &rustls::version::TLS12,
        TlsVersion::Tls13 => &rustls::version::TLS13,
    };
    versions.iter().map(one).collect()
}

fn supported_suite(suite: CipherSuite) -> SupportedCipherSuite {
    use aws_lc_rs::cipher_suite as known;
    match suite {
        CipherSuite::Aes128Gcm => known::TLS13_AES_128_GCM_SHA256,
        CipherSuite::Aes256Gcm => known::TLS13_AES_256_GCM_SHA384,
        CipherSuite::Chacha20 => known::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdsaAes128Gcm => known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdsaAes256Gcm => known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdsaChacha20 => known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::RsaAes128Gcm => known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::RsaAes256Gcm => known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::RsaChacha20 => known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn supported_group(group: KeyExchangeGroup) -> &'static dyn SupportedKxGroup {
    use aws_lc_rs::kx_group as known;
    match group {
        KeyExchangeGroup::X25519Mlkem768 => known::X25519MLKEM768,
        KeyExchangeGroup::Secp256r1Mlkem768 => known::SECP256R1MLKEM768,
        KeyExchangeGroup::X25519 => known::X25519,
        KeyExchangeGroup::Secp256r1 => known::SECP256R1,
        KeyExchangeGroup::Secp384r1 => known::SECP384R1,
    }
}

/// The name of a cipher suite in the IANA registry.
pub(crate) fn suite_name(suite: rustls::CipherSuite) -> &'static str {
    // rustls has its own names for those of TLS 1.3.
    let iana = suite.as_str().unwrap_or("unknown");
    match suite {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => CipherSuite::Aes128Gcm.name(),
        rustls::CipherSuite::TLS13_AES_256_GCM_SHA384 => CipherSuite::Aes256Gcm.name(),
        rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => CipherSuite::Chacha20.name(),
        _ => iana,
    }
}
