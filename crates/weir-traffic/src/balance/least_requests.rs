//! Least requests: the server with the fewest requests in flight for its weight. The default.
//!
//! Loads are compared as fractions by cross-multiplication, so nothing is lost to rounding, and over all
//! workers, because they count in the same place. Equal servers take turns by weight, so idle servers share
//! evenly. The slot is taken only if the server still has the load that was compared: two workers that choose
//! at once do not both take the same idle server. Cost: one pass over the servers.

use std::cmp::Ordering;

use super::rotation::{Place, Rotation};
use super::{Choice, Seat};

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

/// The server with the least load so far.
struct Least<'a> {
    seat: &'a Seat,
    load: Load,
    place: Place,
}

impl Load {
    /// More than any server has.
    const INFINITE: Load = Load { in_flight: 1, share: 0 };

    /// Compares `in_flight / share` of both exactly.
    #[inline]
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

    /// Chooses among the seats that are `allowed`. Lock-free: the loop goes round again only because another
    /// worker changed the load of the chosen server, or to mend turns after a change of weights.
    #[inline]
    pub(super) fn choose(&self, seats: &[Seat], allowed: impl Fn(&Seat) -> bool) -> Choice {
        let Some(any) = seats.first() else { return Choice::NoneEligible };
        let mut may_mend = true;
        loop {
            let clock = self.rotation.clock();
            let mut least = Least { seat: any, load: Load::INFINITE, place: Place::LAST };
            let (mut some_full, mut some_too_far) = (false, false);
            for seat in seats {
                let share = seat.state.share();
                if share == 0 || !allowed(seat) {
                    continue;
                }
                let load = Load { in_flight: seat.state.in_flight(), share };
                if seat.state.is_limit(load.in_flight) {
                    some_full = true;
                    continue;
                }
                let place = Place::of(clock, &seat.state);
                some_too_far |= place.is_too_far(share);
                if load.compare(least.load).then(place.cmp(&least.place)).is_lt() {
                    least = Least { seat, load, place };
                }
            }
            if some_too_far && may_mend {
                may_mend = false;
                self.rotation.mend(seats);
                continue;
            }
            let Least { seat, load, place } = least;
            if load.share == 0 {
                return Choice::without_server(some_full);
            }
            if seat.state.try_acquire_at(load.in_flight) {
                // When this fails, another worker has just moved the turn: the order among equals is theirs.
                self.rotation.claim(&seat.state, clock, place, load.share);
                return Choice::Server(seat.id);
            }
        }
    }

    /// Which of two equally loaded servers comes first, relative to the others: smaller is sooner.
    pub(super) fn order(&self, seat: &Seat) -> i64 {
        self.rotation.place(seat)
    }
}
