//! Power of two choices: two servers drawn by weight, and the less loaded of them.
//!
//! Nearly as even as least requests at a cost that does not grow with the number of servers, and without the
//! herd that many balancers make when all of them see the same least loaded server (Mitzenmacher 2001). Cost:
//! two draws.

use super::draw::{Drum, Random};
use super::least::{Cost as _, Load};
use super::{Choice, Seat};

#[derive(Debug)]
pub(super) struct PowerOfTwo {
    drum: Drum,
}

impl PowerOfTwo {
    pub(super) fn new(seats: &[Seat]) -> PowerOfTwo {
        PowerOfTwo { drum: Drum::new(seats) }
    }

    /// Chooses among the seats that are `allowed` with `word` as the source of chance. Goes round again only
    /// when another worker took the last slot of the preferred server.
    #[inline]
    pub(super) fn choose(&self, seats: &[Seat], word: u64, allowed: impl Fn(&Seat) -> bool + Copy) -> Choice {
        let mut random = Random::new(word);
        loop {
            let first = match self.drum.draw(seats, allowed, None, &mut random) {
                Ok(at) => at,
                Err(choice) => return choice,
            };
            let second = self.drum.draw(seats, allowed, Some(first), &mut random).unwrap_or(first);
            let (first, second) = (&seats[first], &seats[second]);
            let better = if load(second).compare(load(first)).is_lt() { second } else { first };
            if better.state.try_acquire() {
                return Choice::Server(better.id);
            }
        }
    }
}

/// A server that became ineligible since it was drawn has a share of 0, which would compare as no load at
/// all.
fn load(seat: &Seat) -> Load {
    Load { in_flight: seat.state.in_flight(), share: seat.state.share().max(1) }
}
