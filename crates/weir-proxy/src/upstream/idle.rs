//! The idle connections of one worker to one server, most recently used first.
//!
//! A kept connection can die at any moment: it is handed out only when it is quiet and open, young and little used
//! enough, and not beyond the time the server announced. Must not open connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_observe::ServerShard;

use crate::connection::Connection;

/// How many idle connections are kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleLimits {
    pub(crate) connections_max: usize,
    /// Time without use.
    pub(crate) idle_max: Option<Duration>,
    /// Time since the connection was opened.
    pub(crate) age_max: Option<Duration>,
    /// Requests sent on one connection.
    pub(crate) requests_max: u64,
}

/// A connection to a server and its history.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    pub(crate) connection: Connection,
    pub(crate) opened_at: Instant,
    pub(crate) requests: u64,
    /// When the server said, or the limits say, that it must not be used any more.
    usable_until: Option<Instant>,
    shard: Arc<ServerShard>,
}

impl ServerConnection {
    /// A connection that has just been opened; counted as open until it is dropped.
    pub(crate) fn new(connection: Connection, opened_at: Instant, shard: Arc<ServerShard>) -> Self {
        shard.connections_open.increment();
        Self { connection, opened_at, requests: 0, usable_until: None, shard }
    }

    /// Whether an exchange was carried before the current one.
    pub(crate) fn is_reused(&self) -> bool {
        self.requests > 1
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.shard.connections_open.decrement();
    }
}

/// The idle connections to one server.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    /// Least recently used first.
    kept: Vec<ServerConnection>,
}

impl IdleConnections {
    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Takes the most recently used connection that is still good; closes those that are not.
    ///
    /// `thorough` asks the kernel whether the connection is quiet instead of trusting the event loop: for requests
    /// that must not be sent twice.
    pub(crate) fn take(&mut self, now: Instant, thorough: bool) -> Option<ServerConnection> {
        while let Some(candidate) = self.kept.pop() {
            let in_time = candidate.usable_until.is_none_or(|until| now < until);
            if in_time && candidate.connection.socket.is_quiet(thorough) {
                return Some(candidate);
            }
        }
        None
    }

    /// Keeps a connection whose exchange ended cleanly; `announced` is the server's `Keep-Alive: timeout`.
    pub(crate) fn keep(
        &mut self,
        mut connection: ServerConnection,
        now: Instant,
        limits: &IdleLimits,
        announced: Option<Duration>,
    ) {
        let aged = limits.age_max.map(|age| connection.opened_at + age);
        if limits.connections_max == 0
            || connection.requests >= limits.requests_max
            || connection.connection.has_input()
            || aged.is_some_and(|end| end <= now)
        {
            return;
        }
        // A server closes at its announced time: stop a second earlier, or halfway when that is shorter.
        let announced =
            announced.map(|time| now + time.saturating_sub((time / 2).min(Duration::from_secs(1))));
        let idle = limits.idle_max.map(|idle| now + idle);
        connection.usable_until = [aged, announced, idle].into_iter().flatten().min();
        if self.kept.len() >= limits.connections_max {
            self.kept.remove(0);
        }
        self.kept.push(connection);
    }

    /// Closes what the server closed or what is over its time.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.kept.retain(|kept| {
            kept.usable_until.is_none_or(|until| now < until) && kept.connection.socket.is_quiet(false)
        });
    }
}
