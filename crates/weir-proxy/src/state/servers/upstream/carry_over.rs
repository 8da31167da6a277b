//! The parts that a plan of an upstream takes over from the plan before it, server by server, and those that it makes anew.
//!
//! Must not change what is taken over: the plan before still works with it.

use std::collections::HashMap;
use std::sync::Arc;

use weir_config::{OnFull, Server, Upstream};
use weir_observe::{PerWorker, ProbeShard, ServerShard};
use weir_traffic::ServerState;
use weir_traffic::admission::Admission;
use weir_traffic::balance::{Balancer, BalancerMember};

use super::outliers::OutlierDetector;
use super::queue::Waiter;
use super::{LiveServer, UpstreamPlan, delay_target};
use crate::net::clock::Instant;
use crate::state::servers::plan_inputs::PlanInputs;
use crate::state::servers::pool::SharedPool;

/// The servers of a plan to come, by their places, and the plan before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CarryOver<'a> {
    pub(super) config: &'a Upstream,
    /// Of those that the config does not name any more: when their last tunnels end.
    pub(super) leaves_at: &'a [Option<Instant>],
    /// Whether a server was in its place before.
    pub(super) is_known: &'a [bool],
    pub(super) before: Option<&'a UpstreamPlan>,
}

impl<'a> CarryOver<'a> {
    /// What `of` makes of each server, its place, and the plan before if that had it there.
    fn each<T>(
        self,
        of: impl Fn(usize, &'a Server, Option<&'a UpstreamPlan>) -> T,
    ) -> impl Iterator<Item = T> {
        let servers = self.config.servers.iter().enumerate();
        servers.map(move |(index, server)| of(index, server, self.before.filter(|_| self.is_known[index])))
    }

    /// Outlier detection, and the balancer with its queue.
    pub(super) fn balancing(self, inputs: &PlanInputs) -> (OutlierDetector, Admission<Waiter>) {
        let (config, seed) = (self.config, inputs.seed);
        let overflows = config.when_full == OnFull::Backup;
        match self.before {
            None => {
                let balancer = Balancer::new(&config.balance, self.members(), seed).overflowing(overflows);
                let outlier_detector =
                    OutlierDetector::new(config, self.leaves_at, &balancer, &inputs.due_upstreams);
                (outlier_detector, Admission::new(balancer, config.queue.length_max, delay_target(config)))
            }
            Some(before) => {
                let balancer = before.balancer().succeeded_by(&config.balance, self.members(), seed);
                let balancer = balancer.overflowing(overflows);
                (before.outlier_detector.succeeded_by(config), before.admission.succeeded_by(balancer))
            }
        }
    }

    fn members(self) -> Vec<BalancerMember> {
        let member = |index: usize, server: &Server, before: Option<&UpstreamPlan>| {
            let state = before.map(|before| Arc::clone(&before.balancer().states()[index]));
            let member = BalancerMember::new(&server.name, state.unwrap_or_else(|| new_state(server)));
            let member = member.in_tier(server.tier);
            match self.leaves_at[index] {
                Some(_) => member.as_leaving(),
                // So no request gets a server that it does not name, whatever happens to be unknown of it.
                None if self.config.dynamic.is_some() => member.for_bound_alone(),
                None => member,
            }
        };
        self.each(member).collect()
    }

    /// The live state of the servers.
    pub(super) fn live(self) -> Box<[Arc<LiveServer>]> {
        let place = |index: usize, server: &Server, before: Option<&UpstreamPlan>| match before {
            Some(before) => Arc::clone(&before.live[index]),
            None => Arc::new(LiveServer::new(&server.address)),
        };
        self.each(place).collect()
    }

    /// Whether idle connections of the plan before may be used.
    pub(super) fn keeps_pool(self) -> Box<[bool]> {
        self.each(|index, _, before| {
            before.is_some_and(|before| before.opens_same_connections(self.config, index))
        })
        .collect()
    }

    /// The idle connections of the servers that have a limit on their requests.
    pub(super) fn shared_pool(self, keeps_pool: &[bool]) -> Box<[Option<Arc<SharedPool>>]> {
        let idle = |index: usize, server: &Server, before: Option<&UpstreamPlan>| {
            server.max_requests?;
            let before = before.filter(|_| keeps_pool[index]);
            Some(before.and_then(|before| before.shared_pool[index].clone()).unwrap_or_default())
        };
        self.each(idle).collect()
    }

    /// What is counted of the probes of each server; nothing where there are none.
    pub(super) fn probes(self) -> Box<[Option<Arc<ProbeShard>>]> {
        let probes = |index: usize, server: &Server, before: Option<&UpstreamPlan>| {
            let before = before.and_then(|before| before.probes[index].clone());
            self.config.probes(server).then(|| before.unwrap_or_default())
        };
        self.each(probes).collect()
    }

    /// What each worker counts of each server. A server keeps what was counted under its name, wherever its place was.
    pub(super) fn server_shards(self, workers: usize) -> Box<[PerWorker<ServerShard>]> {
        let known = self.before.map_or(&[][..], |before| &before.config.servers);
        // Of several of one name, the first counts, unless another is in the same place.
        let places: HashMap<&str, usize> =
            known.iter().enumerate().rev().map(|(place, server)| (&*server.name, place)).collect();
        let shards = |index: usize, server: &Server, _: Option<&UpstreamPlan>| {
            let same_name = |before: &UpstreamPlan| {
                let in_place = before.config.servers.get(index).filter(|one| one.name == server.name);
                let place = in_place.map(|_| index).or_else(|| places.get(&*server.name).copied())?;
                Some(before.server_shards[place].clone())
            };
            self.before.and_then(same_name).unwrap_or_else(|| PerWorker::new(workers))
        };
        self.each(shards).collect()
    }
}

fn new_state(server: &Server) -> Arc<ServerState> {
    let state = ServerState::new(u32::from(server.weight), server.max_requests.unwrap_or(0));
    state.set_mode(server.mode);
    Arc::new(state)
}

#[cfg(test)]
mod tests {
    use weir_config::{ProxyVersion, ServerProtocol, UpstreamParts};

    use super::*;
    use crate::net::clock;

    /// Whether idle connections are kept when an upstream changes by `change`.
    fn keeps_pool_after(change: impl FnOnce(&mut UpstreamParts)) -> bool {
        let inputs = PlanInputs {
            via_name: "weir".into(),
            seed: 1,
            workers: 1,
            due_upstreams: Arc::default(),
            issuers: Arc::default(),
        };
        let server = Server::new("127.0.0.1:1".parse().expect("it is an address"));
        let mut parts = UpstreamParts::new("app", vec![server]);
        let checked =
            |parts: &UpstreamParts| Arc::new(Upstream::from_parts(parts.clone()).expect("it holds"));
        let before = UpstreamPlan::new(&checked(&parts), &inputs).expect("it has no TLS");
        change(&mut parts);
        let plan = before.succeeded_by(&checked(&parts), &inputs, clock::now()).expect("it has no TLS");
        plan.keeps_pool[0]
    }

    #[test]
    fn idle_connections_are_kept_while_the_plan_would_open_the_same_ones() {
        assert!(keeps_pool_after(|_| {}));
        assert!(keeps_pool_after(|config| config.retry.attempts_max = 5));
        assert!(!keeps_pool_after(|config| config.proxy_protocol = Some(ProxyVersion::V2)));
        let source = Some("127.0.0.2".parse().expect("it is an address"));
        assert!(!keeps_pool_after(|config| config.servers[0].source_address = source));
        assert!(!keeps_pool_after(|config| config.protocol = ServerProtocol::H2c));
        assert!(!keeps_pool_after(|config| config.http2.streams_max = 5));
    }
}
