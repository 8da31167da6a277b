//! Why a server would or would not get a request: what `weir explain` and the status page show.
//!
//! Looks, never takes: no slot, no turn. It runs off the request path and may allocate.

use std::cmp::Ordering;

use super::consistent_hash::{LoadBound, cost};
use super::least::{Cost as _, ServerLoad};
use super::map_based_hash::place;
use super::peak_ewma::ExpectedWait;
use super::{Algorithm, Balancer, BalancerGroup, BalancerPeer, Pick};
use crate::server::{Eligibility, Health, Mode, ServerId, ServerTier};

/// One server of an upstream as a candidate for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerCandidate {
    /// Which server.
    pub server: ServerId,
    /// Requests in flight on it.
    pub in_flight: u32,
    /// The most requests it may have in flight; 0 means no limit.
    pub max_requests: u32,
    /// Its weight.
    pub weight: u32,
    /// When it is asked.
    pub tier: ServerTier,
    /// Whether it could be chosen now, and if not, why.
    pub eligibility: Eligibility,
}

impl Balancer {
    /// All servers as candidates for one request: first the eligible ones, in the order in which the
    /// policy would take them now (heaviest first where chance decides), then the others.
    pub fn candidates(&self, pick: &Pick<'_>) -> Vec<ServerCandidate> {
        let (mut all, mut some_take_part, mut some_have_room) = (Vec::new(), false, false);
        for group in self.groups() {
            let overflows = self.overflows && group.tier == ServerTier::Backup;
            let is_reserved = if overflows { some_have_room } else { some_take_part };
            for candidate in group.ranked(pick) {
                let takes_part = candidate.eligibility.is_taking_part();
                let eligibility = match candidate.tier {
                    ServerTier::Backup if takes_part && is_reserved => Eligibility::Reserve,
                    ServerTier::LastResort if takes_part && is_reserved => Eligibility::LastResort,
                    _ => candidate.eligibility,
                };
                some_take_part |= takes_part;
                some_have_room |= takes_part && candidate.eligibility != Eligibility::Full;
                all.push(ServerCandidate { eligibility, ..candidate });
            }
        }
        all.sort_by_key(|candidate| match candidate.eligibility {
            Eligibility::Eligible => 0,
            Eligibility::Bounded => 1,
            _ => 2,
        });
        all
    }
}

impl BalancerGroup {
    fn ranked(&self, pick: &Pick<'_>) -> Vec<ServerCandidate> {
        let mut peers: Vec<&BalancerPeer> = self.peers.iter().collect();
        peers.sort_by(|a, b| self.preference(a, b, pick));
        let bound = match &self.algorithm {
            Algorithm::ConsistentHash(algorithm) if pick.hash.is_some() => {
                algorithm.bound(&self.peers, |peer| !pick.excluded.contains(peer.id))
            }
            _ => LoadBound::NONE,
        };
        let candidate = |peer| ServerCandidate { tier: self.tier, ..candidate(peer, pick, &bound) };
        peers.into_iter().map(candidate).collect()
    }

    /// Which of two servers the policy would rather take.
    fn preference(&self, a: &BalancerPeer, b: &BalancerPeer, pick: &Pick<'_>) -> Ordering {
        let (load_a, load_b) = (load(a), load(b));
        match &self.algorithm {
            Algorithm::RoundRobin(algorithm) => algorithm.order(a).cmp(&algorithm.order(b)),
            Algorithm::LeastRequests(algorithm) => {
                load_a.compare(load_b).then_with(|| algorithm.order(a).cmp(&algorithm.order(b)))
            }
            Algorithm::PeakEwma(algorithm) => {
                let wait = |peer: &BalancerPeer| ExpectedWait::on(peer, load(peer).share, pick.now_ms);
                wait(a).compare(wait(b)).then_with(|| algorithm.order(a).cmp(&algorithm.order(b)))
            }
            Algorithm::PowerOfTwo(_) | Algorithm::Random(_) => load_b.share.cmp(&load_a.share),
            Algorithm::ConsistentHash(_) => match pick.hash {
                None => load_a.compare(load_b),
                Some(hash) => {
                    let bid_a = u64::from(cost(hash, a.key)) * u64::from(load_b.share);
                    let bid_b = u64::from(cost(hash, b.key)) * u64::from(load_a.share);
                    bid_a.cmp(&bid_b)
                }
            },
            Algorithm::MapBasedHash(_) => match pick.hash {
                None => load_a.compare(load_b),
                Some(hash) => place(&self.peers, hash, a).cmp(&place(&self.peers, hash, b)),
            },
        }
    }
}

fn load(peer: &BalancerPeer) -> ServerLoad {
    ServerLoad { in_flight: peer.state.in_flight(), share: peer.state.share().max(1) }
}

fn candidate(peer: &BalancerPeer, pick: &Pick<'_>, bound: &LoadBound) -> ServerCandidate {
    let state = &peer.state;
    let panic = state.is_in_panic();
    let eligibility = match (state.probed_health(), state.mode()) {
        (Health::Down, _) if !panic => Eligibility::Down,
        _ if state.is_ejected() && !panic => Eligibility::Ejected,
        (_, Mode::Maintenance) => Eligibility::Maintenance,
        (_, Mode::Draining) => Eligibility::Draining,
        _ if state.effective_mode() != Mode::Serving || state.health() == Health::Down && !panic => {
            Eligibility::Agent
        }
        _ if state.weight() == 0 => Eligibility::WeightZero,
        _ if pick.excluded.contains(peer.id) => Eligibility::Excluded,
        _ if state.is_full() => Eligibility::Full,
        _ if !bound.admits(load(peer)) => Eligibility::Bounded,
        _ => Eligibility::Eligible,
    };
    ServerCandidate {
        server: peer.id,
        in_flight: state.in_flight(),
        max_requests: state.max_requests(),
        weight: state.weight(),
        tier: ServerTier::Primary,
        eligibility,
    }
}
