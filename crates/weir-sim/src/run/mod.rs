//! One variant of a simulation, from the first request to the end of the last.
//!
//! ```text
//! arrivals -> begin -> admit (slot, or queue) -> start -> server works -> answer -> finish
//!                        ^                          |
//!                        +-------- retry <- fail <--+        probes and slow start beside it
//! ```
//!
//! What stands in this folder is the world around the balancer: clients, servers, time. Every decision (which server,
//! who waits where and leaves when, whether to try again, who is up) is made by `weir_traffic`, as in the proxy.

mod exchange;
mod arrivals;
mod proxy;
mod health;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};

use slab::Slab;

use crate::agenda::Agenda;
use crate::model::{Model, ServerEvent, Upstream, Variant};
use crate::tally::Tally;
use arrivals::Clients;
use exchange::Exchange;
use proxy::Proxy;
use server::Server;

/// Something that happens at a time.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A client of a closed load begins its next request.
    Begin { class: u32, client: u32 },
    /// A request of an open load comes.
    Arrive { class: u32 },
    /// A server may have finished a job.
    Done { server: u32, job: u32, token: u64 },
    /// A server has refused a connection.
    Refused(Attempt),
    /// No answer came in time.
    ResponseTimeout(Attempt),
    /// A request has waited long enough in a queue.
    QueueTimeout(Attempt),
    /// A request has waited long enough for the server that it belongs to.
    TakeAny(Attempt),
    /// A client leaves.
    Leave(ExchangeId),
    /// Something happens to servers: one of the model's events.
    Change { index: u32 },
    /// A probe begins.
    Probe { proxy: u32, server: u32 },
    /// A probe that was not answered at once has taken its time.
    ProbeOver { proxy: u32, server: u32, began_ms: u64 },
    /// The share of a server that came back grows.
    Ramp { proxy: u32, server: u32, token: u32 },
}

/// An exchange, as long as it lasts: places are used again, numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExchangeId {
    place: u32,
    number: u64,
}

/// One attempt of an exchange, or its wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attempt {
    exchange: ExchangeId,
    attempt: u32,
}

/// The world of one variant.
struct Run<'a> {
    model: &'a Model,
    interrupted: &'a AtomicBool,
    upstream: &'a Upstream,
    seed: u64,
    agenda: Agenda<Event>,
    servers: Vec<Server>,
    /// Balancers, each made when its first request comes: most of a thousand are idle in a short simulation.
    proxies: Vec<Option<Box<Proxy>>>,
    exchanges: Slab<Exchange>,
    /// Exchanges so far.
    begun: u64,
    clients: Clients,
    tally: Tally,
}

/// Simulates one variant; the same model, variant and seed give the same figures. `None` when it was `interrupted`.
pub(super) fn run(model: &Model, variant: &Variant, seed: u64, interrupted: &AtomicBool) -> Option<Tally> {
    let mut run = Run {
        model,
        interrupted,
        upstream: &variant.upstream,
        seed,
        agenda: Agenda::new(),
        servers: model.each_server().map(Server::new).collect(),
        proxies: std::iter::repeat_with(|| None).take(model.balancers as usize).collect(),
        exchanges: Slab::new(),
        begun: 0,
        clients: Clients::new(model),
        tally: Tally::new(model),
    };
    for index in 0..model.events.len() {
        run.agenda.enter(model.events[index].at, Event::Change { index: index as u32 });
    }
    if variant.upstream.health.is_some() {
        for proxy in 0..model.balancers {
            run.start_probing(proxy);
        }
    }
    run.start_clients();
    run.go_on().then(|| run.end())
}

impl Run<'_> {
    /// Until no request is under way and none will begin; false when it was interrupted before.
    fn go_on(&mut self) -> bool {
        while self.agenda.now() < self.model.length || !self.exchanges.is_empty() {
            let Some(event) = self.agenda.next() else { break };
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            match event {
                Event::Begin { class, client } => self.begin_closed(class, client),
                Event::Arrive { class } => self.arrive(class),
                Event::Done { server, job, token } => self.server_done(server, job, token),
                Event::Refused(attempt) => self.refused(attempt),
                Event::ResponseTimeout(attempt) => self.response_timeout(attempt),
                Event::QueueTimeout(attempt) => self.queue_timeout(attempt),
                Event::TakeAny(attempt) => self.take_any(attempt),
                Event::Leave(exchange) => self.client_leaves(exchange),
                Event::Change { index } => self.change_servers(self.model.events[index as usize]),
                Event::Probe { proxy, server } => self.probe(proxy, server),
                Event::ProbeOver { proxy, server, began_ms } => self.probe_over(proxy, server, began_ms),
                Event::Ramp { proxy, server, token } => self.ramp(proxy, server, token),
            }
        }
        true
    }

    fn end(mut self) -> Tally {
        let now = self.agenda.now();
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.settle(now, self.model);
            self.tally.server(index, server.figures());
        }
        self.tally
    }

    /// Something happens to servers; connections that break take their requests with them.
    fn change_servers(&mut self, event: ServerEvent) {
        for index in event.first..=event.last {
            let now = self.agenda.now();
            let broken = self.servers[index as usize].change(event.action, now, self.model);
            for attempt in broken {
                self.broken(attempt);
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
mod tests;
