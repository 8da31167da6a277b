//! Turns at a steady rate: each caller gets the time of its turn, and waits.
//!
//! One number, the time of the next turn (the generic cell rate algorithm, ITU-T I.371, without a burst), so that threads need no
//! lock. Must not read a clock.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns at a rate per second.
#[derive(Debug)]
pub struct TurnRate {
    cost_ns: u64,
    next_ns: AtomicU64,
}

impl TurnRate {
    /// `per_second` turns, evenly spread.
    pub fn new(per_second: NonZeroU32) -> TurnRate {
        TurnRate { cost_ns: 1_000_000_000 / u64::from(per_second.get()), next_ns: AtomicU64::new(0) }
    }

    /// Takes the next turn, which is `now_ns` or later; `None`, and nothing is taken, when it is later than `latest_ns`. All are
    /// nanoseconds of one clock.
    pub fn try_take(&self, now_ns: u64, latest_ns: u64) -> Option<u64> {
        let mut turn_ns = 0;
        let taken = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next_ns| {
            turn_ns = next_ns.max(now_ns);
            (turn_ns <= latest_ns).then(|| turn_ns + self.cost_ns)
        });
        taken.is_ok().then_some(turn_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spread_and_given_up_to_the_time_limit_of_the_caller() {
        let turns = TurnRate::new(NonZeroU32::new(1000).unwrap());
        let ms = 1_000_000;
        assert_eq!(turns.try_take(5 * ms, 10 * ms), Some(5 * ms));
        assert_eq!(turns.try_take(5 * ms, 10 * ms), Some(6 * ms));
        assert_eq!(turns.try_take(5 * ms, 6 * ms), None, "the next turn is at 7 ms");
        assert_eq!(turns.try_take(5 * ms, 7 * ms), Some(7 * ms), "nothing was taken");
        assert_eq!(
            turns.try_take(50 * ms, 60 * ms),
            Some(50 * ms),
            "turns that were not taken are not saved up"
        );
        assert_eq!(turns.try_take(50 * ms, 60 * ms), Some(51 * ms));
    }
}
