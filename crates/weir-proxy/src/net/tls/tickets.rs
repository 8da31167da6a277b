//! Session tickets (RFC 8446 section 4.6.1, RFC 5077 section 4): what a client needs to resume its session, encrypted with a key that changes.
//!
//! As the ticketer of rustls, but its keys can be handed to the process that replaces this one: otherwise all clients that come back after an
//! upgrade need a full handshake. A ticket is the name of its key, a nonce, and the session under AES-256-GCM with the name as additional data. Must
//! not keep a key longer than its tickets live.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

use crate::net::clock::{self, Instant};

/// How long a key encrypts tickets; it decrypts them for as long again. In that time, fewer than the 2^32 tickets are made that random nonces
/// allow (NIST SP 800-38D section 8.3): 200 000 a second.
const PERIOD: Duration = Duration::from_secs(6 * 3600);

/// The name of a key, in front of each of its tickets.
const NAME_BYTES: usize = 16;

const SECRET_BYTES: usize = 32;

/// The keys of a listener.
pub struct TicketKeys {
    ring: ArcSwap<KeyRing>,
    /// Held while keys are changed.
    changing: Mutex<()>,
}

/// The keys in use.
struct KeyRing {
    current: Arc<TicketKey>,
    before: Option<Arc<TicketKey>>,
    /// When the next key comes.
    ends_at: Instant,
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    secret: [u8; SECRET_BYTES],
    key: RandomizedNonceKey,
}

/// The keys for another process, the current one first.
#[derive(Clone, PartialEq, Eq)]
pub struct HandedKeys {
    /// Name and secret of each.
    pub keys: Vec<Vec<u8>>,
    /// How long the current one encrypts tickets.
    pub left: Duration,
}

impl fmt::Debug for HandedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandedKeys({}, {:?})", self.keys.len(), self.left)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys(..)")
    }
}

impl TicketKeys {
    /// A key that no other listener has.
    ///
    /// # Errors
    /// When there are no random numbers.
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let current = Arc::new(TicketKey::random().ok_or(rustls::Error::FailedToGetRandomBytes)?);
        let ring = KeyRing { current, before: None, ends_at: clock::now() + PERIOD };
        Ok(Self { ring: ArcSwap::from_pointee(ring), changing: Mutex::new(()) })
    }

    /// The keys for another process.
    pub fn hand_over(&self) -> HandedKeys {
        let ring = self.ring();
        let keys = std::iter::once(&ring.current).chain(&ring.before);
        HandedKeys {
            keys: keys.map(|key| [&key.name[..], &key.secret].concat()).collect(),
            left: ring.ends_at.saturating_duration_since(clock::now()),
        }
    }

    /// Goes on with the keys of another process; no ticket was made yet.
    pub fn resume(&self, handed: &HandedKeys) {
        let mut keys = handed.keys.iter().map(|bytes| TicketKey::of(bytes).map(Arc::new));
        if let (Some(Some(current)), before) = (keys.next(), keys.next().flatten()) {
            let ends_at = clock::now() + handed.left.min(PERIOD);
            self.ring.store(Arc::new(KeyRing { current, before, ends_at }));
        }
    }

    /// The keys for now.
    fn ring(&self) -> Arc<KeyRing> {
        let ring = self.ring.load_full();
        let now = clock::now();
        if now < ring.ends_at {
            return ring;
        }
        // Whichever thread comes first; others go on with the keys of before meanwhile.
        let Ok(_changing) = self.changing.try_lock() else { return ring };
        let ring = self.ring.load_full();
        let Some(next) = (now >= ring.ends_at).then(TicketKey::random).flatten() else { return ring };
        // Without a handshake for as long, the tickets of the current key are over, too.
        let before = (now < ring.ends_at + PERIOD).then(|| Arc::clone(&ring.current));
        let ring = Arc::new(KeyRing { current: Arc::new(next), before, ends_at: now + PERIOD });
        self.ring.store(Arc::clone(&ring));
        ring
    }
}

impl TicketKey {
    /// `None` when there are no random numbers.
    fn random() -> Option<Self> {
        let mut bytes = [0; NAME_BYTES + SECRET_BYTES];
        rand::fill(&mut bytes).ok()?;
        Self::of(&bytes)
    }

    /// The key with this name and secret.
    fn of(bytes: &[u8]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk()?;
        let secret: &[u8; SECRET_BYTES] = secret.try_into().ok()?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, secret).ok()?;
        Some(Self { name: *name, secret: *secret, key })
    }

    fn seal(&self, session: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = session.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(self.name), &mut sealed).ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    /// The session of a ticket, behind the name of the key.
    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = ticket.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let session_len = self.key.open_in_place(nonce, Aad::from(self.name), &mut sealed).ok()?.len();
        sealed.truncate(session_len);
        Some(sealed)
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(2 * PERIOD.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.ring().current.seal(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, ticket) = cipher.split_first_chunk::<NAME_BYTES>()?;
        let ring = self.ring();
        let key = std::iter::once(&ring.current).chain(&ring.before).find(|key| key.name == *name)?;
        key.open(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: u64) {
        clock::set(Some(Instant::test(Duration::from_secs(hours * 3600 + 1))));
    }

    #[test]
    fn a_ticket_lives_for_two_periods_at_most() {
        at(0);
        let keys = TicketKeys::new().unwrap();
        let first = keys.encrypt(b"session").unwrap();
        assert_eq!(keys.decrypt(&first).as_deref(), Some(&b"session"[..]));
        at(6);
        let second = keys.encrypt(b"session").unwrap();
        assert_ne!(first[..NAME_BYTES], second[..NAME_BYTES]);
        assert!(keys.decrypt(&first).is_some() && keys.decrypt(&second).is_some());
        at(12);
        assert!(keys.decrypt(&first).is_none() && keys.decrypt(&second).is_some());
        at(40);
        assert!(keys.decrypt(&second).is_none(), "it was idle for longer than that");
        clock::set(None);
    }

    #[test]
    fn a_changed_ticket_is_none() {
        let keys = TicketKeys::new().unwrap();
        let ticket = keys.encrypt(b"session").unwrap();
        assert_ne!(ticket, keys.encrypt(b"session").unwrap(), "nonces differ");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(keys.decrypt(&changed), None, "byte {at}");
            assert_eq!(keys.decrypt(&ticket[..at]), None, "{at} bytes");
        }
        assert_eq!(TicketKeys::new().unwrap().decrypt(&ticket), None);
    }

    #[test]
    fn another_process_goes_on_with_the_keys() {
        at(0);
        let (before, after) = (TicketKeys::new().unwrap(), TicketKeys::new().unwrap());
        let old = before.encrypt(b"old").unwrap();
        at(7);
        let new = before.encrypt(b"new").unwrap();
        let handed = before.hand_over();
        assert_eq!(format!("{handed:?}"), "HandedKeys(2, 21600s)");
        after.resume(&handed);
        assert_eq!(
            (after.decrypt(&old).as_deref(), after.decrypt(&new).as_deref()),
            (Some(&b"old"[..]), Some(&b"new"[..]))
        );
        assert_eq!(before.decrypt(&after.encrypt(b"later").unwrap()).as_deref(), Some(&b"later"[..]));
        at(13);
        assert!(
            after.decrypt(&old).is_none() && after.decrypt(&new).is_some(),
            "the period is the same in both"
        );
        let unusable = HandedKeys { keys: vec![vec![1, 2, 3]], left: PERIOD };
        after.resume(&unusable);
        assert!(after.decrypt(&new).is_some(), "nothing has changed");
        clock::set(None);
    }
}
