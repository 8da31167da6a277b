//! Round robin: every server in its turn, in proportion to the weights, smoothly interleaved.
//!
//! All workers take from one rotation. A server that is down, full or excluded is passed over and its share
//! goes to all others in proportion, not to its neighbour in the list. Cost: one pass over the servers.

use super::rotation::{Rotation, RotationPlace, RotationStart};
use super::{BalancerChoice, BalancerPeer};

#[derive(Debug)]
pub(super) struct RoundRobin {
    rotation: Rotation,
}

/// The server whose turn comes first so far; a share of 0 when there is none yet.
struct NextInRotation<'a> {
    peer: &'a BalancerPeer,
    share: u32,
    place: RotationPlace,
}

impl RoundRobin {
    pub(super) fn new(peers: &[BalancerPeer], start: RotationStart) -> RoundRobin {
        RoundRobin { rotation: Rotation::new(peers, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.rotation.clock()
    }

    /// Chooses among the peers that are `allowed`. Lock-free: the loop goes round again only because another
    /// worker took the same turn or the last slot, or to mend turns after a change of weights or an
    /// absence.
    #[inline]
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        allowed: impl Fn(&BalancerPeer) -> bool,
    ) -> BalancerChoice {
        let Some(any) = peers.first() else { return BalancerChoice::NoneEligible };
        let mut may_mend = true;
        loop {
            let clock = self.rotation.clock();
            let mut next = NextInRotation { peer: any, share: 0, place: RotationPlace::LAST };
            let (mut some_full, mut some_too_far) = (false, false);
            for peer in peers {
                let share = peer.state.share();
                if share == 0 || !allowed(peer) {
                    continue;
                }
                if peer.state.is_full() {
                    some_full = true;
                    continue;
                }
                let place = RotationPlace::new(clock, &peer.state);
                some_too_far |= place.is_too_far(share);
                if place < next.place {
                    next = NextInRotation { peer, share, place };
                }
            }
            let NextInRotation { peer, share, place } = next;
            if may_mend && (some_too_far || place.is_long_past(&peer.state)) {
                may_mend = false;
                self.rotation.mend(peers);
                continue;
            }
            if share == 0 {
                return BalancerChoice::without_server(some_full);
            }
            // The turn first: a slot taken and given back could make another worker believe that all are
            // full.
            if self.rotation.claim(&peer.state, clock, place, share) && peer.state.try_acquire() {
                return BalancerChoice::Server(peer.id);
            }
        }
    }

    /// When the server comes, relative to the others: smaller is sooner.
    pub(super) fn order(&self, peer: &BalancerPeer) -> i64 {
        self.rotation.place(peer)
    }
}
