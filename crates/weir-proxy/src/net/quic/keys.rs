//! The keys of a process for QUIC: of connection IDs, stateless resets, and tokens.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac, rand};
use quinn_proto::ValidationTokenConfig;
use quinn_proto::crypto::HandshakeTokenKey;
use weir_config::Http3Key;

use super::connection_ids::IdKey;
use super::forwarding::{EarlierProcess, NextProcess};
use super::shared_keys::{QuicTokenKeys, SharedKeys};
use super::used_tokens::UsedTokens;

/// Bytes that all keys are made of.
const SECRET_LEN: usize = 64;

/// Tokens that a connection gives its client, and how long they are good.
const TOKENS_SENT: u32 = 2;
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The keys that all workers share: a packet, or a token, may come to any of them.
#[derive(Clone)]
pub struct QuicKeys {
    pub(super) ids: IdKey,
    workers: usize,
    pub(super) resets: Arc<hmac::Key>,
    tokens: Arc<dyn HandshakeTokenKey>,
    used_tokens: Arc<UsedTokens>,
    earlier: Arc<[EarlierProcess]>,
    pub(super) shared: Option<Arc<SharedKeys>>,
    next: Arc<NextProcess>,
}

impl fmt::Debug for QuicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicKeys").finish_non_exhaustive()
    }
}

impl QuicKeys {
    /// Those of a process with so many workers, of another generation than those of `earlier`: processes that have connections still, by what they
    /// have handed over. Some follow from `files`, where there are any; all others are random.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(crate) fn new(
        workers: usize,
        files: &[Arc<Http3Key>],
        earlier: Vec<(Vec<u8>, OwnedFd)>,
    ) -> Result<Self, rustls::Error> {
        let earlier: Arc<[EarlierProcess]> = earlier
            .into_iter()
            .filter_map(|(ids, socket)| Some(EarlierProcess { ids: IdKey::from_bytes(&ids)?, socket }))
            .collect();
        let mut secret = [0; SECRET_LEN];
        rand::fill(&mut secret).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        let mut random = [0];
        rand::fill(&mut random).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        let is_free = |generation: &u8| earlier.iter().all(|one| one.ids.generation() != *generation);
        let mut generations = (0..=u8::MAX).map(|step| random[0].wrapping_add(step));
        let generation = generations.find(is_free).unwrap_or(random[0]);
        let master = hkdf::Salt::new(hkdf::HKDF_SHA256, b"weir quic").extract(&secret);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let derived = |purpose: &[u8]| hmac::sign(&key, purpose);
        let shared = SharedKeys::of_files(files).map(Arc::new);
        let ids = match &shared {
            Some(shared) => shared.ids(),
            None => derived(b"connection ids").as_ref().first_chunk().copied().unwrap_or_default(),
        };
        let tokens: Arc<dyn HandshakeTokenKey> = match &shared {
            Some(shared) => Arc::new(QuicTokenKeys { own: master, shared: Arc::clone(shared) }),
            None => Arc::new(master),
        };
        Ok(Self {
            ids: IdKey::new(ids, generation),
            workers,
            resets: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, derived(b"resets").as_ref())),
            tokens,
            used_tokens: Arc::new(UsedTokens::new()),
            earlier,
            shared,
            next: Arc::default(),
        })
    }

    /// The key of tokens by which clients prove their address.
    pub(crate) fn tokens(&self) -> Arc<dyn HandshakeTokenKey> {
        Arc::clone(&self.tokens)
    }

    /// Gives clients tokens by which they prove their address with the first packet of their next connection.
    pub(crate) fn renewable_tokens(&self) -> ValidationTokenConfig {
        let mut config = ValidationTokenConfig::default();
        config.lifetime(TOKEN_LIFETIME).sent(TOKENS_SENT).log(Arc::clone(&self.used_tokens) as _);
        config
    }

    /// What the next process needs to know of this one, whose datagrams it gives to `socket`, and of those before this one.
    ///
    /// # Errors
    /// When the descriptors of the process end.
    pub(crate) fn to_hand_over(&self, socket: OwnedFd) -> io::Result<Vec<(Vec<u8>, OwnedFd)>> {
        let left = self.earlier.iter().filter(|before| !before.is_gone());
        let before = left.map(|before| Ok((before.ids.to_bytes(), before.socket.try_clone()?)));
        let own = (self.ids.to_bytes(), socket);
        before.chain([Ok(own)]).collect()
    }

    /// The process before this one that has the connection of a datagram.
    pub(super) fn earlier_process_of(&self, datagram: &[u8]) -> Option<&EarlierProcess> {
        self.earlier.iter().find(|process| process.has(datagram))
    }

    /// The worker whose connection a datagram is for; `None` where no connection of this process has such an ID.
    pub(crate) fn worker_of(&self, datagram: &[u8]) -> Option<usize> {
        let worker = self.ids.worker_of(super::connection_ids::destination(datagram)?);
        // Another node with the same file may have more, and the same generation.
        worker.filter(|worker| *worker < self.workers)
    }

    /// Whether a packet for a connection that is not known here is answered by a stateless reset: if it was one of this process, or of a node with
    /// the same file. Not while there is a next process, which has connections of its own.
    pub(super) fn may_reset(&self, id: &[u8]) -> bool {
        let is_shared = || self.shared.as_ref().is_some_and(|shared| shared.has(id));
        self.ids.worker_of(id).is_some() || (is_shared() && !self.next.is_there())
    }

    /// The process behind this one, if there is one.
    pub(crate) fn next_process(&self) -> &NextProcess {
        &self.next
    }
}
