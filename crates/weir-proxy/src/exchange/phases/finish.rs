//! Phase Finish: the server connection becomes idle or closes, the figures are counted, the log line is written.

use weir_config::{Feature, Stage};
use weir_observe::{Failure, Phase};
use weir_traffic::table::ExchangeResult;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::record::Record;
use crate::exchange::telemetry::{log, recording, trace};
use crate::net::clock::{self, Instant};
use crate::state::worker_config::WorkerConfig;
use crate::upstream::stream::{ServerStream as _, Servers};

/// Bytes of the first line of a head that could not be read, as far as they are kept.
const FIRST_LINE_MAX: usize = 256;

/// Gives the stream back, whose connection may be used again.
#[inline(always)]
pub(in crate::exchange) fn run<U: Servers, S>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: RespondingServer<U::Stream>,
) {
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Relay, now);
    context.exchange.record.sent_to_server += responding.server.sent();
    let was_sent = context.exchange.request_relay.is_done() && !responding.send_failed;
    let may_keep = was_sent && !context.client.worker.is_stopping();
    context.servers.finish(
        responding.server,
        plans.to(responding.slot.server),
        &mut context.client.pinned,
        now,
        may_keep,
    );
}

/// Counts the exchange for the route that took it.
fn count_route(record: &Record, config: &WorkerConfig, worker: usize) {
    let Some(route) = record.route else { return };
    let plan = &config.snapshot.listeners[record.listener()].route_plans[route];
    if let Some((result, cache)) = record.cache.zip(plan.cache.as_ref()) {
        cache.plan.state.shards.of(worker).requests[result as usize].increment();
    }
    let shard = plan.shards.of(worker);
    shard.requests.increment();
    if record.status != 0 {
        shard.responses.record(record.status);
    }
    if record.failure.is_some() {
        shard.failures.increment();
    }
}

/// Counts the exchange where limits and tables count what it has come to.
#[cold]
fn settle(exchange: &mut Exchange, now: Instant) {
    let Record { status, bytes_in, body_in, bytes_out, .. } = exchange.record;
    if !exchange.limits.tracked.is_empty() {
        acting::note(Stage::Finish, Feature::Tables);
    }
    acting::note(Stage::Finish, Feature::Limits);
    // A failure is one, whatever the page in its place says: a redirect to a login page does not hide a wrong password.
    let status = exchange.failed_page().map_or(status, |page| page.replaced);
    exchange.limits.settle(ExchangeResult { status, bytes_in: bytes_in + body_in, bytes_out }, now);
}

/// Counts the exchange, writes its line of the access log, and records it.
pub(in crate::exchange) fn record<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    let config = context.config;
    if context.exchange.record.tunnelled.is_none() {
        context.exchange.record.update(context.stream);
    }
    if context.exchange.request_text.is_empty() {
        keep_first_line(context);
    }
    if context.exchange.limits.is_asked() {
        settle(context.exchange, context.client.now);
    }
    let grpc_status = context.exchange.grpc_status();
    let record = &mut context.exchange.record;
    if let Some(failure) = record.failure {
        // The phase in which it ended.
        let now = clock::now();
        context.client.now = now;
        record.spend(failure.phase, now);
    }
    record.bytes_in += record.body_in;
    let listener = &context.client.listener.shard;
    let came = record.failure.is_none_or(|failure| failure.phase > Phase::Tls);
    if came && context.client.protocol.routes_requests() {
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
    count_route(record, config, context.client.worker.index);
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
        if let Some(status) = grpc_status {
            upstream.grpc_statuses[status as usize].increment();
        }
        if let Some(server) = record.server {
            let shard = &served.server(index, server).shard;
            let (up, down) = record.tunnelled.as_ref().map_or((0, 0), |bytes| bytes.credited);
            if !record.is_own_answer {
                shard.bytes_in.add(context.exchange.response_relay.moved - down);
            }
            shard.bytes_out.add(record.sent_to_server - up);
        }
    }
    let (client, exchange) = (&*context.client, &*context.exchange);
    acting::note(Stage::Finish, Feature::Telemetry);
    log::write(client, context.stream, exchange, config);
    recording::record(client, exchange, config);
    if exchange.record.trace.sampled().is_some() {
        trace::hand_over(client, exchange, config);
    }
}

/// Writes the line of a failure that is no exchange's: the client has broken a rule of its connection.
#[cold]
pub(crate) fn log_connection_failure(client: &Client, connection: &impl ClientEnd, failure: Failure) {
    let mut exchange = Exchange::new();
    exchange.record.began = client.now;
    exchange.record.failure = Some(failure);
    let config = exchange.record.begin_config(client);
    log::write(client, connection, &exchange, &config);
}

/// Keeps the beginning of what the client sent in place of a head, for the recorder.
#[cold]
fn keep_first_line<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    // What is not HTTP at all is not recorded, nor what the client of a TCP listener sends.
    let is_head = context.client.protocol.routes_requests()
        && context.exchange.record.failure.is_some_and(|failure| failure.phase == Phase::Request);
    if is_head {
        let line = context.stream.unread().split(|byte| matches!(byte, b'\r' | b'\n' | b'?')).next();
        let line = line.unwrap_or_default();
        let line = line[..line.len().min(FIRST_LINE_MAX)].into();
        context.exchange.rare.get_or_insert_default().first_line = line;
    }
}
