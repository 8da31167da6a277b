//! Power of two choices: two servers drawn by weight, and the less loaded of them.
//!
//! Nearly as even as least requests at a cost that does not grow with the number of servers, and without the
//! herd that many balancers make when all of them see the same least loaded server (Mitzenmacher 2001). Cost:
//! two draws.

use super::draw::{SplitMix64, WeightedDraw};
use super::least::{Cost as _, ServerLoad};
use super::{BalancerChoice, BalancerPeer};

#[derive(Debug)]
pub(super) struct PowerOfTwo {
    drum: WeightedDraw,
}

impl PowerOfTwo {
    pub(super) fn new(peers: &[BalancerPeer]) -> PowerOfTwo {
        PowerOfTwo { drum: WeightedDraw::new(peers) }
    }

    /// Chooses among the peers that are `allowed` with `word` as the source of chance. Goes round again only
    /// when another worker took the last slot of the preferred server.
    #[inline]
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        word: u64,
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
    ) -> BalancerChoice {
        let mut random = SplitMix64::new(word);
        loop {
            let first = match self.drum.draw(peers, allowed, None, &mut random) {
                Ok(at) => at,
                Err(choice) => return choice,
            };
            let second = self.drum.draw(peers, allowed, Some(first), &mut random).unwrap_or(first);
            let (first, second) = (&peers[first], &peers[second]);
            let better = if load(second).compare(load(first)).is_lt() { second } else { first };
            if better.state.try_acquire() {
                return BalancerChoice::Server(better.id);
            }
        }
    }
}

/// A server that became ineligible since it was drawn has a share of 0, which would compare as no load at
/// all.
fn load(peer: &BalancerPeer) -> ServerLoad {
    ServerLoad { in_flight: peer.state.in_flight(), share: peer.state.share().max(1) }
}
