//! Random: one server drawn by weight. No memory, no coordination, and the unevenness of chance.
//!
//! Good where many balancers share many servers and none sees the load of the others. Cost: one draw.

use super::draw::{SplitMix64, WeightedDraw};
use super::{BalancerChoice, BalancerPeer};

#[derive(Debug)]
pub(super) struct WeightedRandom {
    drum: WeightedDraw,
}

impl WeightedRandom {
    pub(super) fn new(peers: &[BalancerPeer]) -> WeightedRandom {
        WeightedRandom { drum: WeightedDraw::new(peers) }
    }

    /// Chooses among the peers that are `allowed` with `word` as the source of chance. Goes round again only
    /// when another worker took the last slot of the drawn server.
    #[inline]
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        word: u64,
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
    ) -> BalancerChoice {
        let mut random = SplitMix64::new(word);
        loop {
            match self.drum.draw(peers, allowed, None, &mut random) {
                Ok(at) if peers[at].state.try_acquire() => return BalancerChoice::Server(peers[at].id),
                Ok(_) => {}
                Err(choice) => return choice,
            }
        }
    }
}
