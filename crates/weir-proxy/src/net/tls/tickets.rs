//! Session tickets (RFC 8446 section 4.6.1, RFC 5077 section 4): what a client needs to resume its session, encrypted with a key that changes.
//!
//! As the ticketer of rustls, but its keys can be handed to the process that replaces this one, or come from files that several nodes have: otherwise
//! all clients that come back after an upgrade, or to another node, need a full handshake. A ticket is the name of its key, a nonce, and the session under
//! AES-256-GCM with the name as additional data. The first key encrypts, all of them decrypt. Must not keep a random key longer than its tickets live;
//! must not read files.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use weir_config::TicketKey;

use crate::net::clock::{self, Instant};

/// How long a random key encrypts tickets; it decrypts them for as long again. In that time, fewer than the 2^32 tickets are made that random nonces
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

/// The keys in use, the one that encrypts first.
struct KeyRing {
    keys: Vec<Arc<SealingKey>>,
    /// When the next random key comes. Keys from files do not age.
    ends_at: Option<Instant>,
}

struct SealingKey {
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

impl KeyRing {
    fn of_files(keys: &[Arc<TicketKey>]) -> Self {
        Self { keys: keys.iter().map(|key| Arc::new(SealingKey::of_file(key))).collect(), ends_at: None }
    }
}

impl TicketKeys {
    /// The keys of files, or where there are none a random one that no other listener has.
    ///
    /// # Errors
    /// When there are no random numbers.
    pub(super) fn new(files: &[Arc<TicketKey>]) -> Result<Self, rustls::Error> {
        let ring = if files.is_empty() {
            let key = SealingKey::random().ok_or(rustls::Error::FailedToGetRandomBytes)?;
            KeyRing { keys: vec![Arc::new(key)], ends_at: Some(clock::now() + PERIOD) }
        } else {
            KeyRing::of_files(files)
        };
        Ok(Self { ring: ArcSwap::from_pointee(ring), changing: Mutex::new(()) })
    }

    /// Uses other keys of files from now on.
    pub fn replace(&self, files: &[Arc<TicketKey>]) {
        self.ring.store(Arc::new(KeyRing::of_files(files)));
    }

    /// Random keys for another process; keys of files are read by that itself.
    pub fn hand_over(&self) -> Option<HandedKeys> {
        let ring = self.ring();
        Some(HandedKeys {
            left: ring.ends_at?.saturating_duration_since(clock::now()),
            keys: ring.keys.iter().map(|key| [&key.name[..], &key.secret].concat()).collect(),
        })
    }

    /// Goes on with the random keys of another process; no ticket was made yet.
    pub fn resume(&self, handed: &HandedKeys) {
        let keys: Option<Vec<_>> =
            handed.keys.iter().map(|bytes| SealingKey::new(bytes).map(Arc::new)).collect();
        let has_random = self.ring.load().ends_at.is_some();
        if let Some(keys) = keys.filter(|keys| has_random && !keys.is_empty()) {
            let ends_at = Some(clock::now() + handed.left.min(PERIOD));
            self.ring.store(Arc::new(KeyRing { keys, ends_at }));
        }
    }

    /// The keys for now.
    fn ring(&self) -> Arc<KeyRing> {
        let ring = self.ring.load_full();
        let now = clock::now();
        let is_over = |ring: &KeyRing| ring.ends_at.is_some_and(|ends_at| now >= ends_at);
        if !is_over(&ring) {
            return ring;
        }
        // The thread that comes first; others go on with the keys of before meanwhile.
        let Ok(_changing) = self.changing.try_lock() else { return ring };
        let ring = self.ring.load_full();
        let Some(next) = is_over(&ring).then(SealingKey::random).flatten() else { return ring };
        let mut keys = vec![Arc::new(next)];
        // Without a handshake for as long, the tickets of the current key are over, too.
        if ring.ends_at.is_some_and(|ends_at| now < ends_at + PERIOD) {
            keys.extend(ring.keys.first().cloned());
        }
        let ring = Arc::new(KeyRing { keys, ends_at: Some(now + PERIOD) });
        self.ring.store(Arc::clone(&ring));
        ring
    }
}

impl SealingKey {
    /// `None` when there are no random numbers.
    fn random() -> Option<Self> {
        let mut bytes = [0; NAME_BYTES + SECRET_BYTES];
        rand::fill(&mut bytes).ok()?;
        Self::new(&bytes)
    }

    /// Name and secret follow from the content of the file, so that all nodes with that file have the same.
    fn of_file(file: &TicketKey) -> Self {
        let salt = Salt::new(HKDF_SHA256, b"weir session tickets").extract(&file.secret);
        let derived = |what: &[u8]| {
            let mut bytes = [0; SECRET_BYTES];
            let filled = salt.expand(&[what], HKDF_SHA256).and_then(|okm| okm.fill(&mut bytes));
            filled.expect("it is as long as one digest");
            bytes
        };
        let bytes = [&derived(b"id")[..NAME_BYTES], &derived(b"key")].concat();
        Self::new(&bytes).expect("it has the length of such a key")
    }

    /// The key with this name and secret.
    fn new(bytes: &[u8]) -> Option<Self> {
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
        self.ring().keys.first()?.seal(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, ticket) = cipher.split_first_chunk::<NAME_BYTES>()?;
        self.ring().keys.iter().find(|key| key.name == *name)?.open(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: u64) {
        clock::set(Some(Instant::test(Duration::from_secs(hours * 3600 + 1))));
    }

    fn random() -> TicketKeys {
        TicketKeys::new(&[]).unwrap()
    }

    fn of_files(seeds: &[u8]) -> Vec<Arc<TicketKey>> {
        let file = |seed| {
            let secret = (0..80).map(|byte| byte ^ seed).collect();
            Arc::new(TicketKey::new("key", secret))
        };
        seeds.iter().map(|seed| file(*seed)).collect()
    }

    #[test]
    fn a_ticket_lives_for_two_periods_at_most() {
        at(0);
        let keys = random();
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
        let keys = random();
        let ticket = keys.encrypt(b"session").unwrap();
        assert_ne!(ticket, keys.encrypt(b"session").unwrap(), "nonces differ");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(keys.decrypt(&changed), None, "byte {at}");
            assert_eq!(keys.decrypt(&ticket[..at]), None, "{at} bytes");
        }
        assert_eq!(random().decrypt(&ticket), None);
    }

    #[test]
    fn another_process_goes_on_with_the_keys() {
        at(0);
        let (before, after) = (random(), random());
        let old = before.encrypt(b"old").unwrap();
        at(7);
        let new = before.encrypt(b"new").unwrap();
        let handed = before.hand_over().unwrap();
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

    #[test]
    fn every_node_with_the_file_takes_the_ticket_and_no_other() {
        let one = TicketKeys::new(&of_files(&[1, 2])).unwrap();
        let other = TicketKeys::new(&of_files(&[3, 1])).unwrap();
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert!(one.decrypt(&other.encrypt(b"session").unwrap()).is_none(), "its key is unknown here");
        other.replace(&of_files(&[3]));
        assert!(other.decrypt(&ticket).is_none(), "the key has been removed");
    }

    #[test]
    fn keys_of_files_stay_where_they_are_and_do_not_age() {
        at(0);
        let keys = TicketKeys::new(&of_files(&[1])).unwrap();
        let ticket = keys.encrypt(b"session").unwrap();
        assert_eq!(keys.hand_over(), None);
        keys.resume(&random().hand_over().unwrap());
        at(40);
        assert_eq!(keys.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        clock::set(None);
    }
}
