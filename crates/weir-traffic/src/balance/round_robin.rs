//! Round robin: every server in its turn, in proportion to the weights, smoothly interleaved.
//!
//! All workers take from one rotation. A server that is down, full or excluded is passed over and its share
//! goes to all others in proportion, not to its neighbour in the list. Cost: one pass over the servers.

use super::rotation::{Place, Rotation, Start};
use super::{Choice, Seat};

#[derive(Debug)]
pub(super) struct RoundRobin {
    rotation: Rotation,
}

/// The server whose turn comes first so far; a share of 0 when there is none yet.
struct Next<'a> {
    seat: &'a Seat,
    share: u32,
    place: Place,
}

impl RoundRobin {
    pub(super) fn new(seats: &[Seat], start: Start) -> RoundRobin {
        RoundRobin { rotation: Rotation::new(seats, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.rotation.clock()
    }

    /// Chooses among the seats that are `allowed`. Lock-free: the loop goes round again only because another
    /// worker took the same turn or the last slot, or to mend turns after a change of weights.
    #[inline]
    pub(super) fn choose(&self, seats: &[Seat], allowed: impl Fn(&Seat) -> bool) -> Choice {
        let Some(any) = seats.first() else { return Choice::NoneEligible };
        let mut may_mend = true;
        loop {
            let clock = self.rotation.clock();
            let mut next = Next { seat: any, share: 0, place: Place::LAST };
            let (mut some_full, mut some_too_far) = (false, false);
            for seat in seats {
                let share = seat.state.share();
                if share == 0 || !allowed(seat) {
                    continue;
                }
                if seat.state.is_full() {
                    some_full = true;
                    continue;
                }
                let place = Place::of(clock, &seat.state);
                some_too_far |= place.is_too_far(share);
                if place < next.place {
                    next = Next { seat, share, place };
                }
            }
            if some_too_far && may_mend {
                may_mend = false;
                self.rotation.mend(seats);
                continue;
            }
            let Next { seat, share, place } = next;
            if share == 0 {
                return Choice::without_server(some_full);
            }
            // The turn first: a slot taken and given back could make another worker believe that all are
            // full.
            if self.rotation.claim(&seat.state, clock, place, share) && seat.state.try_acquire() {
                return Choice::Server(seat.id);
            }
        }
    }

    /// When the server comes, relative to the others: smaller is sooner.
    pub(super) fn order(&self, seat: &Seat) -> i64 {
        self.rotation.place(seat)
    }
}
