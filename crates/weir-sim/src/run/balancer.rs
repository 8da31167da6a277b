//! One balancer process: the `Admission` and the `RetryBudget` of `weir_traffic`, as each upstream of the proxy has them.
//!
//! Translates between them and the world: requests into their arguments, their results into the next events.
//! No decision is made here.

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
use super::health::ProbedServer;
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

/// Each client has an address of its own, for policies that use addresses.
fn address(client: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + client))
}

impl SimBalancer {
    pub(super) fn new(number: u32, model: &Model, upstream: &UpstreamModel, seed: u64) -> Self {
        let members = model.each_server().enumerate().map(|(index, group)| {
            let state = ServerState::new(group.weight, upstream.max_requests);
            BalancerMember::new(&format!("server-{index}"), Arc::new(state))
        });
        let mut random = RandomStream::new(seed, Purpose::Balancer, [u64::from(number), 0]);
        let balancer = Balancer::new(&upstream.balance, members.collect(), random.word());
        let queue = &upstream.queue;
        Self {
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
