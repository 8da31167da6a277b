//! Which server of an upstream: one file per algorithm behind one [`Balancer`].
//!
//! The balancer is built once per config and shared by all workers. [`Balancer::choose`] also takes the slot,
//! because between reading the load and taking the slot another worker may take it. It takes no lock and allocates nothing. It
//! must not open connections, read a clock or draw randomness: the caller passes that in.

mod candidate;
mod round_robin;
mod peak_ewma;
mod power_of_two;
mod random;
mod consistent_hash;
mod map_based_hash;
mod least_requests;
mod policy;
mod least;
mod draw;
mod rotation;
mod pick;

pub use candidate::ServerCandidate;
pub use pick::{BalancerChoice, Excluded, Pick, WhenFull};
pub use policy::{AddressPrefixes, HashKey, LoadFactor, LoadFactorError, Policy};

use std::sync::Arc;

use crate::hash::hash_bytes;
use crate::server::{ServerId, ServerState, ServerTier};
use consistent_hash::ConsistentHash;
use least_requests::LeastRequests;
use map_based_hash::MapBasedHash;
use peak_ewma::PeakEwma;
use power_of_two::PowerOfTwo;
use random::WeightedRandom;
use rotation::RotationStart;
use round_robin::RoundRobin;

/// One server as the balancer knows it.
#[derive(Debug, Clone)]
pub struct BalancerMember {
    /// Its load, health and weight, shared with all workers and with the balancer of the next config.
    pub state: Arc<ServerState>,
    /// The hash of its name, the same on every node: where consistent hashing puts it.
    pub key: u64,
    /// Whether it serves always, or only when no other server of the upstream is eligible.
    pub tier: ServerTier,
    /// Whether the config does not name it any more: it is never chosen, and only has its place as long as something runs
    /// on it.
    pub leaving: bool,
}

impl BalancerMember {
    /// A server known as `name` (its address as the config spells it, or a name of its own) to all nodes.
    pub fn new(name: &str, state: Arc<ServerState>) -> BalancerMember {
        let key = hash_bytes(name.as_bytes());
        BalancerMember { state, key, tier: ServerTier::Primary, leaving: false }
    }

    /// The same server in another tier.
    pub fn in_tier(self, tier: ServerTier) -> BalancerMember {
        BalancerMember { tier, ..self }
    }

    /// The same server on its way out.
    pub fn as_leaving(self) -> BalancerMember {
        BalancerMember { leaving: true, ..self }
    }

    /// The same server for requests that are bound to it alone: no policy chooses it, whatever its state.
    pub fn for_bound_alone(self) -> BalancerMember {
        self.as_leaving()
    }
}

/// A server in its group, with the values that the algorithms read side by side.
#[derive(Debug)]
struct BalancerPeer {
    id: ServerId,
    key: u64,
    state: Arc<ServerState>,
}

impl BalancerChoice {
    /// The answer when no server could be taken, `some_full` telling whether any would have been eligible.
    fn without_server(some_full: bool) -> BalancerChoice {
        if some_full { BalancerChoice::AllFull } else { BalancerChoice::NoneEligible }
    }
}

/// Servers that are chosen among together, and how.
#[derive(Debug)]
struct BalancerGroup {
    tier: ServerTier,
    peers: Box<[BalancerPeer]>,
    algorithm: Algorithm,
}

#[derive(Debug)]
enum Algorithm {
    RoundRobin(RoundRobin),
    LeastRequests(LeastRequests),
    PeakEwma(PeakEwma),
    PowerOfTwo(PowerOfTwo),
    Random(WeightedRandom),
    ConsistentHash(ConsistentHash),
    MapBasedHash(MapBasedHash),
}

impl BalancerGroup {
    fn new(
        policy: &Policy,
        tier: ServerTier,
        peers: Box<[BalancerPeer]>,
        start: RotationStart,
    ) -> BalancerGroup {
        let algorithm = match policy {
            Policy::RoundRobin => Algorithm::RoundRobin(RoundRobin::new(&peers, start)),
            Policy::LeastRequests => Algorithm::LeastRequests(LeastRequests::new(&peers, start)),
            Policy::PeakEwma => Algorithm::PeakEwma(PeakEwma::new(&peers, start)),
            Policy::PowerOfTwo => Algorithm::PowerOfTwo(PowerOfTwo::new(&peers)),
            Policy::Random => Algorithm::Random(WeightedRandom::new(&peers)),
            Policy::ConsistentHash { load_factor, .. } => {
                Algorithm::ConsistentHash(ConsistentHash::new(&peers, *load_factor, start))
            }
            Policy::MapBasedHash { .. } => Algorithm::MapBasedHash(MapBasedHash::new(&peers, start)),
        };
        BalancerGroup { tier, peers, algorithm }
    }

    /// Where the next group of the same servers continues; `None` for algorithms without turns.
    fn clock(&self) -> Option<u64> {
        match &self.algorithm {
            Algorithm::RoundRobin(algorithm) => Some(algorithm.clock()),
            Algorithm::LeastRequests(algorithm) => Some(algorithm.clock()),
            Algorithm::PeakEwma(algorithm) => Some(algorithm.clock()),
            Algorithm::ConsistentHash(algorithm) => Some(algorithm.clock()),
            Algorithm::MapBasedHash(algorithm) => Some(algorithm.clock()),
            Algorithm::PowerOfTwo(_) | Algorithm::Random(_) => None,
        }
    }

    #[inline]
    fn choose(&self, pick: &Pick<'_>, when_full: WhenFull) -> BalancerChoice {
        // A first attempt has failed nowhere: it need not be asked about each server.
        if pick.excluded.is_empty() {
            self.choose_among(pick, when_full, |_| true)
        } else {
            self.choose_again(pick, when_full)
        }
    }

    /// The choice for a request that has failed: a server whose last request has not failed, if there is one. Otherwise a request could fail
    /// on one server after the other of those that are gone, however many of them are well.
    fn choose_again(&self, pick: &Pick<'_>, when_full: WhenFull) -> BalancerChoice {
        let is_other = |peer: &BalancerPeer| !pick.excluded.contains(peer.id);
        let is_well = |peer: &BalancerPeer| peer.state.consecutive_failures().failures() == 0;
        match self.choose_among(pick, when_full, |peer| is_other(peer) && is_well(peer)) {
            BalancerChoice::NoneEligible | BalancerChoice::AllFull => {
                self.choose_among(pick, when_full, is_other)
            }
            choice => choice,
        }
    }

    fn choose_among(
        &self,
        pick: &Pick<'_>,
        when_full: WhenFull,
        allowed: impl Fn(&BalancerPeer) -> bool + Copy,
    ) -> BalancerChoice {
        let peers = &self.peers;
        match &self.algorithm {
            Algorithm::LeastRequests(algorithm) => algorithm.choose(peers, allowed),
            Algorithm::RoundRobin(algorithm) => algorithm.choose(peers, allowed),
            Algorithm::PeakEwma(algorithm) => algorithm.choose(peers, pick.now_ms, allowed),
            Algorithm::PowerOfTwo(algorithm) => algorithm.choose(peers, pick.random, allowed),
            Algorithm::Random(algorithm) => algorithm.choose(peers, pick.random, allowed),
            Algorithm::ConsistentHash(algorithm) => algorithm.choose(peers, pick.hash, when_full, allowed),
            Algorithm::MapBasedHash(algorithm) => algorithm.choose(peers, pick.hash, when_full, allowed),
        }
    }
}

/// Chooses among the servers of one upstream; shared by all workers.
#[derive(Debug)]
pub struct Balancer {
    primaries: BalancerGroup,
    /// Asked one after the other when no primary is eligible; full primaries are waited for, unless the balancer overflows.
    others: Box<[BalancerGroup]>,
    /// Whether backups also get requests for which every primary is full.
    overflows: bool,
    states: Box<[Arc<ServerState>]>,
    hash_key: Option<HashKey>,
}

impl Balancer {
    /// A balancer over `members`, whose positions are their [`ServerId`]s.
    ///
    /// `seed` is 64 random bits that decide which server is first, so that many balancers started together do
    /// not begin with the same one. Any constant will do where that does not matter.
    pub fn new(policy: &Policy, members: Vec<BalancerMember>, seed: u64) -> Balancer {
        Balancer::with_clocks(policy, members, seed, |_| None)
    }

    /// The balancer of the next config, which continues where this one is: members that both have keep their turns, so that a
    /// reload favours no server.
    #[must_use]
    pub fn succeeded_by(&self, policy: &Policy, members: Vec<BalancerMember>, seed: u64) -> Balancer {
        let clock = |tier| self.groups().find(|group| group.tier == tier)?.clock();
        Balancer::with_clocks(policy, members, seed, clock)
    }

    fn with_clocks(
        policy: &Policy,
        members: Vec<BalancerMember>,
        seed: u64,
        clock: impl Fn(ServerTier) -> Option<u64>,
    ) -> Balancer {
        let states = members.iter().map(|member| Arc::clone(&member.state)).collect();
        let hash_key = match policy {
            Policy::ConsistentHash { key, .. } | Policy::MapBasedHash { key } => Some(key.clone()),
            _ => None,
        };
        let mut tiers = ServerTier::ALL.map(|_| Vec::new());
        for (position, member) in members.into_iter().enumerate() {
            let id = ServerId(u32::try_from(position).expect("an upstream has fewer than 2^32 servers"));
            if member.leaving {
                continue;
            }
            let peer = BalancerPeer { id, key: member.key, state: member.state };
            tiers[member.tier as usize].push(peer);
        }
        let group = |(tier, peers): (ServerTier, Vec<BalancerPeer>)| {
            BalancerGroup::new(policy, tier, peers.into(), RotationStart { seed, clock: clock(tier) })
        };
        let [primaries, backups, last_resort] = tiers;
        let others = [(ServerTier::Backup, backups), (ServerTier::LastResort, last_resort)];
        Balancer {
            primaries: group((ServerTier::Primary, primaries)),
            others: others.into_iter().filter(|(_, peers)| !peers.is_empty()).map(group).collect(),
            overflows: false,
            states,
            hash_key,
        }
    }

    /// The same, and whether backups also get requests for which every primary is full, which wait for a primary otherwise.
    #[must_use]
    pub fn overflowing(self, overflows: bool) -> Balancer {
        Balancer { overflows, ..self }
    }

    /// The groups in the order in which they are asked.
    fn groups(&self) -> impl Iterator<Item = &BalancerGroup> {
        std::iter::once(&self.primaries).chain(&self.others)
    }

    /// Chooses a server for one request and takes a slot on it, which the caller has to release.
    ///
    /// Safe to call from all workers at once; no lock, no allocation. Time grows with the number of servers
    /// except for the random policies.
    #[inline]
    pub fn choose(&self, pick: &Pick<'_>) -> BalancerChoice {
        self.choose_with(WhenFull::Spill, pick)
    }

    /// The same for a request that may wait for the server that its key belongs to ([`BalancerChoice::BoundFull`]).
    #[inline]
    pub fn choose_with(&self, when_full: WhenFull, pick: &Pick<'_>) -> BalancerChoice {
        loop {
            let choice = match self.primaries.choose(pick, when_full) {
                BalancerChoice::NoneEligible => self.choose_otherwise(pick, when_full),
                BalancerChoice::AllFull if self.overflows => self.choose_backup(pick, when_full),
                choice => choice,
            };
            match choice {
                BalancerChoice::Server(server) if !self.state(server).may_begin() => self.release(server),
                choice => return choice,
            }
        }
    }

    /// Takes a slot on the server that a request is bound to (by a cookie, say). `None` when that server takes no
    /// bound requests or the request has failed on it: then any other will do.
    pub fn choose_bound(&self, own: ServerId, excluded: &Excluded) -> Option<BalancerChoice> {
        let state = self.states.get(own.index())?;
        if !state.accepts_bound() || excluded.contains(own) {
            return None;
        }
        if !state.try_acquire() {
            return Some(BalancerChoice::BoundFull(own));
        }
        if state.may_begin_bound() {
            return Some(BalancerChoice::Server(own));
        }
        state.release();
        None
    }

    /// The choice when no primary is eligible: a server of another tier, or one that was to be avoided.
    #[cold]
    fn choose_otherwise(&self, pick: &Pick<'_>, when_full: WhenFull) -> BalancerChoice {
        let first_of = |groups: &mut dyn Iterator<Item = &BalancerGroup>, pick: &Pick<'_>| {
            let mut choices = groups.map(|group| group.choose(pick, when_full));
            choices.find(|choice| *choice != BalancerChoice::NoneEligible)
        };
        first_of(&mut self.others.iter(), pick)
            .or_else(|| {
                let excluded = pick.excluded.without_avoided()?;
                first_of(&mut self.groups(), &Pick { excluded: &excluded, ..*pick })
            })
            .unwrap_or(BalancerChoice::NoneEligible)
    }

    /// The choice when every primary is full: a backup that is not. One that its source has about to end does not help out.
    #[cold]
    fn choose_backup(&self, pick: &Pick<'_>, when_full: WhenFull) -> BalancerChoice {
        let backups = self.others.iter().find(|group| group.tier == ServerTier::Backup);
        match backups.map(|backups| backups.choose(pick, when_full)) {
            Some(BalancerChoice::Server(server)) => BalancerChoice::Server(server),
            _ => BalancerChoice::AllFull,
        }
    }

    /// What part of a request [`Pick::hash`] is made of; `None` when the policy does not use it.
    pub fn hash_key(&self) -> Option<&HashKey> {
        self.hash_key.as_ref()
    }

    /// Whether it uses [`Pick::now_ms`] and needs latencies ([`ServerState::observe_latency`]).
    pub fn measures_latency(&self) -> bool {
        matches!(self.primaries.algorithm, Algorithm::PeakEwma(_))
    }

    /// The state of a server that this balancer chose.
    ///
    /// # Panics
    /// When the server is not of this balancer.
    pub fn state(&self, server: ServerId) -> &Arc<ServerState> {
        &self.states[server.index()]
    }

    /// The states of all servers, in the order of their [`ServerId`]s.
    pub fn states(&self) -> &[Arc<ServerState>] {
        &self.states
    }

    /// Whether any server may be chosen at all, full or not.
    pub fn has_eligible(&self) -> bool {
        self.states.iter().any(|state| state.is_eligible())
    }

    /// Whether a server may be chosen, full or not, on which a request has not failed for good.
    pub fn has_eligible_but(&self, excluded: &Excluded) -> bool {
        let strict = excluded.without_avoided().unwrap_or(*excluded);
        let mut peers = self.groups().flat_map(|group| &group.peers);
        peers.any(|peer| peer.state.is_eligible() && !strict.contains(peer.id))
    }

    /// Whether a server may be chosen, full or not, on which a request has not failed at all.
    pub fn has_untried(&self, tried: &Excluded) -> bool {
        let mut peers = self.groups().flat_map(|group| &group.peers);
        peers.any(|peer| peer.state.is_eligible() && !tried.contains(peer.id))
    }

    /// Gives back the slot that [`Self::choose`] took on `server`.
    pub fn release(&self, server: ServerId) {
        self.state(server).release();
    }

    /// The same for a request that has not begun: if it would have been the trial of the server, another one is.
    pub fn give_back(&self, server: ServerId) {
        self.state(server).give_back();
    }
}

#[cfg(test)]
mod tests;
