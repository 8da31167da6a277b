//! Fills the record of an exchange for the flight recorder.

use weir_observe::Phase;

use crate::exchange::context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::net::clock;
use crate::state::tracing::recorder::{Entry, EntryKind, NONE, RecordedExchange, RequestWords, TunnelTrace};
use crate::state::worker_config::WorkerConfig;

/// Keeps an exchange that is over, if its worker keeps any.
#[inline]
pub(crate) fn record(client: &Client, exchange: &Exchange, config: &WorkerConfig) {
    let Some(recorder) = &client.worker.recorder else { return };
    if exchange.record.failure.is_some()
        || exchange.attempt_trace.seen() > 1
        || exchange.tunnel_trace.is_some()
    {
        return recorder.record_full(|recorded| set(recorded, client, exchange, config));
    }
    recorder.record(|entry| fill(entry, client, exchange, config));
}

/// Everything that is known of an exchange that is over.
#[cold]
pub(crate) fn full(client: &Client, exchange: &Exchange, config: &WorkerConfig) -> RecordedExchange {
    let mut recorded = RecordedExchange::blank(exchange.record.began);
    set(&mut recorded, client, exchange, config);
    recorded
}

/// An exchange that still runs, in `phase` by now; `None` as long as nothing is known of it.
pub(crate) fn running(client: &Client, exchange: &Exchange, phase: Phase) -> Option<RecordedExchange> {
    let now = clock::now();
    let mut recorded = RecordedExchange::blank(now);
    set(&mut recorded, client, exchange, exchange.record.config()?);
    let (entry, record) = (&mut recorded.entry, &exchange.record);
    entry.times.add(phase, now.micros_since(record.accounted));
    entry.ended = now;
    entry.bytes_in += record.body_in + record.tunnelled.as_ref().map_or(0, |bytes| bytes.moved.0);
    Some(recorded)
}

/// What is kept of the beginning of an exchange that becomes a tunnel.
pub(crate) fn tunnel_trace(client: &Client, exchange: &Exchange, config: &WorkerConfig) -> Box<TunnelTrace> {
    let mut entry = Entry::blank(exchange.record.began);
    fill_rare(&mut entry, client, exchange, config);
    Box::new(TunnelTrace {
        words: entry.words.packed(),
        client: entry.client,
        attempts: exchange.attempt_trace.attempts().copied().collect(),
        attempts_seen: exchange.attempt_trace.seen(),
    })
}

/// Everything but the number.
fn set(recorded: &mut RecordedExchange, client: &Client, exchange: &Exchange, config: &WorkerConfig) {
    let (trace, tunnel_trace) = (&exchange.attempt_trace, exchange.tunnel_trace.as_deref());
    let entry = &mut recorded.entry;
    fill_rare(entry, client, exchange, config);
    let (attempts, seen) = match tunnel_trace {
        None => (trace.parts(), trace.seen()),
        Some(tunnel_trace) => {
            tunnel_trace.words.unpack_into(&mut entry.words);
            entry.client = tunnel_trace.client;
            (tunnel_trace.attempts.split_first(), tunnel_trace.attempts_seen)
        }
    };
    (entry.attempts_seen, entry.kind) = (seen, kind(client, exchange));
    if let Some((first, later)) = attempts {
        entry.first_attempt = *first;
        for (slot, attempt) in recorded.later_attempts.iter_mut().zip(later) {
            *slot = *attempt;
        }
    }
}

/// The same for those that are rare.
#[cold]
#[inline(never)]
fn fill_rare(entry: &mut Entry, client: &Client, exchange: &Exchange, config: &WorkerConfig) {
    fill(entry, client, exchange, config);
}

/// Everything but the number.
#[inline(always)]
fn fill(entry: &mut Entry, client: &Client, exchange: &Exchange, config: &WorkerConfig) {
    let record = &exchange.record;
    let index = |place: Option<usize>| place.map_or(NONE, |place| place as u32);
    entry.connection = client.number;
    entry.began = record.began;
    entry.ended = record.accounted;
    entry.generation = config.snapshot.generation;
    let served = record.moved_to().unwrap_or(&config.snapshot);
    entry.served_generation = served.generation;
    entry.served_revision = served.revision;
    entry.listener = record.listener() as u32;
    entry.route = index(record.route);
    entry.upstream = index(record.upstream);
    entry.server = index(record.server);
    entry.stopped_by = if exchange.limits.is_asked() { stopped_by(exchange, config) } else { NONE };
    entry.peer = client.peer;
    let listener = &config.snapshot.listeners[record.listener()];
    entry.client = None;
    if listener.trusts(client.peer) {
        let address = context::find_client_address(client, exchange, listener);
        entry.client = (Some(address) != client.peer.ip()).then_some(address);
    }
    entry.times = record.times;
    entry.bytes_in = record.bytes_in;
    entry.bytes_out = record.bytes_out;
    entry.failure = record.failure;
    entry.attempts = record.attempts;
    entry.queue_position = record.queue_position;
    entry.status = record.status;
    entry.kind = EntryKind::Request;
    entry.transport = client.transport;
    entry.client_stays = record.client_stays;
    entry.ended_by = record.ended_by;
    entry.kept = record.affinity;
    entry.cache = (record.cache, record.cache_detail);
    entry.attempts_seen = exchange.attempt_trace.seen();
    entry.first_attempt = *exchange.attempt_trace.first();
    entry.trace_id = record.trace.id().to_be_bytes();
    set_words(entry, exchange);
}

/// The place of the limit or the list that has refused or delayed the exchange.
#[cold]
fn stopped_by(exchange: &Exchange, config: &WorkerConfig) -> u32 {
    let name = exchange.limits.rule_name();
    let place = name.and_then(|name| config.snapshot.rule_names.iter().position(|known| **known == *name));
    place.map_or(NONE, |place| place as u32)
}

fn kind(client: &Client, exchange: &Exchange) -> EntryKind {
    match (client.protocol.routes_requests(), &exchange.tunnel_trace) {
        (false, _) => EntryKind::TcpConnection,
        (true, Some(_)) => EntryKind::Tunnel,
        (true, None) => EntryKind::Request,
    }
}

/// The words of the request: those of its head or, without one that could be read, the beginning of its first line or the
/// server name of TLS.
#[inline(always)]
fn set_words(entry: &mut Entry, exchange: &Exchange) {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let id = &exchange.record.request_id[..];
    if text.is_empty() {
        return set_words_without_head(entry, exchange);
    }
    let words = RequestWords {
        method: request.method(),
        method_text: request.method_span().of(text),
        path: request.path().of(text),
        host: request.authority().of(text),
    };
    entry.words.set(id, &words);
}

#[cold]
fn set_words_without_head(entry: &mut Entry, exchange: &Exchange) {
    entry.words.set_without_head(&exchange.record.request_id, exchange.first_line(), &exchange.server_name);
}
