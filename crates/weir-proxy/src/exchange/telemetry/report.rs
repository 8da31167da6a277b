//! The report of a client connection on request: what it waits for, and its exchange so far.
//!
//! For a query the worker wakes its connections, and each answers at its wait. A query can also end
//! connections.

use std::task::Poll;

use weir_observe::Failure;

use super::recording;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::net::clock::{self, Instant};
use crate::state::connections::activity::Activity;
use crate::state::connections::connection_list::{
    ConnectionFacts, ConnectionId, ConnectionInfo, Slowness, Unfinished,
};
use crate::state::tracing::recorder::NONE;

impl Client {
    /// Reports the activity of the connection between two exchanges, if there is a query that it has not answered. To be called at
    /// every wait, before the deadline is checked: the query may end the connection.
    #[inline]
    pub(crate) fn report_idle(&mut self, activity: Activity) {
        self.worker.connection_list.note_wait(activity);
        if self.has_open_query() {
            self.answer(activity, None);
        }
    }

    /// The same during an exchange.
    #[inline]
    pub(crate) fn report(&mut self, activity: Activity, stream: &impl ClientEnd, exchange: &mut Exchange) {
        self.worker.connection_list.note_wait(activity);
        if self.has_open_query() {
            exchange.record.update(stream);
            self.answer(activity, Some(exchange));
        }
    }

    /// Whether there is a query that it has not answered.
    #[inline]
    pub(crate) fn has_open_query(&self) -> bool {
        self.answered_query != self.worker.connection_list.query_number()
    }

    #[cold]
    pub(in crate::exchange) fn answer(&mut self, activity: Activity, exchange: Option<&Exchange>) {
        self.answered_query = self.worker.connection_list.query_number();
        let plan = std::sync::Arc::clone(&self.listener.plan());
        let candidate = candidate(self, &plan.config.name, activity, exchange);
        let info = || info_of(self, activity, exchange);
        if let Some(why) = self.worker.connection_list.report(&candidate, info) {
            self.deadline.cut(why);
        }
    }
}

impl<S: ClientEnd, U> Context<'_, S, U> {
    /// The same as [`Client::report`].
    #[inline(always)]
    pub(in crate::exchange) fn report(&mut self, activity: Activity) {
        self.client.report(activity, self.stream, self.exchange);
    }

    /// Waits for `awaited`, which has moved `moved` bytes so far; ready when the time is up.
    #[inline(always)]
    pub(in crate::exchange) fn poll_over(&mut self, awaited: Activity, moved: u64) -> Poll<Failure> {
        self.exchange.waits.poll_over(&mut self.client.deadline, awaited, moved)
    }
}

/// The facts that a query filters by.
fn candidate<'a>(
    client: &Client,
    listener: &'a str,
    activity: Activity,
    exchange: Option<&'a Exchange>,
) -> ConnectionFacts<'a> {
    let record = exchange.map(|exchange| &exchange.record);
    let plan = record.and_then(|record| Some(&record.served()?.snapshot.upstreams[record.upstream?].config));
    // An exchange that waits in the queue may have been on a server before, on which an attempt has failed.
    let server = record.filter(|_| activity != Activity::Queue).and_then(|record| record.server);
    ConnectionFacts {
        number: client.number,
        opened_at: client.opened_at,
        listener,
        listener_number: client.listener.state.number,
        request_id: record.map(|record| &record.request_id[..]),
        upstream: plan.map(|plan| &*plan.name),
        slowness: slowness(client, activity, exchange),
        unfinished: Unfinished::new(
            activity,
            client.requests > 0,
            record.map_or(client.opened_at, |record| record.began),
            clock::now(),
        ),
        server: plan.zip(server).and_then(|(plan, server)| Some(&*plan.servers.get(server)?.name)),
    }
}

/// How slow the client is: by what it has sent and taken since its exchange began, or since it is connected.
fn slowness(client: &Client, activity: Activity, exchange: Option<&Exchange>) -> Option<Slowness> {
    let (moved, began) = match exchange.map(|exchange| &exchange.record) {
        Some(record) => {
            let (sent, taken) = record.tunnelled.as_ref().map_or((0, 0), |bytes| bytes.moved);
            (record.body_in.max(sent) + record.bytes_out.max(taken), record.began)
        }
        None => (0, client.opened_at),
    };
    Slowness::new(activity, moved, clock::now().saturating_duration_since(began))
}

fn info_of(client: &Client, activity: Activity, exchange: Option<&Exchange>) -> ConnectionInfo {
    let phase = activity.phase(exchange.is_some_and(|exchange| exchange.answered));
    let recorded =
        exchange.zip(phase).and_then(|(exchange, phase)| recording::running(client, exchange, phase));
    let recorded = recorded.map(|mut recorded| {
        if activity == Activity::Queue {
            // That of an attempt that has failed.
            recorded.entry.server = NONE;
        }
        Box::new(recorded)
    });
    ConnectionInfo {
        id: ConnectionId { worker: client.worker.index, number: client.number },
        opened_at: client.opened_at,
        since: exchange.map_or(client.now, |exchange| since(exchange, activity)),
        activity,
        phase,
        protocol: client.protocol,
        listener: client.listener.plan().config.name.clone(),
        peer: client.peer,
        sender: client.named_sender(),
        transport: client.transport,
        requests: client.requests,
        recorded,
    }
}

/// The end of the phase before, or the beginning of the attempt.
fn since(exchange: &Exchange, activity: Activity) -> Instant {
    let accounted = exchange.record.accounted;
    let attempt = exchange.attempt_trace.latest().filter(|_| activity.is_attempt());
    attempt.map_or(accounted, |attempt| attempt.began.max(accounted))
}
