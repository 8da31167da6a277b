//! Whose turn is it: fair, weighted rotation over servers without a lock.
//!
//! Every server has a turn, a point in virtual time; the server with the earliest turn goes next and its turn moves on by
//! its stride, which is short for heavy servers. The clock is the turn of the last choice. This is start-time fair queueing
//! (Goyal, Vin, Cheng 1996): shares are exact over any stretch of time, weights may change at any moment, and what an absent
//! server does not take is spread over all others. Round robin is this and nothing else; least requests breaks ties with it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Seat;
use crate::server::ServerState;

/// The stride of a share of one, the longest there is. A power of two far above the largest share (2^16), so that rounding
/// a stride down costs less than one part in 2^24.
const STRIDE_MAX: u64 = 1 << 40;

/// The virtual clock of one upstream.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Rotation {
    clock: AtomicU64,
}

/// A server's claim to go next, as seen at one moment.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    clock: u64,
    turn: u64,
    share: u32,
    /// Turn relative to the clock: the smallest goes first. Negative: was passed over, by how much.
    pub(super) place: i64,
}

impl Rotation {
    /// A clock for `seats`, with their turns spread over one round. `seed` decides who is first, so that a thousand balancers
    /// started at once do not all begin with the same server.
    pub(super) fn new(seats: &[Seat], seed: u64) -> Rotation {
        let step = u64::MAX / (seats.len() as u64).max(1);
        let mut phase = seed;
        for seat in seats {
            let stride = STRIDE_MAX / u64::from(seat.state.share().max(1));
            let offset = (u128::from(phase) * u128::from(stride)) >> 64;
            seat.state.turn().store(offset as u64, Ordering::Relaxed);
            phase = phase.wrapping_add(step);
        }
        Rotation { clock: AtomicU64::new(0) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Where `state` stands at `clock`. `share` is its share, above 0.
    pub(super) fn turn_of(clock: u64, state: &ServerState, share: u32) -> Turn {
        let mut turn = state.turn().load(Ordering::Relaxed);
        let mut place = turn.wrapping_sub(clock) as i64;
        // No turn is further ahead than one stride, unless the weight was raised since (then the long stride is cut short) or it comes from
        // another age of the clock (a server away for days, a new config: it goes next).
        if place > STRIDE_MAX as i64 {
            place = i64::MIN;
        } else if place > 0 && place as u64 * u64::from(share) > STRIDE_MAX {
            place = (STRIDE_MAX / u64::from(share)) as i64;
            let cut = clock.wrapping_add(place as u64);
            // When another worker was faster, its value is as good.
            match state.turn().compare_exchange(turn, cut, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => turn = cut,
                Err(newer) => turn = newer,
            }
        }
        Turn { clock, turn, share, place }
    }

    /// Where the server in `seat` stands now: the smallest goes first.
    pub(super) fn place(&self, seat: &Seat) -> i64 {
        Rotation::turn_of(self.clock(), &seat.state, seat.state.share().max(1)).place
    }

    /// Moves the server's turn on by one stride; false when another worker was faster. A server that was passed over starts from
    /// now: it goes first once but does not make up for what it missed.
    pub(super) fn claim(&self, state: &ServerState, seen: Turn) -> bool {
        let start = seen.clock.wrapping_add(seen.place.max(0) as u64);
        let next = start.wrapping_add(STRIDE_MAX / u64::from(seen.share));
        if state.turn().compare_exchange(seen.turn, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        self.advance(seen.clock, start);
        true
    }

    /// Moves the clock forward to `to`, never back.
    fn advance(&self, mut clock: u64, to: u64) {
        while to.wrapping_sub(clock) as i64 > 0 {
            match self.clock.compare_exchange_weak(clock, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => clock = newer,
            }
        }
    }
}
