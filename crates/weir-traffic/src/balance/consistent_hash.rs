//! Consistent hash with bounded load: a key keeps its server while that server is there and not overloaded.
//!
//! Weighted rendezvous hashing (Thaler, Ravishankar 1998; weights as in Schindelhauer, Schomaker 2005): each
//! server draws a cost from the key and its own name, the lowest cost wins. When a server goes, its keys
//! alone move and spread over all others by weight; when it comes back it gets exactly those again; a changed
//! weight moves only the difference. There is no ring whose gaps make one server hotter than another, no
//! table to rebuild, and every node agrees. Cost: one or two passes over the servers, as every policy that
//! reads the load of each; docs/decisions/0018 has the figures.
//!
//! Bounded load (Mirrokni, Thorup, Zadimoghaddam 2016): no server goes above its fair share of the requests
//! in flight times the load factor, so one hot key cannot sink a server; the surplus goes to the key's next
//! server.

use super::least::ServerLoad;
use super::least_requests::LeastRequests;
use super::policy::LoadFactor;
use super::rotation::RotationStart;
use super::{BalancerChoice, BalancerPeer, WhenFull};
use crate::hash::mix;

#[derive(Debug)]
pub(super) struct ConsistentHash {
    load_factor: LoadFactor,
    /// For requests that have no key.
    keyless: LeastRequests,
}

impl ConsistentHash {
    pub(super) fn new(
        peers: &[BalancerPeer],
        load_factor: LoadFactor,
        start: RotationStart,
    ) -> ConsistentHash {
        ConsistentHash { load_factor, keyless: LeastRequests::new(peers, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.keyless.clock()
    }

    /// Chooses among the peers that are `allowed`; with `when_full` a full server is answered rather than left out.
    /// One pass, two when the key's own server has its share already. Lock-free: beyond that the loop goes round
    /// again only because another worker changed the loads meanwhile.
    #[inline]
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        hash: Option<u64>,
        when_full: WhenFull,
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
    ) -> BalancerChoice {
        let (Some(hash), Some(any)) = (hash, peers.first()) else {
            return self.keyless.choose(peers, allowed);
        };
        let mut bound = LoadBound::NONE;
        loop {
            let mut fresh_bound = LoadBound::new(self.load_factor);
            let mut first = First { peer: any, cost: 1, load: ServerLoad { in_flight: 0, share: 0 } };
            for peer in peers {
                let share = peer.state.share();
                if share == 0 || !allowed(peer) {
                    continue;
                }
                let load = ServerLoad { in_flight: peer.state.in_flight(), share };
                fresh_bound.add(load);
                let left_out = when_full == WhenFull::Spill && peer.state.is_limit(load.in_flight);
                if left_out || !bound.admits(load) {
                    continue;
                }
                let cost = cost(hash, peer.key);
                if cheaper(cost, share, first.cost, first.load.share) {
                    first = First { peer, cost, load };
                }
            }
            if first.load.share == 0 {
                // When every server below the bound is full, one above it is better than none.
                return self.keyless.choose(peers, allowed);
            }
            if !fresh_bound.admits(first.load) {
                bound = fresh_bound;
                continue;
            }
            if first.peer.state.is_limit(first.load.in_flight) {
                return BalancerChoice::BoundFull(first.peer.id);
            }
            if first.peer.state.try_acquire_at(first.load.in_flight) {
                return BalancerChoice::Server(first.peer.id);
            }
        }
    }

    /// The load that the `allowed` servers may carry now.
    pub(super) fn bound(&self, peers: &[BalancerPeer], allowed: impl Fn(&BalancerPeer) -> bool) -> LoadBound {
        let mut bound = LoadBound::new(self.load_factor);
        for peer in peers.iter().filter(|peer| allowed(peer)) {
            bound.add(ServerLoad { in_flight: peer.state.in_flight(), share: peer.state.share() });
        }
        bound
    }
}

/// The server that bids least so far; a share of 0 when there is none yet.
struct First<'a> {
    peer: &'a BalancerPeer,
    cost: u32,
    load: ServerLoad,
}

/// The load no server may exceed: `percent` of its share of all requests in flight, the one to be placed
/// included.
pub(super) struct LoadBound {
    /// 0 when there is no bound.
    percent: u32,
    in_flight: u64,
    share: u64,
}

impl LoadBound {
    pub(super) const NONE: LoadBound = LoadBound { percent: 0, in_flight: 1, share: 0 };

    fn new(load_factor: LoadFactor) -> LoadBound {
        LoadBound { percent: load_factor.percent().unwrap_or(0), ..LoadBound::NONE }
    }

    /// Takes a server into account. One without share is none.
    #[inline]
    fn add(&mut self, load: ServerLoad) {
        if load.share > 0 {
            self.in_flight += u64::from(load.in_flight);
            self.share += u64::from(load.share);
        }
    }

    /// Whether one more request keeps the server within `ceil(percent% * in_flight * share / total share)`.
    #[inline]
    pub(super) fn admits(&self, load: ServerLoad) -> bool {
        if self.percent == 0 {
            return true;
        }
        // One more fits under the rounded-up bound exactly when the present load is below the bound itself.
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
