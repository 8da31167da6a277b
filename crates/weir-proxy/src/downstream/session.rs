//! The life of one client connection: one exchange after the other until either side has enough.
//!
//! Between exchanges a session holds no buffer and no exchange, only its socket and a timer. Must not know what a
//! request means.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_config::ListenerProtocol;
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::limit::ClientKey;

use super::exchange_pool::{ExchangePool, future_bytes};
use super::lease::Lease;
use super::proxy_header;
use super::tls::{self, Refused};
use crate::exchange::After;
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::deadline::Deadline;
use crate::net::peer::{Peer, Proxied};
use crate::net::socket::Socket;
use crate::net::tls::clients::ClientCertificate;
use crate::state::activity::Activity;
use crate::state::log_batches::LogBatches;
use crate::state::shared::Accepted;
use crate::state::view::LocalListener;
use crate::state::worker::Worker;
use crate::upstream::pinned::PinnedConnections;

/// How long a stop waits for the first request of a connection.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// How often it is looked whether a client is gone whose request cannot be read yet.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// One client connection.
pub(crate) struct Session {
    pub(crate) worker: Rc<Worker>,
    pub(super) exchanges: Rc<ExchangePool>,
    pub(crate) listener: Rc<LocalListener>,
    /// What the listener speaks.
    pub(crate) protocol: ListenerProtocol,
    pub(crate) client: Connection,
    /// The client: who is at the other end, or for whom a PROXY header says that the connection is.
    pub(crate) peer: Peer,
    /// What a PROXY header said besides; none when none came, or it named no client.
    pub(crate) proxied: Option<Box<Proxied>>,
    /// The server connection that is kept for this client alone.
    pub(crate) pinned: PinnedConnections,
    pub(crate) local_port: Option<u16>,
    /// Where the client connected to, if the access log shows it; IPv4 addresses are never mapped into IPv6.
    pub(crate) local: Option<Box<SocketAddr>>,
    pub(crate) deadline: Deadline,
    /// The last reading of the clock.
    pub(crate) now: Instant,
    pub(crate) requests: u64,
    /// Why the client is not served at all, until it was told.
    pub(crate) refused: Option<Failure>,
    /// Its number among those of the worker, from 1.
    pub(crate) number: u64,
    /// The last roll call that it has answered.
    pub(crate) called: u32,
    opened_at: Instant,
    /// Whether the limit on connections per client counts this one.
    counted: bool,
    /// Whether the client was once looked after without the event loop's help.
    pub(super) looked: bool,
}

impl Session {
    /// Bytes of one that runs, without what the event loop and TLS keep for it.
    pub(crate) fn bytes_min() -> usize {
        size_of::<Self>() + future_bytes(Self::run)
    }

    /// Takes over an accepted connection; `None` when it cannot be served, which is then counted and logged.
    pub(crate) fn open(
        exchanges: Rc<ExchangePool>,
        listener: Rc<LocalListener>,
        accepted: Accepted,
    ) -> Option<Box<Self>> {
        let Accepted { fd, peer, port, .. } = accepted;
        let worker = Rc::clone(&exchanges.worker);
        let plan = Arc::clone(&listener.plan());
        let protocol = plan.config.protocol;
        let counted = match proxy_header::is_expected(plan.config.proxy_protocol.as_ref(), peer) {
            // Who the client is stands in the header.
            true => false,
            false => match count(&listener, peer) {
                Ok(counted) => counted,
                Err(failure) => {
                    listener.shard.failures.record(failure);
                    worker.record_session(failure, peer, 0, &listener, clock::now());
                    return None;
                }
            },
        };
        listener.enter();
        listener.shard.sessions.increment();
        listener.shard.sessions_open.increment();
        let now = clock::now();
        let shows_local = listener.log().as_ref().is_some_and(LogBatches::shows_local);
        let socket = Socket::new(fd);
        let local = if shows_local { socket.local_address().map(Box::new) } else { None };
        Some(Box::new(Self {
            deadline: Deadline::new(&worker.timers),
            number: worker.next_session(),
            called: worker.roll.number(),
            worker,
            exchanges,
            listener,
            protocol,
            client: Connection::new(socket),
            peer,
            proxied: None,
            pinned: PinnedConnections::default(),
            local_port: port,
            local,
            now,
            requests: 0,
            refused: None,
            opened_at: now,
            counted,
            looked: false,
        }))
    }

    /// Serves the connection to its end.
    pub(crate) async fn run(mut self: Box<Self>) {
        std::future::poll_fn(|cx| {
            self.deadline.enter(cx);
            self.worker.shard.sessions_open.increment();
            Poll::Ready(())
        })
        .await;
        let has_header =
            proxy_header::is_expected(self.listener.plan().config.proxy_protocol.as_ref(), self.peer);
        if has_header && !proxy_header::receive(&mut self).await {
            return;
        }
        if !self.begin_tls().await {
            return;
        }
        while self.next_request().await {
            let Some(mut lease) = Lease::take(&mut self).await else { break };
            let after;
            (self, after) = lease.run(self).await;
            drop(lease);
            match after {
                After::KeepAlive => {}
                After::Close => return self.end_writing().await,
                After::Tunnel(tunnel) => {
                    let after = tunnel.run(&mut self).await;
                    return Box::pin(self.end(after)).await;
                }
                // On the heap, since it would make every session larger.
                after => return Box::pin(self.end(after)).await,
            }
        }
        if self.deadline.is_cut() {
            self.count_failure(Failure::weir(Phase::Request, Cause::Cut));
        }
        if self.client.tls.is_some() {
            // Idle for too long, or Weir stops: nothing was cut off.
            self.end_writing().await;
        }
    }

    /// Counts and keeps why it has ended between two exchanges.
    #[cold]
    pub(super) fn count_failure(&self, failure: Failure) {
        self.listener.shard.failures.record(failure);
        self.record(failure, self.opened_at);
    }

    /// Keeps a failure on which there was no exchange.
    #[cold]
    pub(super) fn record(&self, failure: Failure, began: Instant) {
        self.worker.record_session(failure, self.peer, self.number, &self.listener, began);
    }

    /// The certificate that the client has shown.
    pub(crate) fn certificate(&self) -> Option<&ClientCertificate> {
        self.client.tls.as_ref()?.client_certificate.as_deref()
    }

    /// How long the TLS handshake took, in microseconds; 0 without TLS.
    pub(crate) fn tls_micros(&self) -> u32 {
        self.client.tls.as_ref().map_or(0, |tls| tls.handshake_micros)
    }

    pub(crate) fn opened_at(&self) -> Instant {
        self.opened_at
    }

    /// The peer at the other end of the connection, whoever it is for.
    pub(crate) fn sender(&self) -> Peer {
        self.proxied.as_ref().map_or(self.peer, |proxied| proxied.sender)
    }

    /// Where the client connected to: an address of Weir, or of the proxy that sent a PROXY header. None on a Unix socket.
    pub(crate) fn destination(&self) -> Option<SocketAddr> {
        let known =
            self.proxied.as_ref().map(|proxied| proxied.destination).or(self.local.as_deref().copied());
        known.or_else(|| self.client.socket.local_address())
    }

    /// Puts the client that a PROXY header names in the place of the peer.
    pub(crate) fn replace_peer(&mut self, client: Peer, proxied: Proxied) {
        self.peer = client;
        self.local_port = Some(proxied.destination.port());
        if let Some(local) = &mut self.local {
            **local = proxied.destination;
        }
        self.proxied = Some(Box::new(proxied));
    }

    /// Counts the session towards the limit of its client.
    ///
    /// # Errors
    /// When the client has as many as it may.
    pub(crate) fn count_client(&mut self) -> Result<(), Failure> {
        self.counted = count(&self.listener, self.peer)?;
        Ok(())
    }

    /// When the age limit of the session ends it, if it has one.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.listener.plan().config.timeouts.session.map(|age| self.opened_at + age)
    }

    /// Whether the connection ends after the present exchange, whatever that says: Weir stops, or the listener is gone.
    pub(crate) fn is_ending(&self) -> bool {
        self.worker.is_stopping() || self.listener.ends_at().is_some()
    }

    /// Whether a stop ends the connection, on which nothing is under way. The first request has a moment to arrive: a client that has just
    /// been told that it is connected does not repeat it elsewhere. To be followed by a look at the deadline.
    pub(crate) fn is_stopped(&mut self) -> bool {
        if !self.worker.is_stopping() || self.requests > 0 {
            return self.worker.is_stopping();
        }
        let end = self.worker.stopped_at().max(self.opened_at) + FIRST_REQUEST_TIME;
        self.deadline.look_again(end);
        end <= clock::now()
    }

    /// Shakes hands where the listener has TLS; `false` when the session is over.
    async fn begin_tls(&mut self) -> bool {
        let Some(tls) = self.listener.plan().tls.clone() else { return true };
        // On the heap, since it is short and would make every session larger.
        match Box::pin(tls::accept(self, &tls)).await {
            Ok(()) => true,
            Err(Refused::Failed(failure)) => {
                self.refused = Some(failure);
                true
            }
            Err(Refused::Quietly) => false,
        }
    }

    /// Waits, without a buffer, until the client sends something; `false` when the session is over.
    async fn next_request(&mut self) -> bool {
        if self.client.has_input() {
            if self.requests > 0 {
                // Pipelined: a client that never runs out of requests has one of them served per turn.
                tokio::task::yield_now().await;
            }
            return true;
        }
        // Of TCP peers, the server may be the one to speak first.
        if self.refused.is_some()
            || self.requests == 0 && self.client.fill_at_once(&self.worker.stock)
            || self.protocol == ListenerProtocol::Tcp
        {
            return true;
        }
        let idle = self.listener.plan().config.timeouts.idle;
        let idle_ends = self.now + idle;
        self.deadline.set_at(Some(self.ends_at().map_or(idle_ends, |end| end.min(idle_ends))));
        std::future::poll_fn(|cx| {
            if self.worker.is_stopping() {
                // What has arrived by now is a request that was accepted: it has its answer.
                if !self.client.is_quiet(true) {
                    return Poll::Ready(true);
                }
                if self.is_stopped() {
                    return Poll::Ready(false);
                }
            }
            if let Some(ends_at) = self.listener.ends_at() {
                self.deadline.set_ceiling(Some(ends_at));
            }
            match self.client.poll_readable(cx) {
                Poll::Ready(outcome) => {
                    self.deadline.end_idle();
                    Poll::Ready(outcome.is_ok())
                }
                Poll::Pending => {
                    self.tell(Activity::Idle, None);
                    if self.deadline.begin_idle(self.listener.state.number) {
                        // A request may have come that the event loop has not heard of.
                        let is_quiet = self.client.is_quiet(true);
                        if is_quiet {
                            self.worker.count_displaced();
                        }
                        self.deadline.end_idle();
                        return Poll::Ready(!is_quiet);
                    }
                    self.deadline.poll_passed().map(|()| false)
                }
            }
        })
        .await
    }
}

/// Counts one more connection of a client, if the listener limits them; whether it does. A trusted proxy stands for many clients, and is not
/// limited.
fn count(listener: &LocalListener, client: Peer) -> Result<bool, Failure> {
    let plan = listener.plan();
    let is_limited = plan.config.connections_per_client_max.is_some() && !plan.trusts(client);
    let limit = listener.state.clients().filter(|_| is_limited);
    let (Some(limit), Some(ip)) = (limit, client.ip()) else { return Ok(false) };
    let counted = limit.try_acquire(ClientKey::from(ip));
    counted.map(|_| true).map_err(|_| Failure::weir(Phase::Accept, Cause::TooManyClientConnections))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.listener.exit();
        self.listener.shard.sessions_open.decrement();
        if self.counted
            && let (Some(limit), Some(ip)) = (self.listener.state.clients(), self.peer.ip())
        {
            limit.release(ClientKey::from(ip));
        }
        if std::thread::panicking() {
            self.worker.shard.panics.increment();
            let failure = Failure::weir(Phase::Relay, Cause::Panicked);
            self.listener.shard.failures.record(failure);
            self.record(failure, self.opened_at);
        }
        self.worker.roll.leave(self.called);
        let entered = self.deadline.leave();
        self.worker.leave_session(entered, &self.listener);
    }
}

#[cfg(test)]
mod tests {
    use super::{Session, future_bytes};

    #[test]
    fn an_idle_session_is_small() {
        // Nothing is as numerous. The task around the future has some 104 bytes besides and is rounded up to a multiple of 128.
        let future = future_bytes(Session::run);
        assert!(future <= 256 - 104, "{future}");
        assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
    }
}
