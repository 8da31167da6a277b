//! Phase Finish: the server connection becomes idle or closes, the figures are counted, the log line is written.

use std::time::Duration;

use weir_config::ListenerProtocol;
use weir_observe::Phase;

use super::attempt::{Plans, Serving};
use super::record::Record;
use super::{After, Exchange, log, recording, trace};
use crate::downstream::session::Session;
use crate::net::clock;
use crate::state::view::View;

/// Gives the server connection back if it can be used again; tells what becomes of the client's.
pub(crate) fn run(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    serving: Serving,
) -> After {
    let now = clock::now();
    session.now = now;
    exchange.record.spend(Phase::Relay, now);
    let request_sent = exchange.request_relay.is_done() && !serving.send_failed;
    let head_says = exchange.server_keeps_alive;
    if request_sent && head_says && !session.worker.is_stopping() {
        let announced = exchange.keep_alive_announced.map(|seconds| Duration::from_secs(u64::from(seconds)));
        return_to_pool(session, plans, serving, announced);
    }
    // Whoever did not say that this is its last request may have sent another by now. Bytes that nobody reads would turn the
    // close into a reset, and the client would lose what it has not fetched of the response (RFC 9112 section 9.6).
    let was_last = !exchange.request.keep_alive() && !session.client.has_input();
    match (exchange.request_body.is_finished(), exchange.keep_alive) {
        (true, true) => After::KeepAlive,
        (true, false) if was_last => After::Close,
        _ => After::Linger,
    }
}

/// Keeps the server connection for whoever may use it: any client, or this one if the server was told whose it is.
fn return_to_pool(session: &mut Session, plans: Plans<'_>, serving: Serving, announced: Option<Duration>) {
    let (plan, now) = (plans.upstream, session.now);
    let server = serving.slot.server.index();
    let is_private = serving.server.is_private;
    if plan.config.proxy_protocol.is_none() && !is_private {
        plans.view.return_to_pool(plans.upstream_index, server, serving.server, now, announced);
    } else if plan.shared_pool[server].is_none() || is_private {
        // A server with a limit may serve no other client while a client that is silent holds a connection to it; but without this one,
        // the client could not authenticate at all.
        session.pinned.keep(serving.server, plans.server(server), now, &plan.pool_limits, announced);
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
pub(crate) fn record(session: &mut Session, exchange: &mut Exchange) {
    let view = exchange.record.view(session);
    let record = &mut exchange.record;
    if let Some(failure) = record.failure {
        // The phase in which it ended.
        let now = clock::now();
        session.now = now;
        record.spend(failure.phase, now);
    }
    record.bytes_in += exchange.request_body.received();
    let listener = &session.listener.shard;
    let came = record.failure.is_none_or(|failure| failure.phase > Phase::Tls);
    if came && session.protocol == ListenerProtocol::Http {
        listener.requests.increment();
    }
    listener.bytes_in.add(record.bytes_in);
    listener.bytes_out.add(exchange.to_client.sent);
    if record.status != 0 {
        listener.responses.record(record.status);
    }
    if let Some(failure) = record.failure {
        listener.failures.record(failure);
    }
    count_route(record, &view, session.worker.index);
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
    log::write(session, exchange, &view);
    recording::record(session, exchange, &view);
    if exchange.record.trace.sampled().is_some() {
        trace::hand_over(session, exchange, &view);
    }
}
