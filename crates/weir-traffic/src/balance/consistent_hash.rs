//! Consistent hash with bounded load: a key keeps its server while that server is there and not overloaded.
//!
//! Weighted rendezvous hashing (Thaler, Ravishankar 1998; weights as in Schindelhauer, Schomaker 2005): each
//! server draws a cost from the key and its own name, the lowest cost wins. When a server goes, its keys
//! alone move and spread over all others by weight; when it comes back it gets exactly those again; a changed
//! weight moves only the difference. There is no ring whose gaps make one server hotter than another, no
//! table to rebuild, and every node agrees. Cost: one or two passes over the servers, as every policy that
//! looks at what each has now; docs/decisions/0018 has the figures.
//!
//! Bounded load (Mirrokni, Thorup, Zadimoghaddam 2016): no server goes above its fair share of the requests
//! in flight times the load factor, so one hot key cannot sink a server; the surplus goes to the key's next
//! server.

use super::least::Load;
use super::least_requests::LeastRequests;
use super::policy::LoadFactor;
use super::rotation::Start;
use super::{Choice, Patience, Seat};
use crate::hash::mix;

#[derive(Debug)]
pub(super) struct ConsistentHash {
    load_factor: LoadFactor,
    /// For requests that have no key.
    keyless: LeastRequests,
}

impl ConsistentHash {
    pub(super) fn new(seats: &[Seat], load_factor: LoadFactor, start: Start) -> ConsistentHash {
        ConsistentHash { load_factor, keyless: LeastRequests::new(seats, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.keyless.clock()
    }

    /// Chooses among the seats that are `allowed`; with `patience` a full server is answered rather than left out.
    /// One pass, two when the key's own server has its share already. Lock-free: beyond that the loop goes round
    /// again only because another worker changed the loads meanwhile.
    #[inline]
    pub(super) fn choose(
        &self,
        seats: &[Seat],
        hash: Option<u64>,
        patience: Patience,
        allowed: impl Fn(&Seat) -> bool + Copy,
    ) -> Choice {
        let (Some(hash), Some(any)) = (hash, seats.first()) else {
            return self.keyless.choose(seats, allowed);
        };
        let mut bound = Bound::NONE;
        loop {
            let mut fresh_bound = Bound::new(self.load_factor);
            let mut first = First { seat: any, cost: 1, load: Load { in_flight: 0, share: 0 } };
            for seat in seats {
                let share = seat.state.share();
                if share == 0 || !allowed(seat) {
                    continue;
                }
                let load = Load { in_flight: seat.state.in_flight(), share };
                fresh_bound.add(load);
                let left_out = patience == Patience::None && seat.state.is_limit(load.in_flight);
                if left_out || !bound.admits(load) {
                    continue;
                }
                let cost = cost(hash, seat.key);
                if cheaper(cost, share, first.cost, first.load.share) {
                    first = First { seat, cost, load };
                }
            }
            if first.load.share == 0 {
                // When every server below the bound is full, one above it is better than none.
                return self.keyless.choose(seats, allowed);
            }
            if !fresh_bound.admits(first.load) {
                bound = fresh_bound;
                continue;
            }
            if first.seat.state.is_limit(first.load.in_flight) {
                return Choice::OwnFull(first.seat.id);
            }
            if first.seat.state.try_acquire_at(first.load.in_flight) {
                return Choice::Server(first.seat.id);
            }
        }
    }

    /// What the servers that are `allowed` may carry now.
    pub(super) fn bound(&self, seats: &[Seat], allowed: impl Fn(&Seat) -> bool) -> Bound {
        let mut bound = Bound::new(self.load_factor);
        for seat in seats.iter().filter(|seat| allowed(seat)) {
            bound.add(Load { in_flight: seat.state.in_flight(), share: seat.state.share() });
        }
        bound
    }
}

/// The server that bids least so far; a share of 0 when there is none yet.
struct First<'a> {
    seat: &'a Seat,
    cost: u32,
    load: Load,
}

/// The load no server may exceed: `percent` of its share of all requests in flight, the one to be placed
/// included.
pub(super) struct Bound {
    /// 0 when there is no bound.
    percent: u32,
    in_flight: u64,
    share: u64,
}

impl Bound {
    pub(super) const NONE: Bound = Bound { percent: 0, in_flight: 1, share: 0 };

    fn new(load_factor: LoadFactor) -> Bound {
        Bound { percent: load_factor.percent().unwrap_or(0), ..Bound::NONE }
    }

    /// Takes a server into account. One without share is none.
    #[inline]
    fn add(&mut self, load: Load) {
        if load.share > 0 {
            self.in_flight += u64::from(load.in_flight);
            self.share += u64::from(load.share);
        }
    }

    /// Whether one more request keeps the server within `ceil(percent% * in_flight * share / total share)`.
    #[inline]
    pub(super) fn admits(&self, load: Load) -> bool {
        if self.percent == 0 {
            return true;
        }
        // One more fits under the rounded-up bound exactly when what is there now is below the bound itself.
        let there = u128::from(load.in_flight) * u128::from(self.share) * 100;
        let allowed = u128::from(self.percent) * u128::from(self.in_flight) * u128::from(load.share);
        there < allowed
    }
}

/// Whether `cost / share` is below `other_cost / other_share`.
fn cheaper(cost: u32, share: u32, other_cost: u32, other_share: u32) -> bool {
    u64::from(cost) * u64::from(other_share) < u64::from(other_cost) * u64::from(share)
}

/// What `server` (the hash of its name) bids for `key`: minus the binary logarithm of a uniform number drawn
/// from both, in 1/2^26.
///
/// Divided by the weight this is exponentially distributed with the weight as its rate, and of such numbers
/// each is the least with a probability in proportion to its weight. Integers only, so that every machine
/// gets the same bits.
pub(super) fn cost(key: u64, server: u64) -> u32 {
    minus_log2(mix(key ^ server))
}

/// `-log2(word / 2^64)` in units of 2^-26: exact at powers of two, else interpolated between 256 points of an
/// octave.
fn minus_log2(word: u64) -> u32 {
    // The two lowest words of 2^64 are given up, so that the result stays below 2^32.
    let uniform = word | 2;
    let octave = uniform.leading_zeros();
    let mantissa = uniform << octave << 1;
    let point = (mantissa >> 56) as usize;
    let fraction = (mantissa >> 24) as u32;
    let low = LOG2[point];
    let high = LOG2[point + 1];
    let within = low + ((u64::from(high - low) * u64::from(fraction)) >> 32) as u32;
    ((octave + 1) << 26) - within
}

/// `log2(1 + i / 256)` in units of 2^-26.
static LOG2: [u32; 257] = {
    let mut table = [0; 257];
    let mut i = 0;
    while i < 257 {
        table[i] = log2_fraction(256 + i as u64);
        i += 1;
    }
    table
};

/// `log2(value / 256)` in units of 2^-26 for `value` in 256..=512, bit by bit: squaring doubles a logarithm.
const fn log2_fraction(value: u64) -> u32 {
    if value == 512 {
        return 1 << 26;
    }
    let mut mantissa = value << 23;
    let mut result = 0;
    let mut bit = 1 << 25;
    while bit > 0 {
        mantissa = ((mantissa as u128 * mantissa as u128) >> 31) as u64;
        if mantissa >= 1 << 32 {
            mantissa >>= 1;
            result |= bit;
        }
        bit >>= 1;
    }
    result
}
