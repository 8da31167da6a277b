//! Phase Finish: the server connection becomes idle or closes, the figures are counted, the log line is written.

use std::time::Duration;

use weir_config::ListenerProtocol;
use weir_observe::Phase;

use super::client::Client;
use super::outcome::Serving;
use super::plans::Plans;
use super::record::Record;
use super::stream::ClientEnd;
use super::{Exchange, log, recording, trace};
use crate::net::clock;
use crate::state::view::View;

/// Gives the server connection back if it can be used again.
pub(crate) fn run(client: &mut Client, exchange: &mut Exchange, plans: Plans<'_>, serving: Serving) {
    let now = clock::now();
    client.now = now;
    exchange.record.spend(Phase::Relay, now);
    let request_sent = exchange.request_relay.is_done() && !serving.send_failed;
    if request_sent && exchange.server_keeps_alive && !client.worker.is_stopping() {
        let announced = exchange.keep_alive_announced.map(|seconds| Duration::from_secs(u64::from(seconds)));
        return_to_pool(client, plans, serving, announced);
    }
}

/// Keeps the server connection for whoever may use it: any client, or this one if the server was told whose it is.
fn return_to_pool(client: &mut Client, plans: Plans<'_>, serving: Serving, announced: Option<Duration>) {
    let (plan, now) = (plans.upstream, client.now);
    let server = serving.slot.server.index();
    let is_private = serving.server.is_private;
    if plan.config.proxy_protocol.is_none() && !is_private {
        plans.view.return_to_pool(plans.upstream_index, server, serving.server, now, announced);
    } else if plan.shared_pool[server].is_none() || is_private {
        // A server with a limit may serve no other client while a client that is silent holds a connection to it; but without this one,
        // the client could not authenticate at all.
        client.pinned.keep(serving.server, plans.server(server), now, &plan.pool_limits, announced);
    }
}

/// Counts the exchange for the route that took it.
fn count_route(record: &Record, view: &View, worker: usize) {
    let Some(route) = record.route else { return };
    let shard = &view.snapshot.listeners[record.listener()].route_plans[route].shards.of(worker);
    shard.requests.increment();
    if record.status != 0 {
        shard.responses.record(record.status);
    }
    if record.failure.is_some() {
        shard.failures.increment();
    }
}

/// Counts the exchange, writes its line of the access log, and keeps what the recorder wants of it.
pub(crate) fn record(client: &mut Client, stream: &impl ClientEnd, exchange: &mut Exchange) {
    let view = exchange.record.view(client);
    if exchange.record.tunnelled.is_none() {
        exchange.record.note(stream);
    }
    if exchange.request_text.is_empty() {
        exchange.keep_first_line(client, stream);
    }
    let record = &mut exchange.record;
    if let Some(failure) = record.failure {
        // The phase in which it ended.
        let now = clock::now();
        client.now = now;
        record.spend(failure.phase, now);
    }
    record.bytes_in += record.body_in;
    let listener = &client.listener.shard;
    let came = record.failure.is_none_or(|failure| failure.phase > Phase::Tls);
    if came && client.protocol == ListenerProtocol::Http {
        listener.requests.increment();
    }
    listener.bytes_in.add(record.bytes_in);
    listener.bytes_out.add(record.bytes_out);
    if record.status != 0 {
        listener.responses.record(record.status);
    }
    if let Some(failure) = record.failure {
        listener.failures.record(failure);
    }
    count_route(record, &view, client.worker.index);
    if let (Some(index), Some(served)) = (record.upstream, record.served()) {
        let upstream = served.upstream_shard(index);
        upstream.requests.increment();
        if record.status != 0 {
            upstream.responses.record(record.status);
            if record.tunnelled.is_none() {
                let micros = record.times.between(Phase::Request, Phase::Finish);
                upstream.exchange_time.record(micros);
            }
        }
        if let Some(failure) = record.failure {
            upstream.failures.record(failure);
        }
        if let Some(server) = record.server {
            let shard = &served.server(index, server).shard;
            let (up, down) = record.credited;
            shard.bytes_in.add(exchange.response_relay.moved - down);
            shard.bytes_out.add(exchange.to_server.sent - up);
        }
    }
    log::write(client, stream, exchange, &view);
    recording::record(client, exchange, &view);
    if exchange.record.trace.sampled().is_some() {
        trace::hand_over(client, exchange, &view);
    }
}
