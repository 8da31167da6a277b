//! Turns: fair, weighted rotation over servers without a lock.
//!
//! Every server has a turn, a point in virtual time; the server with the earliest turn goes next and its turn
//! moves on by its stride, which is short for heavy servers. The clock is the turn of the last choice. This
//! is start-time fair queueing (Goyal, Vin, Cheng 1996): shares are exact over any stretch of time, weights
//! may change at any moment, and what an absent server does not take is spread over all others. A server that was
//! away for a round or more is back at a random place of the next one: with many balancers, each of which has it
//! next, all of them would send it a request at once (decision 149). Round robin is this and nothing else; least
//! requests breaks ties with it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::BalancerPeer;
use crate::hash::mix;
use crate::server::{RAMP_FULL, ServerState};

/// The stride of a share of one, the longest there is. A power of two far above the largest share (2^16), so
/// that rounding a stride down costs less than one part in 2^24.
const STRIDE_MAX: u64 = 1 << 40;

/// Where a rotation begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct RotationStart {
    /// Decides which server is first.
    pub(super) seed: u64,
    /// The clock that it continues; `None`: a new one.
    pub(super) clock: Option<u64>,
}

/// The virtual clock of one upstream, on a cache line of its own: each choice writes it, and reads the fields beside it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Rotation {
    clock: AtomicU64,
    /// Decides where servers that were away come in.
    seed: u64,
}

impl Rotation {
    /// A clock for `peers`, with their turns spread over one round. `seed` decides which server is first, so that a
    /// thousand balancers started at once do not all begin with the same server, and in which order they follow: neighbours in
    /// the list are often in the same rack, and the next in turn is where a retry goes (decision 151).
    ///
    /// When it continues another clock, servers that were there before keep their turns.
    pub(super) fn new(peers: &[BalancerPeer], start: RotationStart) -> Rotation {
        let step = u64::MAX / (peers.len() as u64).max(1);
        let clock = start.clock.unwrap_or(0);
        let mut phase = start.seed;
        let mut shuffled: Vec<&BalancerPeer> = peers.iter().collect();
        shuffled.sort_unstable_by_key(|peer| mix(start.seed ^ peer.key));
        for peer in shuffled {
            let is_known = start.clock.is_some() && peer.state.turn().load(Ordering::Relaxed) != 0;
            if !is_known {
                let offset = (u128::from(phase) * u128::from(stride(peer.state.share().max(1)))) >> 64;
                peer.state.turn().store(clock.wrapping_add(offset as u64), Ordering::Relaxed);
            }
            phase = phase.wrapping_add(step);
        }
        Rotation { clock: AtomicU64::new(clock), seed: start.seed }
    }

    #[inline]
    pub(super) fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Where the server in `peer` stands now, relative to the others; with its new turn if the next choice would give it one.
    pub(super) fn place(&self, peer: &BalancerPeer) -> i64 {
        let turn = peer.state.turn().load(Ordering::Relaxed);
        let clock = self.clock();
        self.new_turn(peer, turn, clock).unwrap_or(turn).wrapping_sub(clock) as i64
    }

    /// Moves the server's turn on by one stride; false when another worker was faster. A server that was
    /// passed over for less than a round starts from now: it goes first once but does not make up for what it missed.
    #[inline]
    pub(super) fn claim(&self, state: &ServerState, clock: u64, place: RotationPlace, share: u32) -> bool {
        let turn = clock.wrapping_add(place.0 as u64);
        let start = clock.wrapping_add(place.0.max(0) as u64);
        let next = start.wrapping_add(stride(share));
        if state.turn().compare_exchange(turn, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        self.advance(clock, start);
        true
    }

    /// Moves the clock forward to `to`, never back.
    #[inline]
    fn advance(&self, mut clock: u64, to: u64) {
        while to.wrapping_sub(clock) as i64 > 0 {
            match self.clock.compare_exchange_weak(clock, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => clock = newer,
            }
        }
    }

    /// Gives all servers whose turns are more than a round away from the clock a random turn within the next one. Such a server
    /// was away, or full, for longer than a round; or its weight was raised since, and its turn is at the end of the long stride
    /// of before; or its turn comes from another age of the clock (away for days, a new config). While weights rise step by step
    /// (slow start), those that are cut off are drawn again, so that the turns stay evenly spread over the round.
    #[cold]
    pub(super) fn mend(&self, peers: &[BalancerPeer]) {
        for peer in peers {
            // The turn before the clock: with a clock of before, after which other workers went on, each turn would be far ahead, and
            // its server would get in a row what the others chose meanwhile.
            let turn = peer.state.turn().load(Ordering::Acquire);
            let Some(mended) = self.new_turn(peer, turn, self.clock()) else { continue };
            // When another worker was faster, its value is as good.
            let _ = peer.state.turn().compare_exchange(turn, mended, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The turn that replaces one too far from the clock; `None` when it is near enough, or the server takes no requests.
    fn new_turn(&self, peer: &BalancerPeer, turn: u64, clock: u64) -> Option<u64> {
        let share = peer.state.share();
        let place = RotationPlace(turn.wrapping_sub(clock) as i64);
        if share == 0 || !(place.is_too_far(share) || place.is_long_past(&peer.state)) {
            return None;
        }
        let random = mix(self.seed ^ peer.key ^ turn);
        let offset = (u128::from(random) * u128::from(stride(share))) >> 64;
        Some(clock.wrapping_add(offset as u64))
    }
}

/// A turn relative to the clock: the smallest goes first. Negative: was passed over, by how much.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RotationPlace(i64);

impl RotationPlace {
    /// Behind every server.
    pub(super) const LAST: RotationPlace = RotationPlace(i64::MAX);

    #[inline]
    pub(super) fn new(clock: u64, state: &ServerState) -> RotationPlace {
        RotationPlace(state.turn().load(Ordering::Relaxed).wrapping_sub(clock) as i64)
    }

    /// Whether it is more than one stride ahead, which no turn is by itself: see [`Rotation::mend`].
    #[inline]
    pub(super) fn is_too_far(self, share: u32) -> bool {
        // `place * share > STRIDE_MAX`, in units of 2^20 so that nothing overflows.
        (self.0 >> 20) * i64::from(share) > (STRIDE_MAX >> 20) as i64
    }

    /// Whether the server was passed over for more than a round: see [`Rotation::mend`]. A round by its weight, not by its
    /// share: while it starts slowly, its own rounds are longer than its absence was.
    #[inline]
    pub(super) fn is_long_past(self, state: &ServerState) -> bool {
        (self.0 >> 20) * i64::from(state.weight() * RAMP_FULL) < -((STRIDE_MAX >> 20) as i64)
    }
}

/// How far the turn of a server moves with each request.
#[inline]
fn stride(share: u32) -> u64 {
    STRIDE_MAX / u64::from(share)
}
