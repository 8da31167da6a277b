//! One balancer process: the `Admission` and the `RetryBudget` of `weir_traffic`, as each upstream of the proxy has them.
//!
//! Translates between them and the world: requests into their arguments, their results into the next events.
//! No decision is made here.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_stats::random::{Purpose, RandomStream};
use weir_traffic::admission::{
    Admission, AdmissionDecision, AdmissionRequest, Enqueued, QueueWait, WaitOutcome,
};
use weir_traffic::balance::{Balancer, BalancerMember, Excluded, Pick, WhenFull};
use weir_traffic::limit::ClientKey;
use weir_traffic::queue::{PriorityClass, QueueClass, Ticket};
use weir_traffic::retry::RetryBudget;
use weir_traffic::{ServerId, ServerState};

use super::SimAttempt;
use super::discovery::{KnownServers, left_at};
use super::ejection::{AttemptEnd, SimOutliers};
use super::health::{ProbedServer, SimRamp};
use crate::failure::SimFailure;
use crate::model::{MILLISECOND, Model, UpstreamModel};

/// A balancer process.
#[derive(Debug)]
pub(super) struct SimBalancer {
    admission: Admission<SimAttempt>,
    patience: WhenFull,
    fair_share: bool,
    /// Whether the queue has no places.
    queue_is_none: bool,
    pub(super) budget: RetryBudget,
    known: KnownServers,
    /// Of each of them, whether the source does not name it now.
    leaving: Box<[bool]>,
    /// Its source of chance.
    seed: u64,
    pub(super) outliers: Option<SimOutliers>,
    /// Servers on their way to their full weight.
    pub(super) ramps: HashMap<u32, SimRamp>,
    /// When the idle connection to each server was last used, in milliseconds and one; 0: there is none.
    idle_since: Vec<u32>,
    /// The servers that it probes; empty without health checks.
    pub(super) checked: Vec<ProbedServer>,
}

/// The balancer's view of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotRequest {
    pub(super) client: u32,
    pub(super) priority: PriorityClass,
    pub(super) excluded: Excluded,
    pub(super) random: u64,
}

/// The answer to a request for a slot.
#[derive(Debug)]
pub(super) enum SlotAnswer {
    Slot(ServerId),
    /// A place in the queue, for one server only if it is `own`.
    Waits {
        ticket: Ticket,
        own: bool,
    },
    Failed(SimFailure),
}

/// A decision of the queue about a request in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum QueueDecision {
    Server(SimAttempt, ServerId),
    SentAway(SimAttempt, SimFailure),
}

/// A server by its number among all.
fn member(number: u32, state: Arc<ServerState>, is_leaving: bool) -> BalancerMember {
    let member = BalancerMember::new(&format!("server-{number}"), state);
    if is_leaving { member.as_leaving() } else { member }
}

/// Each client has an address of its own, for policies that use addresses.
fn address(client: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + client))
}

impl SimBalancer {
    /// The balancer at `number`, which has heard what the source said at `version`.
    pub(super) fn new(number: u32, model: &Model, upstream: &UpstreamModel, seed: u64, version: u32) -> Self {
        let known = KnownServers::new(number, model.servers_count(), &upstream.source, seed);
        let weights: Vec<u32> = model.each_server().map(|group| group.weight).collect();
        let leaving = known.leaving(&left_at(model, version));
        let is_leaving = |place: usize| leaving[place];
        let members = (0..known.count()).map(|place| {
            let server = known.number(place);
            let state = ServerState::new(weights[server as usize], upstream.max_requests);
            member(server, Arc::new(state), is_leaving(place))
        });
        let drawn = RandomStream::new(seed, Purpose::Balancer, [u64::from(number), 0]).word();
        let start = if upstream.same_start { 0 } else { drawn };
        let balancer = Balancer::new(&upstream.balance, members.collect(), start);
        let outliers =
            upstream.ejection.map(|ejection| SimOutliers::new(ejection, upstream, &balancer, is_leaving));
        let queue = &upstream.queue;
        Self {
            seed: drawn,
            outliers,
            ramps: HashMap::new(),
            idle_since: vec![0; known.count()],
            known,
            leaving,
            admission: Admission::new(balancer, queue.length_max, queue.delay_target),
            patience: if queue.affinity_wait.is_some() { WhenFull::Queue } else { WhenFull::Spill },
            fair_share: queue.fair_share,
            queue_is_none: queue.length_max == 0,
            budget: RetryBudget::new(upstream.budget_percent, upstream.budget_per_second),
            checked: Vec::new(),
        }
    }

    pub(super) fn balancer(&self) -> &Balancer {
        self.admission.balancer()
    }

    /// The servers that it knows.
    pub(super) fn servers_count(&self) -> usize {
        self.known.count()
    }

    /// The number of one of its servers among all.
    pub(super) fn number_of(&self, server: ServerId) -> u32 {
        self.known.number(server.index())
    }

    /// Goes on with the servers that the source names now, where `left` tells of all servers whether it does not. Returns those
    /// that came back.
    pub(super) fn change_servers(
        &mut self,
        upstream: &UpstreamModel,
        left: &[bool],
        now_ms: u64,
    ) -> Vec<ServerId> {
        let before = self.admission.balancer();
        let leaving = self.known.leaving(left);
        let is_leaving = |place: usize| leaving[place];
        let mut joined = Vec::new();
        let members = (0..self.known.count()).map(|place| {
            let old = &before.states()[place];
            let joins = self.leaving[place] && !leaving[place];
            if joins {
                joined.push(ServerId(place as u32));
            }
            // One that was gone is a new server, unless its last requests still run.
            let state = if joins && old.in_flight() == 0 {
                Arc::new(ServerState::new(old.weight(), old.max_requests()))
            } else {
                Arc::clone(old)
            };
            member(self.known.number(place), state, is_leaving(place))
        });
        let balancer = before.succeeded_by(&upstream.balance, members.collect(), self.seed);
        if let Some(outliers) = &mut self.outliers {
            outliers.change(upstream, &balancer, is_leaving, now_ms);
        }
        self.admission = self.admission.succeeded_by(balancer);
        self.leaving = leaving;
        joined
    }

    /// An attempt begins on a server; returns whether it needs a new connection.
    pub(super) fn begin(&mut self, server: ServerId, now_ms: u64, pool_idle_ms: u64) -> bool {
        if let Some(outliers) = &mut self.outliers {
            outliers.begin(server, self.admission.balancer().state(server), now_ms);
        }
        match std::mem::take(&mut self.idle_since[server.index()]) {
            0 => true,
            since => now_ms + 1 > u64::from(since) + pool_idle_ms,
        }
    }

    /// An attempt on a server has ended; returns whether its table has to be reviewed.
    pub(super) fn outcome(&mut self, server: ServerId, end: AttemptEnd, began_ms: u64, now_ms: u64) -> bool {
        if end == AttemptEnd::Answered {
            self.idle_since[server.index()] = u32::try_from(now_ms + 1).unwrap_or(u32::MAX);
        }
        let state = Arc::clone(self.admission.balancer().state(server));
        let outliers = self.outliers.as_mut();
        outliers.is_some_and(|outliers| outliers.end(server, &state, end, began_ms, now_ms))
    }

    /// The servers to which it has a connection: busy, or idle for no longer than it keeps one.
    pub(super) fn connected(&self, now_ms: u64, pool_idle_ms: u64) -> impl Iterator<Item = ServerId> {
        let states = self.admission.balancer().states().iter();
        let of_each = states.zip(&self.idle_since).enumerate();
        let connected = move |(place, (state, since)): (usize, (&Arc<ServerState>, &u32))| {
            let is_idle = *since > 0 && now_ms < u64::from(*since) + pool_idle_ms;
            (is_idle || state.in_flight() > 0).then_some(ServerId(place as u32))
        };
        of_each.filter_map(connected)
    }

    /// Takes a slot for a request, or a place in the queue until `deadline`; after a place the caller has to serve the queue.
    /// `decided` gets the decisions about other requests.
    pub(super) fn admit(
        &self,
        attempt: SimAttempt,
        asked: &SlotRequest,
        now_ms: u64,
        deadline: u64,
        decided: &mut Vec<QueueDecision>,
    ) -> SlotAnswer {
        let hash = self.balancer().hash_key().map(|_| weir_traffic::hash_address(address(asked.client)));
        let pick = Pick { hash, excluded: &asked.excluded, random: asked.random, now_ms };
        let own =
            match self.admission.try_admit(&AdmissionRequest { pick, bound: None, when_full: self.patience })
            {
                AdmissionDecision::Server(server) => return SlotAnswer::Slot(server),
                AdmissionDecision::NoneEligible => return SlotAnswer::Failed(SimFailure::NoServer),
                AdmissionDecision::Wait(own) => own,
            };
        let client = ClientKey::from(address(asked.client)).number();
        let share = if self.fair_share { client } else { 0 };
        let standing = QueueClass { priority: asked.priority, share, client };
        let wait = QueueWait { own, class: standing, now_ms, deadline_ms: deadline / MILLISECOND };
        match self.admission.enter(&pick, wait, attempt) {
            Ok(Enqueued { ticket, evicted, .. }) => {
                let evicted =
                    evicted.map(|evicted| QueueDecision::SentAway(evicted, SimFailure::QueueEvicted));
                decided.extend(evicted);
                SlotAnswer::Waits { ticket, own: own.is_some() }
            }
            Err(_full) if self.queue_is_none => SlotAnswer::Failed(SimFailure::AllServersFull),
            Err(_full) => SlotAnswer::Failed(SimFailure::QueueFull),
        }
    }

    /// Takes a request out of the queue that waits no longer.
    pub(super) fn leave(&self, ticket: Ticket) {
        self.admission.leave(ticket);
    }

    /// Lets a request that waited for its own server take any.
    pub(super) fn unbind(&self, ticket: Ticket) {
        self.admission.unbind(ticket);
    }

    /// Gives back a slot; returns whether the queue has to be served.
    pub(super) fn release(&self, server: ServerId) -> bool {
        self.admission.release(server)
    }

    /// Hands free slots to waiting requests, and removes those that no server may take.
    pub(super) fn serve_queue(&self, now_ms: u64, decided: &mut Vec<QueueDecision>) {
        self.admission.serve(now_ms, |attempt, outcome| {
            decided.push(match outcome {
                WaitOutcome::Server(server) => QueueDecision::Server(attempt, server),
                WaitOutcome::NoServer => QueueDecision::SentAway(attempt, SimFailure::NoServer),
                WaitOutcome::Overload => QueueDecision::SentAway(attempt, SimFailure::QueueOverload),
                WaitOutcome::Evicted => QueueDecision::SentAway(attempt, SimFailure::QueueEvicted),
            });
            true
        });
    }
}
