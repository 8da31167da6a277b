//! Map-based hash: a key goes to the server at the place that is the remainder of its hash, as `hash` and `ip_hash` of nginx and `hash-type map-based`
//! of HAProxy.
//!
//! Every server has as many places as its weight, eligible or not: while one is down, its keys alone go elsewhere, each by another hash. When a server
//! is added or removed, or has another weight, nearly all keys move; [`ConsistentHash`](super::consistent_hash) moves only those that it must.
//! Cost: one pass over the servers and another one up to the place.

use super::least_requests::LeastRequests;
use super::rotation::RotationStart;
use super::{BalancerChoice, BalancerPeer, WhenFull};
use crate::hash::mix;

/// Hashes that are tried before any server will do, as in nginx.
const TRIES_MAX: u64 = 20;

#[derive(Debug)]
pub(super) struct MapBasedHash {
    /// For requests that have no key, and keys for which no server was found.
    keyless: LeastRequests,
}

impl MapBasedHash {
    pub(super) fn new(peers: &[BalancerPeer], start: RotationStart) -> MapBasedHash {
        MapBasedHash { keyless: LeastRequests::new(peers, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.keyless.clock()
    }

    /// Chooses among the peers that are `allowed`; with `when_full` a full server is answered rather than passed over.
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        hash: Option<u64>,
        when_full: WhenFull,
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
    ) -> BalancerChoice {
        let Some(hash) = hash else { return self.keyless.choose(peers, allowed) };
        for peer in tried(peers, hash) {
            if peer.state.share() == 0 || !allowed(peer) {
                continue;
            }
            if peer.state.try_acquire() {
                return BalancerChoice::Server(peer.id);
            }
            if when_full == WhenFull::Queue {
                return BalancerChoice::BoundFull(peer.id);
            }
        }
        self.keyless.choose(peers, allowed)
    }
}

/// How many others a key tries before this server; [`u64::MAX`] when it is not among those that it tries.
pub(super) fn place(peers: &[BalancerPeer], hash: u64, peer: &BalancerPeer) -> u64 {
    (0..).zip(tried(peers, hash)).find(|(_, tried)| tried.id == peer.id).map_or(u64::MAX, |(place, _)| place)
}

/// The servers that a key tries, in order; some more than once.
fn tried(peers: &[BalancerPeer], hash: u64) -> impl Iterator<Item = &BalancerPeer> {
    (0..TRIES_MAX).filter_map(move |nth| {
        let hash = if nth == 0 { hash } else { mix(hash.wrapping_add(nth)) };
        let total = peers.iter().map(|peer| u64::from(peer.state.weight())).sum::<u64>();
        let mut left = hash.checked_rem(total)?;
        peers.iter().find(|peer| {
            let weight = u64::from(peer.state.weight());
            let is_here = left < weight;
            left = left.saturating_sub(weight);
            is_here
        })
    })
}
