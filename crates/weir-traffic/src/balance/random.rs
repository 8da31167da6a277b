//! Random: one server drawn by weight. No memory, no coordination, and the unevenness of chance.
//!
//! Good where many balancers share many servers and none sees the load of the others. Cost: one draw.

use super::draw::{Drum, Random};
use super::{Choice, Seat};

#[derive(Debug)]
pub(super) struct WeightedRandom {
    drum: Drum,
}

impl WeightedRandom {
    pub(super) fn new(seats: &[Seat]) -> WeightedRandom {
        WeightedRandom { drum: Drum::new(seats) }
    }

    /// Chooses among the seats that are `allowed` with `word` as the source of chance. Goes round again only
    /// when another worker took the last slot of the drawn server.
    #[inline]
    pub(super) fn choose(&self, seats: &[Seat], word: u64, allowed: impl Fn(&Seat) -> bool + Copy) -> Choice {
        let mut random = Random::new(word);
        loop {
            match self.drum.draw(seats, allowed, None, &mut random) {
                Ok(at) if seats[at].state.try_acquire() => return Choice::Server(seats[at].id),
                Ok(_) => {}
                Err(choice) => return choice,
            }
        }
    }
}
