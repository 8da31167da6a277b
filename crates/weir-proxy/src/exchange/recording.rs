//! What the flight recorder keeps of an exchange, as a plain record.

use weir_config::ListenerProtocol;
use weir_observe::Phase;

use super::{Exchange, forwarded};
use crate::downstream::session::Session;
use crate::net::clock;
use crate::state::recorder::{Entry, EntryKind, Flight, NONE, RequestWords, TunnelTrace};
use crate::state::view::View;

/// Keeps an exchange that is over, if its worker keeps any.
#[inline]
pub(crate) fn record(session: &Session, exchange: &Exchange, view: &View) {
    let Some(recorder) = &session.worker.recorder else { return };
    if exchange.record.failure.is_some() || exchange.story.seen() > 1 || exchange.told.is_some() {
        return recorder.keep_whole(|flight| set(flight, session, exchange, view));
    }
    recorder.keep(|entry| fill(entry, session, exchange, view));
}

/// Everything that is known of an exchange that is over.
#[cold]
pub(crate) fn whole(session: &Session, exchange: &Exchange, view: &View) -> Flight {
    let mut flight = Flight::blank(exchange.record.began);
    set(&mut flight, session, exchange, view);
    flight
}

/// An exchange that still runs, in `phase` by now; `None` as long as nothing is known of it.
pub(crate) fn running(session: &Session, exchange: &Exchange, phase: Phase) -> Option<Flight> {
    let now = clock::now();
    let mut flight = Flight::blank(now);
    set(&mut flight, session, exchange, exchange.record.ground()?);
    let (entry, record) = (&mut flight.entry, &exchange.record);
    entry.times.add(phase, now.micros_since(record.accounted));
    entry.ended = now;
    entry.bytes_in += exchange.request_body.received() + record.tunnelled.map_or(0, |(up, _)| up);
    Some(flight)
}

/// What is kept of the beginning of an exchange that becomes a tunnel.
pub(crate) fn tunnel_trace(session: &Session, exchange: &Exchange, view: &View) -> Box<TunnelTrace> {
    let mut entry = Entry::blank(exchange.record.began);
    fill_rare(&mut entry, session, exchange, view);
    Box::new(TunnelTrace {
        words: entry.words.packed(),
        client: entry.client,
        tries: exchange.story.tries().into(),
        tries_seen: exchange.story.seen(),
    })
}

/// Everything but the number.
fn set(flight: &mut Flight, session: &Session, exchange: &Exchange, view: &View) {
    let (story, told) = (&exchange.story, exchange.told.as_deref());
    let entry = &mut flight.entry;
    fill_rare(entry, session, exchange, view);
    let (tries, seen) = match told {
        None => (story.tries(), story.seen()),
        Some(told) => {
            told.words.unpack_into(&mut entry.words);
            entry.client = told.client;
            (&*told.tries, told.tries_seen)
        }
    };
    (entry.tries_seen, entry.kind) = (seen, kind(session, exchange));
    if let Some((first, later)) = tries.split_first() {
        entry.first_try = *first;
        for (slot, noted) in flight.later_tries.iter_mut().zip(later) {
            *slot = *noted;
        }
    }
}

/// The same for those that are rare.
#[cold]
#[inline(never)]
fn fill_rare(entry: &mut Entry, session: &Session, exchange: &Exchange, view: &View) {
    fill(entry, session, exchange, view);
}

/// Everything but the number.
#[inline(always)]
fn fill(entry: &mut Entry, session: &Session, exchange: &Exchange, view: &View) {
    let record = &exchange.record;
    let index = |place: Option<usize>| place.map_or(NONE, |place| place as u32);
    entry.session = session.number;
    entry.began = record.began;
    entry.ended = record.accounted;
    entry.generation = view.snapshot.generation;
    entry.served_generation = record.moved_to().unwrap_or(entry.generation);
    entry.listener = record.listener() as u32;
    entry.route = index(record.route);
    entry.upstream = index(record.upstream);
    entry.server = index(record.server);
    entry.peer = session.peer;
    let listener = &view.snapshot.listeners[record.listener()];
    entry.client = None;
    if listener.trusts(session.peer) {
        let client = forwarded::client_address(session, exchange, listener);
        entry.client = (Some(client) != session.peer.ip()).then_some(client);
    }
    entry.times = record.times;
    entry.bytes_in = record.bytes_in;
    entry.bytes_out = exchange.to_client.sent;
    entry.failure = record.failure;
    entry.attempts = record.attempts;
    entry.queue_position = record.queue_position;
    entry.status = record.status;
    entry.kind = EntryKind::Request;
    entry.is_tls = session.client.tls.is_some();
    entry.client_stays = exchange.keep_alive;
    entry.ended_by = record.ended_by;
    entry.kept = record.kept;
    entry.tries_seen = exchange.story.seen();
    entry.first_try = *exchange.story.first();
    entry.trace_id = record.trace.id().to_be_bytes();
    set_words(entry, session, exchange);
}

fn kind(session: &Session, exchange: &Exchange) -> EntryKind {
    match session.protocol {
        ListenerProtocol::Tcp => EntryKind::Connection,
        ListenerProtocol::Http if exchange.told.is_some() => EntryKind::Tunnel,
        ListenerProtocol::Http => EntryKind::Request,
    }
}

/// The words of the request: those of its head or, without one that could be read, the beginning of its first line or the
/// server name of TLS.
#[inline(always)]
fn set_words(entry: &mut Entry, session: &Session, exchange: &Exchange) {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let id = &exchange.record.request_id[..];
    if text.is_empty() {
        return set_words_without_head(entry, session, exchange);
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
fn set_words_without_head(entry: &mut Entry, session: &Session, exchange: &Exchange) {
    // What is not HTTP at all is not recorded, nor what the client of a TCP listener sends.
    let is_head = session.protocol == ListenerProtocol::Http
        && exchange.record.failure.is_some_and(|failure| failure.phase == Phase::Request);
    let received = if is_head { session.client.received() } else { b"" };
    let line = received.split(|byte| matches!(byte, b'\r' | b'\n' | b'?')).next().unwrap_or_default();
    entry.words.set_without_head(&exchange.record.request_id, line, &exchange.server_name);
}
