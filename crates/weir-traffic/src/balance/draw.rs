//! Drawing servers at random in proportion to their weights, without a table that a changed weight would spoil.
//!
//! A server is drawn with equal chances and kept with a chance of its share over the largest share; what is kept is distributed
//! exactly by weight. A few misses are normal; after many, one pass over all servers decides, with the same distribution.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Choice, Pick, Seat};
use crate::hash::mix;

/// Draws before the servers are counted through. With equal weights and all servers available the first draw is kept.
const DRAWS_MAX: u32 = 16;

/// A stream of random words grown from one (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, each as likely as the other to within `bound` parts in 2^64.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The drum the servers are drawn from.
#[derive(Debug)]
pub(super) struct Drum {
    /// The largest share seen so far. It only grows: one too large costs misses, never fairness.
    share_max: AtomicU32,
}

impl Drum {
    pub(super) fn new(seats: &[Seat]) -> Drum {
        let share_max = seats.iter().map(|seat| seat.state.share()).max().unwrap_or(0);
        Drum { share_max: AtomicU32::new(share_max.max(1)) }
    }

    /// One available server by weight, other than `not`. `Err` tells why there is none.
    pub(super) fn draw<'a>(
        &self,
        seats: &'a [Seat],
        pick: &Pick<'_>,
        not: Option<&Seat>,
        random: &mut Random,
    ) -> Result<&'a Seat, Choice> {
        for _ in 0..DRAWS_MAX {
            if seats.is_empty() {
                break;
            }
            let seat = &seats[random.below(seats.len() as u64) as usize];
            let share = available_share(seat, pick, not);
            let share_max = self.share_max.load(Ordering::Relaxed);
            if share > share_max {
                self.share_max.fetch_max(share, Ordering::Relaxed);
            }
            if share >= share_max || random.below(u64::from(share_max)) < u64::from(share) {
                return Ok(seat);
            }
        }
        count_through(seats, pick, not, random)
    }
}

/// The exact weighted draw over all available servers: one pass to sum, one to find.
fn count_through<'a>(
    seats: &'a [Seat],
    pick: &Pick<'_>,
    not: Option<&Seat>,
    random: &mut Random,
) -> Result<&'a Seat, Choice> {
    let total: u64 = seats.iter().map(|seat| u64::from(available_share(seat, pick, not))).sum();
    if total > 0 {
        let mut left = random.below(total);
        let mut last = None;
        for seat in seats {
            let share = u64::from(available_share(seat, pick, not));
            if share > left {
                return Ok(seat);
            }
            if share > 0 {
                last = Some(seat);
            }
            left -= share;
        }
        // Shares shrank between the two passes: the last one that is still available will do.
        if let Some(seat) = last {
            return Ok(seat);
        }
    }
    let some_full = seats.iter().any(|seat| seat.share_for(pick) > 0 && !is_seat(seat, not));
    Err(Choice::without_server(some_full))
}

/// The share of a server that can take this request now, else 0.
fn available_share(seat: &Seat, pick: &Pick<'_>, not: Option<&Seat>) -> u32 {
    let share = seat.share_for(pick);
    if share == 0 || is_seat(seat, not) || seat.state.is_full() { 0 } else { share }
}

fn is_seat(seat: &Seat, other: Option<&Seat>) -> bool {
    other.is_some_and(|other| other.id == seat.id)
}
