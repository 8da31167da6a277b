//! Drawing servers at random in proportion to their weights, without a table that a changed weight would
//! spoil.
//!
//! A server is drawn with equal chances and kept with a chance of its share over the largest share; what is
//! kept is distributed exactly by weight. A miss or two is normal; after several, one pass over all servers
//! decides, with the same distribution.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{BalancerChoice, BalancerPeer};
use crate::hash::mix;

/// Draws before the servers are counted through. With equal weights and all servers available the first draw
/// is kept.
const DRAWS_MAX: u32 = 8;

/// A stream of random words grown from one (SplitMix64).
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, all equally likely to within `bound` parts in 2^64.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The drum the servers are drawn from.
#[derive(Debug)]
pub(super) struct WeightedDraw {
    /// The largest share, as far as known. Too large costs misses, never fairness, and is set right when
    /// misses have led to a count.
    share_max: AtomicU32,
}

impl WeightedDraw {
    pub(super) fn new(peers: &[BalancerPeer]) -> WeightedDraw {
        let share_max = peers.iter().map(|peer| peer.state.share()).max().unwrap_or(0);
        WeightedDraw { share_max: AtomicU32::new(share_max.max(1)) }
    }

    /// The index of an available server drawn by weight, never `not`. `Err` tells why there is none.
    #[inline]
    pub(super) fn draw(
        &self,
        peers: &[BalancerPeer],
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
        not: Option<usize>,
        random: &mut SplitMix64,
    ) -> Result<usize, BalancerChoice> {
        let drawable = peers.len() - usize::from(not.is_some() && !peers.is_empty());
        if drawable == 0 {
            return Err(BalancerChoice::NoneEligible);
        }
        for _ in 0..DRAWS_MAX {
            let drawn = random.below(drawable as u64) as usize;
            let at = if not.is_some_and(|not| drawn >= not) { drawn + 1 } else { drawn };
            let share = available_share(&peers[at], allowed);
            let share_max = self.share_max.load(Ordering::Relaxed);
            if share > share_max {
                self.share_max.fetch_max(share, Ordering::Relaxed);
            }
            if share >= share_max || random.below(u64::from(share_max)) < u64::from(share) {
                return Ok(at);
            }
        }
        self.count_through(peers, allowed, not, random)
    }

    /// The exact weighted draw over all available servers: one pass to sum, one to find.
    #[cold]
    fn count_through(
        &self,
        peers: &[BalancerPeer],
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
        not: Option<usize>,
        random: &mut SplitMix64,
    ) -> Result<usize, BalancerChoice> {
        let others = || peers.iter().enumerate().filter(|(at, _)| Some(*at) != not);
        let (mut total, mut share_max, mut some_full) = (0, 0, false);
        for (_, peer) in others() {
            let share = available_share(peer, allowed);
            total += u64::from(share);
            share_max = share_max.max(share);
            some_full |= share == 0 && peer.state.share() > 0 && allowed(peer);
        }
        if total == 0 {
            return Err(BalancerChoice::without_server(some_full));
        }
        self.share_max.store(share_max, Ordering::Relaxed);

        let mut left = random.below(total);
        let mut found = Err(BalancerChoice::AllFull);
        for (at, peer) in others() {
            let share = u64::from(available_share(peer, allowed));
            if share > 0 {
                // Should shares shrink between the two passes, the last one available will do.
                found = Ok(at);
            }
            if share > left {
                break;
            }
            left -= share;
        }
        found
    }
}

/// The share of a server that can take this request now, else 0.
#[inline]
fn available_share(peer: &BalancerPeer, allowed: impl Fn(&BalancerPeer) -> bool) -> u32 {
    let share = peer.state.share();
    if share == 0 || peer.state.is_full() || !allowed(peer) { 0 } else { share }
}
