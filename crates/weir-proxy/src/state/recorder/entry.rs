//! What is kept of one exchange that is over: numbers and a few words, of a fixed size.

use std::net::IpAddr;

use weir_observe::{AffinityOutcome, Failure, Party, PhaseTimes};

pub(crate) use super::story::NONE;
use super::story::{TRIES_KEPT, Try};
use super::words::Words;
use crate::net::clock::Instant;
use crate::net::peer::Peer;

/// One exchange that is over, with its only attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Its number among those of the worker, from 1.
    pub(crate) number: u64,
    /// The number of its session among those of the worker, from 1; 0 for a connection that was refused before it was one.
    pub(crate) session: u64,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// The config that `listener` and `route` are of.
    pub(crate) generation: u64,
    /// The config that `upstream` and `server` are of.
    pub(crate) served_generation: u64,
    pub(crate) listener: u32,
    pub(crate) route: u32,
    pub(crate) upstream: u32,
    pub(crate) server: u32,
    pub(crate) peer: Peer,
    /// The client, when a trusted proxy names another than the peer.
    pub(crate) client: Option<IpAddr>,
    pub(crate) times: PhaseTimes,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) attempts: u32,
    pub(crate) queue_position: u32,
    pub(crate) status: u16,
    pub(crate) kind: EntryKind,
    pub(crate) is_tls: bool,
    /// Whether the connection of the client went on.
    pub(crate) client_stays: bool,
    /// Who ended a tunnel, or its direction of it first.
    pub(crate) ended_by: Option<Party>,
    pub(crate) kept: Option<AffinityOutcome>,
    /// Attempts on servers, those on connections that had died among them.
    pub(crate) tries_seen: u8,
    pub(crate) first_try: Try,
    /// The id of its trace; zeros when traces are off.
    pub(crate) trace_id: [u8; 16],
    pub(crate) words: Words,
}

/// What kind of exchange it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A request and its response.
    Request,
    /// A request that became a tunnel.
    Tunnel,
    /// A connection of a TCP listener.
    Connection,
    /// A client connection that ended before anything was asked on it.
    Session,
}

impl Entry {
    pub(crate) fn blank(now: Instant) -> Self {
        Self {
            number: 0,
            session: 0,
            began: now,
            ended: now,
            generation: 0,
            served_generation: 0,
            listener: 0,
            route: NONE,
            upstream: NONE,
            server: NONE,
            peer: Peer::Unix,
            client: None,
            times: PhaseTimes::ZERO,
            bytes_in: 0,
            bytes_out: 0,
            failure: None,
            attempts: 0,
            queue_position: 0,
            status: 0,
            kind: EntryKind::Request,
            is_tls: false,
            client_stays: false,
            ended_by: None,
            kept: None,
            tries_seen: 0,
            first_try: Try::blank(now),
            trace_id: [0; 16],
            words: Words::none(),
        }
    }
}

/// An exchange with room for several attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) entry: Entry,
    /// The attempts behind the first.
    pub(crate) later_tries: [Try; TRIES_KEPT - 1],
}

impl Flight {
    pub(crate) fn blank(now: Instant) -> Self {
        Self { entry: Entry::blank(now), later_tries: [Try::blank(now); TRIES_KEPT - 1] }
    }

    /// One that has no more than one attempt.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { entry: *entry, ..Self::blank(entry.began) }
    }

    /// All attempts that were noted.
    pub(crate) fn tries(&self) -> impl Iterator<Item = &Try> {
        let seen = usize::from(self.entry.tries_seen).min(TRIES_KEPT);
        std::iter::once(&self.entry.first_try).chain(&self.later_tries).take(seen)
    }
}

// What the reference of the config says about the memory.
const _: () = assert!(size_of::<Entry>() <= 576 && size_of::<Flight>() <= 1024);
