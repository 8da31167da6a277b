//! Peak EWMA: the server on which a request is likely to be answered first, by latency times load.
//!
//! The latency of a server is its moving average, which a slow response raises at once; times the requests that it
//! would have, divided by its share, that is the time to wait. A server that has not answered yet gets one request
//! at a time; one that was slow is tried again when the memory of it has faded. Cost: one pass over the servers.

use std::cmp::Ordering;

use super::rotation::{Place, Rotation};
use super::{Choice, Seat};

/// Taken for the latency of a server that has a request and never answered one, in microseconds: longer than most, so
/// that a new server is not flooded before it shows what it can do.
const UNKNOWN_US: u32 = 1_000_000;

#[derive(Debug)]
pub(super) struct PeakEwma {
    rotation: Rotation,
}

/// What one more request on a server would cost, as seen at one moment.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    latency_us: u32,
    in_flight: u32,
    share: u32,
}

impl Cost {
    /// More than on any server.
    const INFINITE: Cost = Cost { latency_us: 1, in_flight: 1, share: 0 };

    #[inline]
    pub(super) fn of(seat: &Seat, share: u32, now_ms: u64) -> Cost {
        let in_flight = seat.state.in_flight();
        let latency_us = match seat.state.latency().at(now_ms) {
            0 if in_flight > 0 => UNKNOWN_US,
            latency_us => latency_us,
        };
        Cost { latency_us, in_flight, share }
    }

    /// Compares `latency * (in flight + 1) / share` of both exactly.
    #[inline]
    pub(super) fn compare(self, other: Cost) -> Ordering {
        let product = |cost: Cost, share: u32| {
            u128::from(cost.latency_us) * (u128::from(cost.in_flight) + 1) * u128::from(share)
        };
        product(self, other.share).cmp(&product(other, self.share))
    }
}

impl PeakEwma {
    pub(super) fn new(seats: &[Seat], seed: u64) -> PeakEwma {
        PeakEwma { rotation: Rotation::new(seats, seed) }
    }

    /// Chooses among the seats that are `allowed`. Lock-free: the loop goes round again only because another
    /// worker changed the load of the chosen server, or to mend turns after a change of weights.
    #[inline]
    pub(super) fn choose(&self, seats: &[Seat], now_ms: u64, allowed: impl Fn(&Seat) -> bool) -> Choice {
        let Some(any) = seats.first() else { return Choice::NoneEligible };
        let mut may_mend = true;
        loop {
            let clock = self.rotation.clock();
            let mut best = (any, Cost::INFINITE, Place::LAST);
            let (mut some_full, mut some_too_far) = (false, false);
            for seat in seats {
                let share = seat.state.share();
                if share == 0 || !allowed(seat) {
                    continue;
                }
                let cost = Cost::of(seat, share, now_ms);
                if seat.state.is_limit(cost.in_flight) {
                    some_full = true;
                    continue;
                }
                let place = Place::of(clock, &seat.state);
                some_too_far |= place.is_too_far(share);
                if cost.compare(best.1).then(place.cmp(&best.2)).is_lt() {
                    best = (seat, cost, place);
                }
            }
            if some_too_far && may_mend {
                may_mend = false;
                self.rotation.mend(seats);
                continue;
            }
            let (seat, cost, place) = best;
            if cost.share == 0 {
                return Choice::without_server(some_full);
            }
            if seat.state.try_acquire_at(cost.in_flight) {
                self.rotation.claim(&seat.state, clock, place, cost.share);
                return Choice::Server(seat.id);
            }
        }
    }

    /// Which of two servers of equal cost comes first, relative to the others: smaller is sooner.
    pub(super) fn order(&self, seat: &Seat) -> i64 {
        self.rotation.place(seat)
    }
}
