//! Random: one server drawn by weight. No memory, no coordination, and the unevenness of chance.
//!
//! Good where many balancers share many servers and none sees the load of the others. Cost: one draw.

use super::draw::{Drum, Random};
use super::{Choice, Pick, Seat};

#[derive(Debug)]
pub(super) struct WeightedRandom {
    drum: Drum,
}

impl WeightedRandom {
    pub(super) fn new(seats: &[Seat]) -> WeightedRandom {
        WeightedRandom { drum: Drum::new(seats) }
    }

    /// Goes round again only when another worker took the last slot of the drawn server.
    pub(super) fn choose(&self, seats: &[Seat], pick: &Pick<'_>) -> Choice {
        let mut random = Random::new(pick.random);
        loop {
            match self.drum.draw(seats, pick, None, &mut random) {
                Ok(at) if seats[at].state.try_acquire() => return Choice::Server(seats[at].id),
                Ok(_) => {}
                Err(choice) => return choice,
            }
        }
    }
}
