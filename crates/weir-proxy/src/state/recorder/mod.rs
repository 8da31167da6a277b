//! The flight recorder of one worker: what it keeps of exchanges that are over, so that somebody can ask later why they went as they did.
//!
//! The worker alone writes and reads it: whoever wants to know sends a message, which is answered between two steps of the event loop.
//! No lock, and no allocation once the rings have their memory. Must not make sentences: that is for whoever asks.

mod ring;
mod story;
mod words;
mod entry;
mod names;
mod desk;

use std::cell::RefCell;

use weir_config::Protocol;
use weir_observe::{Failure, Phase};

use self::ring::Ring;
use self::words::PackedWords;
use crate::net::clock::{self, Instant};
use crate::downstream::session::Session;
use crate::net::peer::Peer;
use crate::exchange::{Exchange, forwarded};
use crate::state::view::View;
pub(crate) use desk::{Asked, Desk, Filter, Found, RunningFound, Wanted};
pub(crate) use entry::{Entry, EntryKind, Flight, NONE};
#[cfg(test)]
pub(crate) use names::NamesKept;
pub(crate) use names::{ListenerNames, Names};
pub(crate) use story::{Decision, Story, TRIES_KEPT, Try};
#[cfg(test)]
pub(crate) use words::Words;

/// Of so many exchanges that are kept, room for one that took more than one attempt is kept besides.
const EXCHANGES_PER_RETRIED: usize = 16;

/// What one worker keeps.
#[derive(Debug)]
pub(crate) struct Recorder(RefCell<Rings>);

#[derive(Debug)]
struct Rings {
    number: u64,
    /// Successes at the first attempt.
    exchanges: Ring<Entry>,
    /// Successes that took more attempts.
    retried: Ring<Flight>,
    /// Failures, which no success pushes out.
    failures: Ring<Flight>,
    blank: Flight,
}

impl Recorder {
    /// A recorder of these sizes; `None` if nothing is to be kept.
    pub(crate) fn new(limits: &weir_config::Recorder) -> Option<Self> {
        let (exchanges, failures) = (limits.exchanges as usize, limits.failures as usize);
        (exchanges + failures > 0).then(|| {
            Self(RefCell::new(Rings {
                number: 0,
                exchanges: Ring::new(exchanges),
                retried: Ring::new(exchanges.div_ceil(EXCHANGES_PER_RETRIED)),
                failures: Ring::new(failures),
                blank: Flight::blank(clock::now()),
            }))
        })
    }

    /// Keeps an exchange that is over.
    #[inline]
    pub(crate) fn record(&self, session: &Session, exchange: &Exchange, view: &View) {
        let Ok(mut rings) = self.0.try_borrow_mut() else { return };
        if exchange.record.failure.is_some() || exchange.story.seen() > 1 || exchange.told.is_some() {
            return rings.record_whole(session, exchange, view);
        }
        let Rings { number, exchanges, blank, .. } = &mut *rings;
        *number += 1;
        if let Some(slot) = exchanges.next_slot(&blank.entry) {
            slot.number = *number;
            fill(slot, session, exchange, view);
        }
    }

    /// Keeps a client connection that ended before there was an exchange on it.
    #[cold]
    pub(crate) fn record_session(
        &self,
        failure: Failure,
        peer: Peer,
        session: u64,
        generation: u64,
        listener: usize,
        opened_at: Instant,
    ) {
        let Ok(mut rings) = self.0.try_borrow_mut() else { return };
        let Rings { number, failures, blank, .. } = &mut *rings;
        *number += 1;
        let Some(slot) = failures.next_slot(blank) else { return };
        *slot = *blank;
        slot.entry = Entry {
            number: *number,
            session,
            began: opened_at,
            ended: clock::now(),
            generation,
            listener: listener as u32,
            peer,
            failure: Some(failure),
            kind: EntryKind::Session,
            ..blank.entry
        };
    }
}

impl Rings {
    /// Keeps one that failed, took several attempts, or has been a tunnel.
    #[cold]
    fn record_whole(&mut self, session: &Session, exchange: &Exchange, view: &View) {
        self.number += 1;
        let mut flight = self.blank;
        flight.entry.number = self.number;
        flight.set(session, exchange, view);
        let is_failure = exchange.record.failure.is_some();
        if !is_failure && flight.entry.tries_seen <= 1 {
            if let Some(slot) = self.exchanges.next_slot(&self.blank.entry) {
                *slot = flight.entry;
            }
            return;
        }
        let ring = if is_failure { &mut self.failures } else { &mut self.retried };
        if let Some(slot) = ring.next_slot(&self.blank) {
            *slot = flight;
        }
    }
}

impl Flight {
    /// Everything that is known of an exchange that is over.
    #[cold]
    pub(crate) fn whole(session: &Session, exchange: &Exchange, view: &View) -> Self {
        let mut flight = Self::blank(exchange.record.began);
        flight.set(session, exchange, view);
        flight
    }

    /// An exchange that still runs, in `phase` by now; `None` as long as nothing is known of it.
    pub(crate) fn running(session: &Session, exchange: &Exchange, phase: Phase) -> Option<Self> {
        let now = clock::now();
        let mut flight = Self::blank(now);
        flight.set(session, exchange, exchange.record.ground()?);
        let (entry, record) = (&mut flight.entry, &exchange.record);
        entry.times.add(phase, now.micros_since(record.accounted));
        entry.ended = now;
        entry.bytes_in += exchange.request_body.received() + record.tunnelled.map_or(0, |(up, _)| up);
        Some(flight)
    }

    /// Everything but the number.
    fn set(&mut self, session: &Session, exchange: &Exchange, view: &View) {
        let (story, told) = (&exchange.story, exchange.told.as_deref());
        let entry = &mut self.entry;
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
            for (slot, noted) in self.later_tries.iter_mut().zip(later) {
                *slot = *noted;
            }
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
    entry.words.set(session, exchange);
}

fn kind(session: &Session, exchange: &Exchange) -> EntryKind {
    match session.protocol {
        Protocol::Tcp => EntryKind::Connection,
        Protocol::Http if exchange.told.is_some() => EntryKind::Tunnel,
        Protocol::Http => EntryKind::Request,
    }
}

/// What a tunnel keeps of its beginning until it is over, in as little memory as can be.
#[derive(Debug)]
pub(crate) struct Told {
    words: PackedWords,
    client: Option<std::net::IpAddr>,
    tries: Box<[Try]>,
    tries_seen: u8,
}

impl Told {
    /// That of an exchange which becomes a tunnel.
    pub(crate) fn of(session: &Session, exchange: &Exchange, view: &View) -> Box<Self> {
        let mut entry = Entry::blank(exchange.record.began);
        fill_rare(&mut entry, session, exchange, view);
        Box::new(Self {
            words: entry.words.packed(),
            client: entry.client,
            tries: exchange.story.tries().into(),
            tries_seen: exchange.story.seen(),
        })
    }
}
