//! A query about open connections, and the answer of one worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{ConnectionId, ConnectionInfo, Slowness, Unfinished};
use crate::net::clock::{self, Instant};
use crate::net::timing::deadline::Cut;

/// A filter for connections, and whether they have to end.
#[derive(Debug, Clone, Default)]
pub struct ConnectionQuery {
    /// One connection by its id.
    pub connection: Option<ConnectionId>,
    /// Those of one worker with these numbers.
    pub numbers: Option<BTreeSet<u64>>,
    /// The id of the request that it carries.
    pub request_id: Option<Box<[u8]>>,
    /// Those of this listener.
    pub listener: Option<Box<str>>,
    /// Those whose exchange is at this upstream.
    pub upstream: Option<Box<str>>,
    /// Those whose exchange is at this server.
    pub server: Option<Box<str>>,
    /// Those at least this old.
    pub age_min: Duration,
    /// Only those without a whole request head.
    pub is_unfinished: bool,
    /// Maximum number of listed connections, the oldest of all.
    pub count_max: usize,
    /// Why the matching connections have to end, listed or not; `None`: they go on.
    pub ends: Option<Cut>,
}

impl ConnectionQuery {
    /// Whether it means this connection.
    pub(super) fn takes(&self, candidate: &ConnectionFacts<'_>) -> bool {
        let age = || clock::now().saturating_duration_since(candidate.opened_at);
        let is = |wanted: &Option<Box<str>>, name: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| name == Some(wanted))
        };
        self.connection.is_none_or(|id| id.number == candidate.number)
            && self.numbers.as_ref().is_none_or(|numbers| numbers.contains(&candidate.number))
            && self.request_id.as_deref().is_none_or(|id| candidate.request_id == Some(id))
            && is(&self.listener, Some(candidate.listener))
            && is(&self.upstream, candidate.upstream)
            && is(&self.server, candidate.server)
            && (!self.is_unfinished || candidate.unfinished.is_some())
            && (self.age_min.is_zero() || age() >= self.age_min)
    }
}

/// The facts of one client connection that a query filters by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionFacts<'a> {
    /// Its number among those of the worker.
    pub(crate) number: u64,
    pub(crate) opened_at: Instant,
    pub(crate) listener: &'a str,
    /// The number of the listener in the process.
    pub(crate) listener_number: u16,
    /// The id of the request that it carries, if it carries one.
    pub(crate) request_id: Option<&'a [u8]>,
    /// Where its exchange is, as far as that is known.
    pub(crate) upstream: Option<&'a str>,
    pub(crate) server: Option<&'a str>,
    /// How slow its client is, if Weir waits for it.
    pub(crate) slowness: Option<Slowness>,
    /// Since when it has no whole request head.
    pub(crate) unfinished: Option<Unfinished>,
}

/// A query to one worker.
#[derive(Debug)]
pub struct ConnectionQueryMessage {
    /// The connections that are meant.
    pub query: Arc<ConnectionQuery>,
    /// Takes the answer.
    pub answer: oneshot::Sender<FoundOnWorker>,
}

/// What one worker answers.
#[derive(Debug, Default)]
pub struct FoundOnWorker {
    /// The listed connections, the oldest first.
    pub connections: Vec<ConnectionInfo>,
    /// Connections that the question means.
    pub matching: usize,
    /// Connections that were queried.
    pub asked: usize,
    /// Queried connections that did not answer.
    pub silent: usize,
}
