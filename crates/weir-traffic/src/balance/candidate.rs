//! Why a server would or would not get a request: what `weir explain` and the status page show.
//!
//! Looks, never takes: no slot, no turn. It runs off the request path and may allocate.

use std::cmp::Ordering;

use super::consistent_hash::{Bound, cost};
use super::least::{Cost as _, Load};
use super::peak_ewma::Wait;
use super::{Algorithm, Balancer, Group, Pick, Seat};
use crate::server::{Health, Mode, ServerId, Standing};

/// One server of an upstream as a candidate for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Which server.
    pub server: ServerId,
    /// Requests in flight on it.
    pub in_flight: u32,
    /// The most requests it may have in flight; 0 means no limit.
    pub max_requests: u32,
    /// Its weight.
    pub weight: u32,
    /// Whether it is a backup.
    pub backup: bool,
    /// Whether it could be chosen now, and if not, why.
    pub standing: Standing,
}

impl Balancer {
    /// All servers as candidates for one request: first those that could be chosen, in the order in which the
    /// policy would take them now (heaviest first where chance decides), then the others.
    pub fn candidates(&self, pick: &Pick<'_>) -> Vec<Candidate> {
        let mut primaries = self.primaries.ranked(pick);
        let primary_eligible = primaries.iter().any(|candidate| candidate.standing.is_taking_part());
        let backups = self.backups.iter().flat_map(|backups| backups.ranked(pick)).map(|candidate| {
            let reserved = primary_eligible && candidate.standing.is_taking_part();
            let standing = if reserved { Standing::Reserve } else { candidate.standing };
            Candidate { backup: true, standing, ..candidate }
        });
        primaries.extend(backups);
        primaries.sort_by_key(|candidate| match candidate.standing {
            Standing::Eligible => 0,
            Standing::Bounded => 1,
            _ => 2,
        });
        primaries
    }
}

impl Group {
    fn ranked(&self, pick: &Pick<'_>) -> Vec<Candidate> {
        let mut seats: Vec<&Seat> = self.seats.iter().collect();
        seats.sort_by(|a, b| self.preference(a, b, pick));
        let bound = match &self.algorithm {
            Algorithm::ConsistentHash(algorithm) if pick.hash.is_some() => {
                algorithm.bound(&self.seats, |seat| !pick.excluded.contains(seat.id))
            }
            _ => Bound::NONE,
        };
        seats.into_iter().map(|seat| candidate(seat, pick, &bound)).collect()
    }

    /// Which of two servers the policy would rather take.
    fn preference(&self, a: &Seat, b: &Seat, pick: &Pick<'_>) -> Ordering {
        let (load_a, load_b) = (load(a), load(b));
        match &self.algorithm {
            Algorithm::RoundRobin(algorithm) => algorithm.order(a).cmp(&algorithm.order(b)),
            Algorithm::LeastRequests(algorithm) => {
                load_a.compare(load_b).then_with(|| algorithm.order(a).cmp(&algorithm.order(b)))
            }
            Algorithm::PeakEwma(algorithm) => {
                let wait = |seat: &Seat| Wait::on(seat, load(seat).share, pick.now_ms);
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
        }
    }
}

fn load(seat: &Seat) -> Load {
    Load { in_flight: seat.state.in_flight(), share: seat.state.share().max(1) }
}

fn candidate(seat: &Seat, pick: &Pick<'_>, bound: &Bound) -> Candidate {
    let state = &seat.state;
    let panic = state.is_in_panic();
    let standing = match (state.health(), state.mode()) {
        (Health::Down, _) if !panic => Standing::Down,
        _ if state.is_ejected() && !panic => Standing::Ejected,
        (_, Mode::Maintenance) => Standing::Maintenance,
        (_, Mode::Draining) => Standing::Draining,
        _ if state.weight() == 0 => Standing::WeightZero,
        _ if pick.excluded.contains(seat.id) => Standing::Excluded,
        _ if state.is_full() => Standing::Full,
        _ if !bound.admits(load(seat)) => Standing::Bounded,
        _ => Standing::Eligible,
    };
    Candidate {
        server: seat.id,
        in_flight: state.in_flight(),
        max_requests: state.max_requests(),
        weight: state.weight(),
        backup: false,
        standing,
    }
}
