//! The connection IDs that Weir gives to clients: they say which worker has the connection.
//!
//! Generation, worker, six random bytes, and four of a keyed hash, by which an ID of ours is known from any other. The generation is that of the
//! process: after an upgrade, packets of the process before can be told from those of this one. A client moves between networks with them, and
//! its packets may then reach any socket.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// Bytes of an ID.
pub(crate) const LEN: usize = 12;

/// Where the worker stands in an ID, behind the generation: the kernel steers packets by both.
pub(super) const WORKER_AT: usize = 1;

pub(super) const HASHED_LEN: usize = 8;

/// What the IDs of a process have in common.
#[derive(Clone, Copy)]
pub(crate) struct IdKey {
    key: [u8; 16],
    generation: u8,
}

impl fmt::Debug for IdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdKey").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl IdKey {
    pub(super) const fn new(key: [u8; 16], generation: u8) -> Self {
        Self { key, generation }
    }

    pub(super) const fn generation(&self) -> u8 {
        self.generation
    }

    /// What another process needs to know its IDs.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        std::iter::once(self.generation).chain(self.key).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (generation, key) = bytes.split_first()?;
        Some(Self { key: key.try_into().ok()?, generation: *generation })
    }

    pub(super) fn hash(&self, bytes: &[u8]) -> [u8; LEN - HASHED_LEN] {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(bytes);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        [a, b, c, d]
    }

    /// The worker whose connection an ID stands for; `None` where it is none of this process.
    pub(crate) fn worker_of(&self, id: &[u8]) -> Option<usize> {
        let is_ours = id.first() == Some(&self.generation) && self.is_sound(id);
        is_ours.then(|| id[WORKER_AT].into())
    }

    /// Whether an ID was made with this key, by whatever process.
    pub(super) fn is_sound(&self, id: &[u8]) -> bool {
        let parts = id.split_at_checked(HASHED_LEN);
        parts.is_some_and(|(hashed, hash)| self.hash(hashed) == hash)
    }
}

/// The ID that a datagram is for; `None` where it is too short.
pub(crate) fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let (first, rest) = datagram.split_first()?;
    if first & 0x80 == 0 {
        return rest.get(..LEN);
    }
    // Version, length, ID (RFC 8999 section 5.1).
    let len = usize::from(*rest.get(4)?);
    rest.get(5..5 + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_datagram_is_found() {
        let short: Vec<u8> = std::iter::once(0x40).chain(1..=30).collect();
        assert_eq!(destination(&short), Some(&short[1..=LEN]));
        assert_eq!(destination(&short[..LEN]), None);
        let long = [0xc0, 0, 0, 0, 1, 3, 7, 8, 9, 0];
        assert_eq!(destination(&long), Some(&[7, 8, 9][..]));
        assert_eq!(destination(&long[..8]), None);
        assert_eq!(destination(&[]), None);
    }
}
