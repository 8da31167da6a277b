//! Keys that the nodes with one address have in common, from files (`process.http3_keys`): of connection IDs, of stateless resets, and of Retry.
//!
//! A node that gets a packet for a connection of another one knows its ID by the keyed hash in it, and answers by the reset that the other had
//! announced (RFC 9000 section 10.3). Announced is one for the address that the client speaks to: at another address of a node, as that of a node
//! that stands by, no client gets it (section 21.11). Must not know which process of this node has which connection.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey, HmacKey};
use weir_config::Http3Key;

use super::connection_ids::IdKey;

/// Bytes of each key that follows from a file, and of a reset before it is cut (RFC 9000 section 10.3).
const KEY_BYTES: usize = 32;

/// The first byte of what a Retry token says, by which `quinn-proto` tells it from one of NEW_TOKEN.
const RETRY: u8 = 0;

/// Those of all files, the one in use first: at least one.
pub(super) struct SharedKeys(Vec<KeyOfFile>);

/// Those of one file.
struct KeyOfFile {
    ids: [u8; 16],
    resets: hmac::Key,
    retries: hkdf::Prk,
}

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKeys({})", self.0.len())
    }
}

impl KeyOfFile {
    /// Everything follows from the content of the file, so that all nodes with that file have the same.
    fn of_file(file: &Http3Key) -> Self {
        let master = hkdf::Salt::new(hkdf::HKDF_SHA256, b"weir http3").extract(&file.secret);
        let derived = |purpose: &[u8]| {
            let mut bytes = [0; KEY_BYTES];
            let filled = master.expand(&[purpose], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut bytes));
            filled.expect("it is as long as one digest");
            bytes
        };
        let [ids @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = derived(b"connection ids");
        Self {
            ids,
            resets: hmac::Key::new(hmac::HMAC_SHA256, &derived(b"stateless resets")),
            retries: hkdf::Salt::new(hkdf::HKDF_SHA256, b"weir http3 retry")
                .extract(&derived(b"retry tokens")),
        }
    }

    fn has(&self, id: &[u8]) -> bool {
        IdKey::new(self.ids, 0).is_sound(id)
    }
}

impl SharedKeys {
    /// Those of files; `None` without any.
    pub(super) fn of_files(files: &[Arc<Http3Key>]) -> Option<Self> {
        let keys: Vec<_> = files.iter().map(|file| KeyOfFile::of_file(file)).collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// The key of connection IDs.
    pub(super) fn ids(&self) -> [u8; 16] {
        self.0[0].ids
    }

    /// Whether a node with one of the files has made this ID.
    pub(super) fn has(&self, id: &[u8]) -> bool {
        self.0.iter().any(|key| key.has(id))
    }
}

/// The key of stateless resets of one socket.
pub(super) struct ResetKey {
    keys: Arc<SharedKeys>,
    /// The address that the next ones are for.
    local: Mutex<IpAddr>,
}

impl ResetKey {
    pub(super) fn new(keys: &Arc<SharedKeys>) -> Self {
        Self { keys: Arc::clone(keys), local: Mutex::new(Ipv6Addr::UNSPECIFIED.into()) }
    }

    /// Makes those for this address from now on.
    pub(super) fn at(&self, local: IpAddr) {
        *self.local.lock().unwrap_or_else(PoisonError::into_inner) = local;
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, id: &[u8], out: &mut [u8]) {
        let local = match *self.local.lock().unwrap_or_else(PoisonError::into_inner) {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let key = self.keys.0.iter().find(|key| key.has(id)).unwrap_or(&self.keys.0[0]);
        let mut context = hmac::Context::with_key(&key.resets);
        context.update(id);
        context.update(&local.octets());
        out.copy_from_slice(context.sign().as_ref());
    }

    fn signature_len(&self) -> usize {
        KEY_BYTES
    }

    fn verify(&self, id: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = [0; KEY_BYTES];
        self.sign(id, &mut expected);
        aws_lc_rs::constant_time::verify_slices_are_equal(&expected, signature).map_err(|_| CryptoError)
    }
}

/// The keys of tokens. Those of Retry count at every node with the file, for some seconds and one port of a client. Those of NEW_TOKEN are
/// remembered when they are used, which only the process can that has given them: what proves an address for early data counts once.
pub(super) struct QuicTokenKeys {
    pub(super) own: hkdf::Prk,
    pub(super) shared: Arc<SharedKeys>,
}

impl HandshakeTokenKey for QuicTokenKeys {
    fn aead_from_hkdf(&self, random: &[u8]) -> Box<dyn AeadKey> {
        let retries = self.shared.0.iter().map(|key| key.retries.aead_from_hkdf(random));
        Box::new(TokenAead { own: self.own.aead_from_hkdf(random), retries: retries.collect() })
    }
}

/// The keys of one token.
struct TokenAead {
    own: Box<dyn AeadKey>,
    retries: Vec<Box<dyn AeadKey>>,
}

impl AeadKey for TokenAead {
    fn seal(&self, token: &mut Vec<u8>, additional: &[u8]) -> Result<(), CryptoError> {
        match self.retries.first().filter(|_| token.first() == Some(&RETRY)) {
            Some(shared) => shared.seal(token, additional),
            None => self.own.seal(token, additional),
        }
    }

    fn open<'a>(&self, token: &'a mut [u8], additional: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let of_retry = self.retries.iter().map(|key| (key, true));
        for (key, is_retry) in of_retry.chain([(&self.own, false)]) {
            // One that does not fit leaves nothing of its input.
            let mut copy = token.to_vec();
            if let Ok(opened) = key.open(&mut copy, additional)
                && (opened.first() == Some(&RETRY)) == is_retry
            {
                let opened_into = &mut token[..opened.len()];
                opened_into.copy_from_slice(opened);
                return Ok(opened_into);
            }
        }
        Err(CryptoError)
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::ConnectionIdGenerator as _;

    use super::super::keys::QuicKeys;
    use super::super::worker_ids::WorkerIds;
    use super::*;

    fn file(seed: u8) -> Arc<Http3Key> {
        Arc::new(Http3Key::new("key", (0..80).map(|byte| byte ^ seed).collect()))
    }

    fn keys(seeds: &[u8]) -> QuicKeys {
        let files: Vec<_> = seeds.iter().map(|seed| file(*seed)).collect();
        QuicKeys::new(2, &files, Vec::new()).unwrap()
    }

    fn shared(seeds: &[u8]) -> Arc<SharedKeys> {
        let files: Vec<_> = seeds.iter().map(|seed| file(*seed)).collect();
        Arc::new(SharedKeys::of_files(&files).unwrap())
    }

    fn reset(keys: &Arc<SharedKeys>, id: &[u8], local: [u8; 4]) -> [u8; KEY_BYTES] {
        let key = ResetKey::new(keys);
        key.at(local.into());
        let mut out = [0; KEY_BYTES];
        key.sign(id, &mut out);
        assert!(key.verify(id, &out).is_ok());
        out
    }

    #[test]
    fn every_node_with_the_file_knows_the_ids_and_no_other() {
        let (one, both, other) = (keys(&[1]), keys(&[2, 1]), keys(&[3]));
        let id = WorkerIds { keys: one.clone(), worker: 1 }.generate_cid();
        assert!(one.may_reset(&id) && both.may_reset(&id));
        assert!(!other.may_reset(&id) && !keys(&[]).may_reset(&id));
        assert!(!one.may_reset(&[7; 12]));
    }

    #[test]
    fn a_reset_is_the_same_at_each_node_and_for_one_address() {
        let id = WorkerIds { keys: keys(&[1]), worker: 1 }.generate_cid();
        let announced = reset(&shared(&[1]), &id, [192, 0, 2, 1]);
        assert_eq!(
            reset(&shared(&[2, 1]), &id, [192, 0, 2, 1]),
            announced,
            "by the key that the ID was made with"
        );
        assert_ne!(reset(&shared(&[1]), &id, [192, 0, 2, 2]), announced, "the address is another");
        assert_ne!(reset(&shared(&[2]), &id, [192, 0, 2, 1]), announced, "the key is another");
    }

    #[test]
    fn proofs_of_retry_count_at_each_node_and_others_at_one() {
        let nodes = [keys(&[1]), keys(&[2, 1]), keys(&[1])];
        let opened = |at: &QuicKeys, token: &[u8]| {
            let mut token = token.to_vec();
            at.tokens().aead_from_hkdf(b"nonce").open(&mut token, &[]).ok().map(|opened| opened.to_vec())
        };
        for (kind, is_shared) in [(RETRY, true), (1, false), (9, false)] {
            let mut token = vec![kind, 5, 6];
            nodes[0].tokens().aead_from_hkdf(b"nonce").seal(&mut token, &[]).unwrap();
            assert_eq!(opened(&nodes[0], &token), Some(vec![kind, 5, 6]));
            assert_eq!(opened(&nodes[1], &token).is_some(), is_shared, "{kind}");
            assert_eq!(opened(&nodes[2], &token).is_some(), is_shared, "{kind}");
            assert!(opened(&keys(&[4]), &token).is_none() && opened(&keys(&[]), &token).is_none());
            token[1] ^= 1;
            assert!(opened(&nodes[0], &token).is_none());
        }
    }
}
