//! Least requests: the server with the fewest requests in flight for its weight. The default.
//!
//! Loads are compared as fractions by cross-multiplication, so nothing is lost to rounding, and over all
//! workers, because they count in the same place. Equal servers take turns by weight, so idle servers share
//! evenly. The slot is taken only if the server still has the load that was compared: two workers that choose
//! at once do not both take the same idle server. Cost: one pass over the servers.

use super::least::{ServerLoad, choose_least};
use super::rotation::{Rotation, RotationStart};
use super::{BalancerChoice, BalancerPeer};

#[derive(Debug)]
pub(super) struct LeastRequests {
    rotation: Rotation,
}

impl LeastRequests {
    pub(super) fn new(peers: &[BalancerPeer], start: RotationStart) -> LeastRequests {
        LeastRequests { rotation: Rotation::new(peers, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.rotation.clock()
    }

    /// Chooses among the peers that are `allowed`.
    #[inline]
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        allowed: impl Fn(&BalancerPeer) -> bool,
    ) -> BalancerChoice {
        choose_least(&self.rotation, peers, allowed, |peer, share| ServerLoad {
            in_flight: peer.state.in_flight(),
            share,
        })
    }

    /// Which of two equally loaded servers comes first, relative to the others: smaller is sooner.
    pub(super) fn order(&self, peer: &BalancerPeer) -> i64 {
        self.rotation.place(peer)
    }
}
