//! Least requests: the server with the fewest requests in flight for its weight. The default.
//!
//! Loads are compared as fractions by cross-multiplication, so nothing is lost to rounding, and over all workers, because they
//! count in the same place. Equal servers take turns by weight, so idle servers share evenly. The slot is taken only if the
//! server still has the load that was compared: two workers that choose at once do not both take the same idle server.
//! Cost: one pass over the servers.

use super::rotation::{Rotation, Turn};
use super::{Choice, Pick, Seat};
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct LeastRequests {
    rotation: Rotation,
}

/// A server's load for its share, as seen at one moment.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) in_flight: u32,
    pub(super) share: u32,
}

impl Load {
    /// Compares `in_flight / share` of both exactly.
    pub(super) fn compare(self, other: Load) -> Ordering {
        let ours = u64::from(self.in_flight) * u64::from(other.share);
        let theirs = u64::from(other.in_flight) * u64::from(self.share);
        ours.cmp(&theirs)
    }
}

impl LeastRequests {
    pub(super) fn new(seats: &[Seat], seed: u64) -> LeastRequests {
        LeastRequests { rotation: Rotation::new(seats, seed) }
    }

    /// Lock-free: the loop goes round again only because another worker changed the load of the chosen server.
    pub(super) fn choose(&self, seats: &[Seat], pick: &Pick<'_>) -> Choice {
        loop {
            let clock = self.rotation.clock();
            let mut least: Option<(&Seat, Load, Turn)> = None;
            let mut some_full = false;
            for seat in seats {
                let share = seat.share_for(pick);
                if share == 0 {
                    continue;
                }
                let load = Load { in_flight: seat.state.in_flight(), share };
                if seat.state.is_limit(load.in_flight) {
                    some_full = true;
                    continue;
                }
                let turn = Rotation::turn_of(clock, &seat.state, share);
                let before = least.is_none_or(|(_, least_load, first)| {
                    load.compare(least_load).then(turn.place.cmp(&first.place)).is_lt()
                });
                if before {
                    least = Some((seat, load, turn));
                }
            }
            let Some((seat, load, turn)) = least else { return Choice::without_server(some_full) };
            if seat.state.try_acquire_at(load.in_flight) {
                // When this fails, another worker has just moved the turn: the order among equals is theirs.
                self.rotation.claim(&seat.state, turn);
                return Choice::Server(seat.id);
            }
        }
    }
    /// Which of two equally loaded servers comes first, relative to the others: smaller is sooner.
    pub(super) fn order(&self, seat: &Seat) -> i64 {
        self.rotation.place(seat)
    }
}
