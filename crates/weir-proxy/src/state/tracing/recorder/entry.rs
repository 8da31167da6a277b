//! What is kept of one exchange that is over: numbers and a few words, of a fixed size.

use std::net::IpAddr;

use weir_observe::{AffinityOutcome, CacheResult, Failure, Party, PhaseTimes};

pub use super::attempt_trace::NONE;
use super::attempt_trace::{ATTEMPTS_KEPT, TracedAttempt};
use super::words::Words;
use crate::net::clock::Instant;
use crate::net::peer::Peer;

/// One exchange that is over, with its only attempt.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its number among those of the worker, from 1.
    pub number: u64,
    /// The number of its connection among those of the worker, from 1; 0 for a connection that was refused before it was one.
    pub connection: u64,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// The config that `listener` and `route` are of.
    pub generation: u64,
    /// The config that `upstream` and `server` are of.
    pub served_generation: u64,
    /// The snapshot that `server` is of: between two configs, a place may go from one server to another.
    pub served_revision: u64,
    /// The place of its listener in the config.
    pub listener: u32,
    /// The place of its route in the listener; [`NONE`] without one.
    pub route: u32,
    /// The place of its upstream in the config; [`NONE`] without one.
    pub upstream: u32,
    /// The place of its server in the upstream; [`NONE`] without one.
    pub server: u32,
    /// The limit or list that has refused or delayed it, as a place in [`SnapshotParts::rule_names`](crate::state::snapshot::SnapshotParts::rule_names);
    /// [`NONE`] without one.
    pub stopped_by: u32,
    /// The other end of the client connection.
    pub peer: Peer,
    /// The client, when a trusted proxy names another than the peer.
    pub client: Option<IpAddr>,
    /// How long each phase took.
    pub times: PhaseTimes,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Attempts on servers.
    pub attempts: u32,
    /// How many were ahead of it in the queue.
    pub queue_position: u32,
    /// The status of the response; 0 without one.
    pub status: u16,
    /// What kind of exchange it was.
    pub kind: EntryKind,
    /// What carried the client's bytes.
    pub transport: ClientTransport,
    /// Whether the connection of the client went on.
    pub client_stays: bool,
    /// The party that ended a tunnel, or its direction of it first.
    pub ended_by: Option<Party>,
    /// What affinity did with it.
    pub kept: Option<AffinityOutcome>,
    /// What the cache did with it, and more about that.
    pub cache: (Option<CacheResult>, Option<&'static str>),
    /// Attempts on servers, those on connections that had died among them.
    pub attempts_seen: u8,
    /// The first attempt.
    pub first_attempt: TracedAttempt,
    /// The id of its trace; zeros when traces are off.
    pub trace_id: [u8; 16],
    /// Method, path, host and request id.
    pub words: Words,
}

/// What carries the bytes of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTransport {
    /// TCP, or a Unix socket.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// QUIC, and HTTP/3 over it.
    Quic,
}

impl ClientTransport {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Quic => "quic",
        }
    }

    /// Whether it is encrypted.
    pub const fn is_encrypted(self) -> bool {
        !matches!(self, Self::Tcp)
    }
}

/// A client connection on which there was no exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnusedConnection {
    pub(crate) peer: Peer,
    pub(crate) transport: ClientTransport,
    /// Its number among those of the worker, from 1; 0 for one that was refused before it was one.
    pub(crate) number: u64,
    pub(crate) opened_at: Instant,
}

/// What kind of exchange it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A request and its response.
    Request,
    /// A request that became a tunnel.
    Tunnel,
    /// A connection of a TCP listener.
    TcpConnection,
    /// A client connection that ended before its first request.
    NoRequest,
}

impl Entry {
    pub(crate) fn blank(now: Instant) -> Self {
        Self {
            number: 0,
            connection: 0,
            began: now,
            ended: now,
            generation: 0,
            served_generation: 0,
            served_revision: 0,
            listener: 0,
            route: NONE,
            upstream: NONE,
            server: NONE,
            stopped_by: NONE,
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
            transport: ClientTransport::Tcp,
            client_stays: false,
            ended_by: None,
            kept: None,
            cache: (None, None),
            attempts_seen: 0,
            first_attempt: TracedAttempt::blank(now),
            trace_id: [0; 16],
            words: Words::none(),
        }
    }
}

/// An exchange with room for several attempts.
#[derive(Debug, Clone, Copy)]
pub struct RecordedExchange {
    /// The exchange, with its first attempt.
    pub entry: Entry,
    /// The attempts behind the first.
    pub later_attempts: [TracedAttempt; ATTEMPTS_KEPT - 1],
}

impl RecordedExchange {
    /// An exchange without anything in it, at `now`.
    pub fn blank(now: Instant) -> Self {
        Self { entry: Entry::blank(now), later_attempts: [TracedAttempt::blank(now); ATTEMPTS_KEPT - 1] }
    }

    /// One that has no more than one attempt.
    pub(crate) fn new(entry: &Entry) -> Self {
        Self { entry: *entry, ..Self::blank(entry.began) }
    }

    /// All attempts that were noted.
    pub fn attempts(&self) -> impl Iterator<Item = &TracedAttempt> {
        let seen = usize::from(self.entry.attempts_seen).min(ATTEMPTS_KEPT);
        std::iter::once(&self.entry.first_attempt).chain(&self.later_attempts).take(seen)
    }
}

// What the reference of the config says about the memory.
const _: () = assert!(size_of::<Entry>() <= 576 && size_of::<RecordedExchange>() <= 1024);
