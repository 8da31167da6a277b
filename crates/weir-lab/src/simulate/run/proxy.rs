//! One balancer process: `Balancer`, `Queue` and `RetryBudget` of `weir_traffic`, put together as the proxy does.
//!
//! The counterpart of `weir-proxy/src/upstream/admission.rs`, without threads and sockets: it asks in the same order and keeps
//! the same rules, so what a request meets here it meets there. No decision is made here.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_traffic::balance::{Balancer, Choice, Excluded, Member, Pick};
use weir_traffic::limit::ClientKey;
use weir_traffic::queue::{Entered, Priority, Queue, Standing, Ticket};
use weir_traffic::retry::RetryBudget;
use weir_traffic::{ServerId, ServerState};

use super::health::Checked;
use super::{Attempt, Failure};
use crate::simulate::chance::{Chance, Purpose};
use crate::simulate::model::{MILLISECOND, Model, Upstream};

/// A balancer process.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) balancer: Balancer,
    queue: Queue<Waiter>,
    fair_share: bool,
    pub(super) budget: RetryBudget,
    /// What its probes say; empty without health checks.
    pub(super) checked: Vec<Checked>,
}

/// A request in the queue.
#[derive(Debug)]
struct Waiter {
    attempt: Attempt,
    asked: Asked,
}

/// What the balancer gets to know of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) client: u32,
    pub(super) priority: Priority,
    pub(super) excluded: Excluded,
    pub(super) random: u64,
}

/// What came of asking for a slot.
#[derive(Debug)]
pub(super) enum Admitted {
    Slot(ServerId),
    Waits(Ticket),
    Failed(Failure),
}

/// What the queue decided about somebody in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told {
    Server(Attempt, ServerId),
    SentAway(Attempt, Failure),
}

impl Asked {
    fn pick(&self, now_ms: u64) -> Pick<'_> {
        let hash = Some(weir_traffic::hash_address(address(self.client)));
        Pick { hash, excluded: &self.excluded, random: self.random, now_ms }
    }
}

/// Each client has an address of its own, as far as balancers look at them.
fn address(client: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + client))
}

impl Proxy {
    pub(super) fn new(number: u32, model: &Model, upstream: &Upstream, seed: u64) -> Self {
        let members = model.each_server().enumerate().map(|(index, group)| {
            let state = ServerState::new(group.weight, upstream.max_requests);
            Member::new(&format!("server-{index}"), Arc::new(state))
        });
        let mut chance = Chance::new(seed, Purpose::Balancer, [u64::from(number), 0]);
        Self {
            balancer: Balancer::new(&upstream.balance, members.collect(), chance.word()),
            queue: Queue::new(upstream.queue.length_max, upstream.queue.delay_target),
            fair_share: upstream.queue.fair_share,
            budget: RetryBudget::new(upstream.budget_percent, upstream.budget_per_second),
            checked: Vec::new(),
        }
    }

    /// Takes a slot for a request, or a place in the queue until `deadline`. What that does to others is `told`.
    pub(super) fn admit(
        &mut self,
        attempt: Attempt,
        asked: Asked,
        now_ms: u64,
        deadline: u64,
        told: &mut Vec<Told>,
    ) -> Admitted {
        if self.queue.is_empty() {
            match self.balancer.choose(&asked.pick(now_ms)) {
                Choice::Server(server) => return Admitted::Slot(server),
                Choice::NoneEligible => return Admitted::Failed(Failure::NoServer),
                Choice::AllFull => {}
            }
        }
        let share = if self.fair_share { ClientKey::from(address(asked.client)).number() } else { 0 };
        let standing = Standing { priority: asked.priority, share };
        let entered = self.queue.push(Waiter { attempt, asked }, standing, now_ms, deadline / MILLISECOND);
        let Ok(Entered { ticket, displaced, .. }) = entered else {
            let none = self.queue.len_max() == 0;
            return Admitted::Failed(if none { Failure::AllServersFull } else { Failure::QueueFull });
        };
        if let Some(displaced) = displaced {
            told.push(Told::SentAway(displaced.item.attempt, Failure::QueueDisplaced));
        }
        Admitted::Waits(ticket)
    }

    /// Takes a request out of the queue that waits no longer.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.queue.remove(ticket);
    }

    /// Hands free slots to those who wait, in order of arrival, as long as there are any of both.
    pub(super) fn serve_queue(&mut self, now_ms: u64, told: &mut Vec<Told>) {
        if self.queue.is_empty() {
            return;
        }
        let Self { balancer, queue, .. } = self;
        if !balancer.has_eligible() {
            while let Some(waiter) = queue.pop_any() {
                told.push(Told::SentAway(waiter.item.attempt, Failure::NoServer));
            }
        }
        while let Some(overdue) = queue.pop_overdue(now_ms) {
            told.push(Told::SentAway(overdue.item.attempt, Failure::QueueOverload));
        }
        // Without room nobody can be served: that need not be found out for each who waits.
        while balancer.states().iter().any(|state| state.is_eligible() && !state.is_full()) {
            let mut chosen = None;
            let mut nothing_free = false;
            let next = queue.pop_front(now_ms, |waiter: &Waiter| {
                if nothing_free {
                    return false;
                }
                match balancer.choose(&waiter.asked.pick(now_ms)) {
                    Choice::Server(server) => {
                        chosen = Some(server);
                        true
                    }
                    Choice::AllFull => {
                        nothing_free = waiter.asked.excluded.is_empty();
                        false
                    }
                    Choice::NoneEligible => false,
                }
            });
            let (Some(waiter), Some(server)) = (next, chosen) else { break };
            told.push(Told::Server(waiter.item.attempt, server));
        }
    }
}
