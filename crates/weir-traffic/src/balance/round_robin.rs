//! Round robin: every server in its turn, in proportion to the weights, smoothly interleaved.
//!
//! All workers take from one rotation. A server that is down, full or excluded is passed over and its share goes to
//! all others in proportion, not to its neighbour in the list. Cost: one pass over the servers.

use super::rotation::{Rotation, Turn};
use super::{Choice, Pick, Seat};

#[derive(Debug)]
pub(super) struct RoundRobin {
    rotation: Rotation,
}

impl RoundRobin {
    pub(super) fn new(seats: &[Seat], seed: u64) -> RoundRobin {
        RoundRobin { rotation: Rotation::new(seats, seed) }
    }

    /// Lock-free: the loop goes round again only because another worker took the same turn or the last slot.
    pub(super) fn choose(&self, seats: &[Seat], pick: &Pick<'_>) -> Choice {
        loop {
            let clock = self.rotation.clock();
            let mut next: Option<(&Seat, Turn)> = None;
            let mut some_full = false;
            for seat in seats {
                let share = seat.share_for(pick);
                if share == 0 {
                    continue;
                }
                if seat.state.is_full() {
                    some_full = true;
                    continue;
                }
                let turn = Rotation::turn_of(clock, &seat.state, share);
                if next.is_none_or(|(_, first)| turn.place < first.place) {
                    next = Some((seat, turn));
                }
            }
            let Some((seat, turn)) = next else { return Choice::without_server(some_full) };
            // The turn first: a slot taken and given back could make another worker believe that all are full.
            if self.rotation.claim(&seat.state, turn) && seat.state.try_acquire() {
                return Choice::Server(seat.id);
            }
        }
    }

    /// When the server comes, relative to the others: smaller is sooner.
    pub(super) fn order(&self, seat: &Seat) -> i64 {
        self.rotation.place(seat)
    }
}
