//! The server of least cost, whatever the cost is; among equals, the one whose turn it is.
//!
//! The slot is taken only if the server still has the load that was compared: two workers that choose at once do not
//! both take the same idle server. The cost is the load, or a function of it.

use std::cmp::Ordering;

use super::rotation::{Rotation, RotationPlace};
use super::{BalancerChoice, BalancerPeer};

/// The cost of one more request on a server, as seen at one moment.
pub(super) trait Cost: Copy {
    /// More than on any server; its share is 0.
    const INFINITE: Self;

    /// The load that was seen.
    fn load(self) -> ServerLoad;

    /// Which is less.
    fn compare(self, other: Self) -> Ordering;
}

/// A server's load for its share, as seen at one moment.
#[derive(Clone, Copy)]
pub(super) struct ServerLoad {
    pub(super) in_flight: u32,
    pub(super) share: u32,
}

impl Cost for ServerLoad {
    const INFINITE: ServerLoad = ServerLoad { in_flight: 1, share: 0 };

    #[inline]
    fn load(self) -> ServerLoad {
        self
    }

    /// Compares `in_flight / share` of both exactly.
    #[inline]
    fn compare(self, other: ServerLoad) -> Ordering {
        let ours = u64::from(self.in_flight) * u64::from(other.share);
        let theirs = u64::from(other.in_flight) * u64::from(self.share);
        ours.cmp(&theirs)
    }
}

/// The server of least cost so far.
struct Least<'a, C> {
    peer: &'a BalancerPeer,
    cost: C,
    place: RotationPlace,
}

/// Chooses among the peers that are `allowed`, where `cost_of` tells the cost of a peer from its share. Lock-free: the
/// loop goes round again only because another worker changed the load of the chosen server, or to mend turns after a
/// change of weights or an absence.
#[inline]
pub(super) fn choose_least<C: Cost>(
    rotation: &Rotation,
    peers: &[BalancerPeer],
    allowed: impl Fn(&BalancerPeer) -> bool,
    cost_of: impl Fn(&BalancerPeer, u32) -> C,
) -> BalancerChoice {
    let any = match peers {
        [] => return BalancerChoice::NoneEligible,
        [only] => return choose_only(only, allowed),
        [first, ..] => first,
    };
    let mut may_mend = true;
    loop {
        let clock = rotation.clock();
        let mut least = Least { peer: any, cost: C::INFINITE, place: RotationPlace::LAST };
        let (mut some_full, mut some_too_far) = (false, false);
        for peer in peers {
            let share = peer.state.share();
            if share == 0 || !allowed(peer) {
                continue;
            }
            let cost = cost_of(peer, share);
            if peer.state.is_limit(cost.load().in_flight) {
                some_full = true;
                continue;
            }
            let place = RotationPlace::new(clock, &peer.state);
            some_too_far |= place.is_too_far(share);
            if cost.compare(least.cost).then(place.cmp(&least.place)).is_lt() {
                least = Least { peer, cost, place };
            }
        }
        let Least { peer, cost, place } = least;
        let load = cost.load();
        if may_mend && (some_too_far || place.is_long_past(&peer.state)) {
            may_mend = false;
            rotation.mend(peers);
            continue;
        }
        if load.share == 0 {
            return BalancerChoice::without_server(some_full);
        }
        if peer.state.try_acquire_at(load.in_flight) {
            // When this fails, another worker has just moved the turn: the order among equals is theirs.
            rotation.claim(&peer.state, clock, place, load.share);
            return BalancerChoice::Server(peer.id);
        }
    }
}

/// The same where there is one server: nothing to compare, and no turns.
#[inline]
fn choose_only(peer: &BalancerPeer, allowed: impl Fn(&BalancerPeer) -> bool) -> BalancerChoice {
    if peer.state.share() == 0 || !allowed(peer) {
        return BalancerChoice::NoneEligible;
    }
    if peer.state.try_acquire() { BalancerChoice::Server(peer.id) } else { BalancerChoice::AllFull }
}
