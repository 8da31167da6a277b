//! Session tickets by keys from files: every node with the same files resumes the sessions of all (RFC 8446 section 4.6.1, RFC 5077).
//!
//! A ticket is the id of its key, a nonce, and what rustls wants to know again, encrypted by AES-256-GCM. The first key encrypts, all of them decrypt, so
//! that a new one can reach all nodes before it is the first. Must not read files.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use rustls::server::ProducesTickets;
use weir_config::TicketKey;

/// Bytes by which a ticket names its key.
const ID_LEN: usize = 16;

/// How long clients may use a ticket, in seconds: as long as those by keys in memory.
const LIFETIME: u32 = 12 * 60 * 60;

/// The keys in use.
pub struct SharedTickets(ArcSwap<Vec<SharedKey>>);

struct SharedKey {
    id: [u8; ID_LEN],
    key: RandomizedNonceKey,
}

impl fmt::Debug for SharedTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTickets(..)")
    }
}

impl SharedTickets {
    /// The first of `keys` encrypts.
    pub(crate) fn new(keys: &[Arc<TicketKey>]) -> Self {
        Self(ArcSwap::from_pointee(keys.iter().map(SharedKey::of).collect()))
    }

    /// Uses other keys from now on.
    pub fn replace(&self, keys: &[Arc<TicketKey>]) {
        self.0.store(Arc::new(keys.iter().map(SharedKey::of).collect()));
    }
}

impl SharedKey {
    fn of(key: &Arc<TicketKey>) -> Self {
        let derived = |what: &[u8]| {
            let secret = Salt::new(HKDF_SHA256, b"weir session tickets").extract(&key.secret);
            let mut bytes = [0; 32];
            let filled = secret.expand(&[what], HKDF_SHA256).and_then(|okm| okm.fill(&mut bytes));
            filled.expect("it is as long as one digest");
            bytes
        };
        let (mut id, bytes) = ([0; ID_LEN], derived(b"id"));
        id.copy_from_slice(&bytes[..ID_LEN]);
        let key = RandomizedNonceKey::new(&AES_256_GCM, &derived(b"key"));
        Self { id, key: key.expect("it has the length of such a key") }
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = plain.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(&self.id), &mut sealed).ok()?;
        Some([&self.id[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, nonce: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut plain = sealed.to_vec();
        let len = self.key.open_in_place(nonce, Aad::from(&self.id), &mut plain).ok()?.len();
        plain.truncate(len);
        Some(plain)
    }
}

impl ProducesTickets for SharedTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.load().first()?.encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = ticket.split_at_checked(ID_LEN)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        self.0.load().iter().find(|key| key.id == *id)?.decrypt(nonce, sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> Arc<TicketKey> {
        let secret = (0..80).map(|byte| byte ^ seed).collect();
        Arc::new(TicketKey { file: "key".into(), secret })
    }

    #[test]
    fn every_node_with_the_key_takes_the_ticket_and_no_other() {
        let (one, other) = (SharedTickets::new(&[key(1), key(2)]), SharedTickets::new(&[key(3), key(1)]));
        let ticket = one.encrypt(b"a session").unwrap();
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
        assert_ne!(one.encrypt(b"a session").unwrap(), ticket, "no nonce comes twice");
        assert!(one.decrypt(&other.encrypt(b"a session").unwrap()).is_none(), "its key is unknown here");
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert!(one.decrypt(&forged).is_none(), "byte {at}");
            assert!(one.decrypt(&ticket[..at]).is_none(), "{at} bytes");
        }
        other.replace(&[key(3)]);
        assert!(other.decrypt(&ticket).is_none(), "the key has been removed");
    }
}
