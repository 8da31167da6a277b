//! Idle connections to one server, most recently used first: those of one worker, those that all workers share, or one client's own.
//!
//! A kept connection can die at any moment: it is handed out only when it is quiet and open, young and little used
//! enough, and not beyond the time the server announced. Must not open connections.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_observe::ServerShard;

use crate::net::clock::Instant;
use crate::net::connection::Connection;
use crate::net::descriptors::ServerPermit;
use crate::net::socket::Socket;
use crate::net::tls::records::Records;
use crate::net::tls::session::TlsSession;
use crate::state::crashes::faults;

/// How many idle connections are kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolLimits {
    /// Idle connections of a worker to a server; 0 keeps none.
    pub(crate) kept_max: usize,
    /// Connections that a worker may have to all servers, in use or idle, without closing idle ones.
    pub(crate) open_max: usize,
    /// Time without use.
    pub(crate) idle_max: Option<Duration>,
    /// Time since the connection was opened.
    pub(crate) age_max: Option<Duration>,
    /// Requests sent on one connection.
    pub(crate) requests_max: u64,
}

/// A connection to a server and its history. It is kept on the heap, for it changes hands many times in an exchange.
#[derive(Debug)]
pub struct ServerConnection {
    pub(crate) connection: Connection,
    pub(crate) opened_at: Instant,
    pub(crate) requests: u64,
    /// Whether the server may consider it authenticated as one user: it then serves one client connection only.
    pub(crate) is_private: bool,
    /// When the server said, or the limits say, that it must not be used any more.
    usable_until: Option<Instant>,
    counted: OpenConnectionCount,
}

thread_local! {
    /// Connections to servers that this worker has open, in use or idle.
    static OPEN: Cell<usize> = const { Cell::new(0) };
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
struct OpenConnectionCount {
    shard: Arc<ServerShard>,
    _permit: ServerPermit,
}

impl OpenConnectionCount {
    fn new(shard: Arc<ServerShard>) -> Self {
        shard.connections_open.increment();
        OPEN.set(OPEN.get() + 1);
        Self { shard, _permit: ServerPermit::take() }
    }
}

impl Drop for OpenConnectionCount {
    fn drop(&mut self) {
        self.shard.connections_open.decrement();
        OPEN.set(OPEN.get() - 1);
    }
}

impl ServerConnection {
    /// The address that it comes from, if there is one.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        self.connection.socket.local_address().map(|address| address.ip())
    }

    /// A connection that has just been opened; counted as open until it is dropped.
    pub(crate) fn new(connection: Connection, opened_at: Instant, shard: Arc<ServerShard>) -> Box<Self> {
        let counted = OpenConnectionCount::new(shard);
        Box::new(Self { connection, opened_at, requests: 0, is_private: false, usable_until: None, counted })
    }

    /// What is counted of its server by this worker.
    pub(crate) fn shard(&self) -> &ServerShard {
        &self.counted.shard
    }

    /// The connection at the end of a clean exchange, if it may be used again, and until when, which may be forever.
    /// `announced` is the server's `Keep-Alive: timeout`.
    pub(crate) fn if_reusable(
        mut self: Box<Self>,
        now: Instant,
        limits: &PoolLimits,
        announced: Option<Duration>,
    ) -> Option<Box<Self>> {
        debug_assert!(!self.is_private, "no other client may have it");
        let aged = limits.age_max.map(|age| self.opened_at + age);
        // A server closes at its announced time: a second earlier is safe.
        let announced = announced.map(|time| now + time.saturating_sub(Duration::from_secs(1)));
        let idle = limits.idle_max.map(|idle| now + idle);
        let earlier = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let end = earlier(earlier(aged, announced), idle);
        let fit = limits.kept_max > 0
            && self.requests < limits.requests_max
            && !self.connection.has_input()
            && end.is_none_or(|end| now < end);
        self.usable_until = end;
        fit.then_some(self)
    }

    /// The same for a private connection: the limits on reuse would end an authentication, so it has only those of its client.
    pub(crate) fn if_open(mut self: Box<Self>) -> Option<Box<Self>> {
        self.usable_until = None;
        Some(self).filter(|private| !private.connection.has_input())
    }

    /// Whether its time is over.
    fn is_over(&self, now: Instant) -> bool {
        self.usable_until.is_some_and(|until| now >= until)
    }

    /// Whether a kept connection is still good.
    ///
    /// `thorough` asks the kernel whether it is quiet instead of trusting the event loop: for requests that must not be sent
    /// twice.
    pub(crate) fn is_usable(&mut self, now: Instant, thorough: bool) -> bool {
        !self.is_over(now) && (faults::skips_check() || self.connection.is_quiet(thorough))
    }
}

/// An idle connection without an event loop, so that any worker can take it.
#[derive(Debug)]
struct Parked {
    fd: OwnedFd,
    tls: Option<Box<TlsSession>>,
    opened_at: Instant,
    requests: u64,
    usable_until: Option<Instant>,
    _permit: ServerPermit,
}

/// The idle connections of all workers to a server with a limit on its requests.
///
/// Such a server may be unable to serve one connection while another is open, so a worker must not keep one to itself
/// while another worker opens a new one: connections, too, never exceed the limit.
#[derive(Debug, Default)]
pub struct SharedPool {
    parked: Mutex<Vec<Parked>>,
}

impl SharedPool {
    /// Takes the most recently used connection that is still good; closes those that are not.
    pub(crate) fn take(&self, now: Instant, shard: &Arc<ServerShard>) -> Option<Box<ServerConnection>> {
        let mut parked = self.lock();
        while let Some(Parked { fd, tls, opened_at, requests, usable_until, _permit }) = parked.pop() {
            let mut connection = Connection::new(Socket::new(fd));
            connection.tls = tls.map(|session| Box::new(Records::new(*session, None)));
            let mut kept = ServerConnection::new(connection, opened_at, Arc::clone(shard));
            kept.requests = requests;
            kept.usable_until = usable_until;
            if kept.is_usable(now, true) {
                return Some(kept);
            }
        }
        None
    }

    /// Keeps a connection whose exchange ended cleanly.
    pub(crate) fn keep(
        &self,
        kept: Box<ServerConnection>,
        now: Instant,
        limits: &PoolLimits,
        announced: Option<Duration>,
    ) {
        let Some(kept) = kept.if_reusable(now, limits, announced) else { return };
        let ServerConnection { connection, opened_at, requests, usable_until, .. } = *kept;
        let tls = match connection.tls.map(|records| records.into_session()) {
            None => None,
            Some(None) => return,
            Some(Some(session)) => Some(Box::new(session)),
        };
        let Some(fd) = connection.socket.into_fd() else { return };
        let _permit = ServerPermit::take();
        self.lock().push(Parked { fd, tls, opened_at, requests, usable_until, _permit });
    }

    /// How many are kept. Workers do not count them: one worker may take what another has kept.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Closes all: one of them has just proved to be dead.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Closes the least recently used half; whether there was any.
    pub(crate) fn shed(&self) -> bool {
        let mut parked = self.lock();
        let half = parked.len().div_ceil(2);
        parked.drain(..half);
        half > 0
    }

    /// Closes connections that are over their time, or that were opened at a moment for which `stays` does not hold.
    pub(crate) fn sweep(&self, now: Instant, stays: impl Fn(Instant) -> bool) {
        self.lock()
            .retain(|parked| parked.usable_until.is_none_or(|until| now < until) && stays(parked.opened_at));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The idle connections to one server.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Least recently used first.
    kept: VecDeque<Box<ServerConnection>>,
}

impl Pool {
    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Takes the most recently used connection that is still good; closes those that are not.
    ///
    /// A server that stops closes its idle connections one after the other. A request that must not be sent twice does not race with that:
    /// where the first connection is closed, it gets none of the others.
    pub(crate) fn take(&mut self, now: Instant, thorough: bool) -> Option<Box<ServerConnection>> {
        while let Some(mut candidate) = self.kept.pop_back() {
            if candidate.is_usable(now, thorough) {
                return Some(candidate);
            }
            if thorough && !candidate.is_over(now) {
                return None;
            }
        }
        None
    }

    /// Keeps a connection whose exchange ended cleanly; where there are too many, the least recently used one is closed.
    pub(crate) fn keep(
        &mut self,
        connection: Box<ServerConnection>,
        now: Instant,
        limits: &PoolLimits,
        announced: Option<Duration>,
    ) {
        let Some(connection) = connection.if_reusable(now, limits, announced) else { return };
        self.kept.push_back(connection);
        if self.kept.len() > limits.kept_max || OPEN.get() > limits.open_max {
            self.kept.pop_front();
        }
    }

    /// Closes the least recently used half; whether there was any.
    pub(crate) fn shed(&mut self) -> bool {
        let half = self.kept.len().div_ceil(2);
        self.kept.drain(..half);
        half > 0
    }

    /// Closes connections that the server closed or that are over their time.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.kept.retain_mut(|kept| kept.is_usable(now, false));
    }

    /// Closes connections that were opened at a moment for which `stays` does not hold.
    pub(crate) fn keep_if(&mut self, stays: impl Fn(Instant) -> bool) {
        self.kept.retain(|kept| stays(kept.opened_at));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const UNLIMITED: PoolLimits = PoolLimits {
        kept_max: usize::MAX,
        open_max: usize::MAX,
        idle_max: None,
        age_max: None,
        requests_max: 9,
    };

    /// Connections whose other ends are open as long as the second part lives.
    #[expect(clippy::vec_box, reason = "as they are kept")]
    fn connections(count: usize, now: Instant) -> (Vec<Box<ServerConnection>>, Vec<UnixStream>) {
        let shard = Arc::<ServerShard>::default();
        let pair = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let connection = Connection::new(Socket::new(ours.into()));
            (ServerConnection::new(connection, now, Arc::clone(&shard)), theirs)
        };
        (0..count).map(|_| pair()).unzip()
    }

    /// How many of `count` connections are kept that become idle together, and whether the last of them is the first to be used again.
    fn kept(count: usize, limits: &PoolLimits) -> (usize, bool) {
        let now = crate::net::clock::now();
        let (connections, mut theirs) = connections(count, now);
        let mut idle = Pool::default();
        for connection in connections {
            idle.keep(connection, now, limits, None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _in_runtime = runtime.enter();
        // The other end of the last one sends a byte, unless it is closed already, so it cannot be used again.
        let _closed = std::io::Write::write_all(theirs.last_mut().unwrap(), b"!");
        let before = idle.len();
        // Where one is found closed, a request that must not be sent twice gets none of the others; the next request does.
        let (refused, taken) = (idle.take(now, true), idle.take(now, true));
        (before, refused.is_none() && taken.is_some() && idle.len() + 2 == before)
    }

    #[test]
    fn as_many_are_kept_as_were_of_use_together() {
        // Clients with concurrent requests send the next ones concurrently as well.
        assert_eq!(kept(60, &UNLIMITED), (60, true));
        assert_eq!(kept(60, &PoolLimits { kept_max: 20, ..UNLIMITED }), (20, true));
        assert_eq!(kept(60, &PoolLimits { kept_max: 0, ..UNLIMITED }), (0, false));
    }

    #[test]
    fn a_worker_keeps_to_its_share_of_the_files() {
        let limits = PoolLimits { open_max: 10, ..UNLIMITED };
        assert_eq!(kept(60, &limits), (10, true));
        let now = crate::net::clock::now();
        let (mut first, _ends) = connections(12, now);
        let (mut one, mut other) = (Pool::default(), Pool::default());
        // Six of twelve are in use: four of the others may stay, whichever server they lead to.
        let in_use = first.split_off(6);
        for (number, connection) in first.into_iter().enumerate() {
            let idle = if number % 2 == 0 { &mut one } else { &mut other };
            idle.keep(connection, now, &limits, None);
        }
        assert_eq!((one.len() + other.len(), OPEN.get()), (4, 10));
        drop(in_use);
        assert_eq!(OPEN.get(), 4);
    }
}
