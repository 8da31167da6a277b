//! One variant of a simulation, from the first request to the end of the last.
//!
//! ```text
//! arrivals -> begin -> admit (slot, or queue) -> start -> server works -> answer -> finish
//!                        ^                          |
//!                        +-------- retry <- fail <--+        probes and slow start beside it
//! ```
//!
//! Sources of servers (`discovery`) and ejection (`ejection`) are beside it, too.
//!
//! This folder is the world around the balancer: clients, servers, time. Every decision (which server, which request
//! waits and for how long, whether to retry, which server is up) is made by `weir_traffic`, as in the proxy.

mod exchange;
mod arrivals;
mod balancer;
mod discovery;
mod ejection;
mod health;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};

use slab::Slab;

use crate::event_queue::EventQueue;
use crate::model::{Model, ServerAction, ServerEvent, UpstreamModel, Variant};
use crate::tally::{RequestTally, STRETCHES};
use arrivals::ArrivalCounters;
use balancer::SimBalancer;
use exchange::SimExchange;
use server::SimServer;

/// Something that happens at a time.
#[derive(Debug, Clone, Copy)]
enum SimEvent {
    /// A client of a closed load begins its next request.
    Begin { class: u32, client: u32 },
    /// A request of an open load comes.
    Arrive { class: u32 },
    /// A server may have finished a job.
    Done { server: u32, job: u32, token: u64 },
    /// A server has refused a connection.
    Refused(SimAttempt),
    /// A server has answered an error.
    Errored(SimAttempt),
    /// No answer came in time.
    ResponseTimeout(SimAttempt),
    /// A request has waited long enough in a queue.
    QueueTimeout(SimAttempt),
    /// A request has waited long enough for the server that it belongs to.
    TakeAny(SimAttempt),
    /// A client leaves.
    Leave(ExchangeId),
    /// Something happens to servers: one of the model's events.
    Change { index: u32 },
    /// A balancer hears what the source of servers said.
    Hear { balancer: u32, version: u32 },
    /// A balancer compares its servers.
    Compare { balancer: u32 },
    /// A balancer looks at the servers that it has ejected.
    Review { balancer: u32 },
    /// A hundredth of the length is over.
    Sample { stretch: u32 },
    /// A probe begins.
    Probe { balancer: u32, server: u32 },
    /// A probe that was not answered at once has taken its time.
    ProbeOver { balancer: u32, server: u32, began_ms: u64 },
    /// The share of a server that came back grows.
    Ramp { balancer: u32, server: u32, token: u32 },
}

/// An exchange, as long as it lasts: places are used again, numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExchangeId {
    place: u32,
    number: u64,
}

/// One attempt of an exchange, or its wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SimAttempt {
    exchange: ExchangeId,
    attempt: u32,
}

/// The world of one variant.
struct Simulation<'a> {
    model: &'a Model,
    interrupted: &'a AtomicBool,
    upstream: &'a UpstreamModel,
    seed: u64,
    agenda: EventQueue<SimEvent>,
    servers: Vec<SimServer>,
    /// Balancers, each made when its first request comes: most of a thousand are idle in a short simulation.
    balancers: Vec<Option<Box<SimBalancer>>>,
    /// The version of the source that each balancer has heard.
    heard: Vec<u32>,
    /// The servers that the source did not name at a version: that of the last balancer that heard.
    left: (u32, Vec<bool>),
    exchanges: Slab<SimExchange>,
    /// Exchanges so far.
    begun: u64,
    clients: ArrivalCounters,
    tally: RequestTally,
}

/// Simulates one variant; the same model, variant and seed give the same figures. `None` when it was `interrupted`.
pub(super) fn run(
    model: &Model,
    variant: &Variant,
    seed: u64,
    interrupted: &AtomicBool,
) -> Option<RequestTally> {
    let mut run = Simulation {
        model,
        interrupted,
        upstream: &variant.upstream,
        seed,
        agenda: EventQueue::new(),
        servers: model.each_server().map(SimServer::new).collect(),
        balancers: std::iter::repeat_with(|| None).take(model.balancers as usize).collect(),
        heard: vec![discovery::first_version(model); model.balancers as usize],
        left: (0, Vec::new()),
        exchanges: Slab::new(),
        begun: 0,
        clients: ArrivalCounters::new(model),
        tally: RequestTally::new(model),
    };
    for index in 0..model.events.len() {
        run.agenda.enter(model.events[index].at, SimEvent::Change { index: index as u32 });
    }
    for stretch in 1..=STRETCHES as u32 {
        let at = u128::from(model.length) * u128::from(stretch) / STRETCHES as u128;
        run.agenda.enter(at as u64, SimEvent::Sample { stretch });
    }
    if variant.upstream.health.is_some() {
        for balancer in 0..model.balancers {
            run.start_probing(balancer);
        }
    }
    run.start_clients();
    run.go_on().then(|| run.end())
}

impl Simulation<'_> {
    /// Until no request is under way and none will begin; false when it was interrupted before.
    fn go_on(&mut self) -> bool {
        while self.agenda.now() < self.model.length || !self.exchanges.is_empty() {
            let Some(event) = self.agenda.next() else { break };
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            match event {
                SimEvent::Begin { class, client } => self.begin_closed(class, client),
                SimEvent::Arrive { class } => self.arrive(class),
                SimEvent::Done { server, job, token } => self.server_done(server, job, token),
                SimEvent::Refused(attempt) => self.refused(attempt),
                SimEvent::Errored(attempt) => self.errored(attempt),
                SimEvent::ResponseTimeout(attempt) => self.response_timeout(attempt),
                SimEvent::QueueTimeout(attempt) => self.queue_timeout(attempt),
                SimEvent::TakeAny(attempt) => self.take_any(attempt),
                SimEvent::Leave(exchange) => self.client_leaves(exchange),
                SimEvent::Change { index } => self.change(index),
                SimEvent::Hear { balancer, version } => self.hear(balancer, version),
                SimEvent::Compare { balancer } => self.compare(balancer),
                SimEvent::Review { balancer } => self.review_due(balancer),
                SimEvent::Sample { stretch } => self.sample(stretch),
                SimEvent::Probe { balancer, server } => self.probe(balancer, server),
                SimEvent::ProbeOver { balancer, server, began_ms } => {
                    self.probe_over(balancer, server, began_ms);
                }
                SimEvent::Ramp { balancer, server, token } => self.ramp(balancer, server, token),
            }
        }
        true
    }

    fn end(mut self) -> RequestTally {
        let now = self.agenda.now();
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.settle(now, self.model);
            self.tally.server(index, server.figures());
        }
        self.tally
    }

    /// One of the model's events happens.
    fn change(&mut self, index: u32) {
        let event = self.model.events[index as usize];
        if !event.action.is_of_source() {
            return self.change_servers(event);
        }
        let before = &self.model.events[..index as usize];
        let version = 1 + before.iter().filter(|event| event.action.is_of_source()).count() as u32;
        if event.at > 0 {
            self.source_changes(version);
        }
    }

    /// A stretch of time ends: counts what servers and balancers have at this moment.
    fn sample(&mut self, stretch: u32) {
        let mut loads: Vec<usize> = self.servers.iter().map(SimServer::load).collect();
        loads.sort_unstable();
        self.tally.loads(stretch as usize - 1, loads[loads.len() * 99 / 100]);
        if stretch as usize == STRETCHES {
            let (now_ms, idle_ms) = (self.now_ms(), self.upstream.pool_idle / crate::model::MILLISECOND);
            let mut connections = vec![0_u32; self.servers.len()];
            for balancer in self.balancers.iter().flatten() {
                for server in balancer.connected(now_ms, idle_ms) {
                    connections[balancer.number_of(server) as usize] += 1;
                }
            }
            self.tally.connections(&connections);
        }
    }

    /// Something happens to servers; connections that break take their requests with them.
    fn change_servers(&mut self, event: ServerEvent) {
        for index in event.first..=event.last {
            let now = self.agenda.now();
            let broken = self.servers[index as usize].change(event.action, now, self.model);
            for attempt in broken {
                match event.action {
                    ServerAction::Fail => self.errored(attempt),
                    _ => self.broken(attempt),
                }
            }
            self.reschedule(index);
            self.feed(index);
        }
    }

    /// The clock of balancers: whole milliseconds.
    fn now_ms(&self) -> u64 {
        self.agenda.now() / crate::model::MILLISECOND
    }
}

#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod tests;
