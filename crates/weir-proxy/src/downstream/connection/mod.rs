//! One client connection from accept to close: one exchange after the other.
//!
//! Between exchanges a connection holds no buffer and no exchange, only its socket and a timer. Must not know what a
//! request means.

mod streams;
mod lease;
pub(crate) mod exchange_pool;
mod stream_client;
mod abandoned;
mod proxy_header;
mod tls;
mod certificate_wait;
mod tls_refusal;
mod ending;

#[cfg(test)]
mod seams;
#[cfg(test)]
mod simulation;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_config::{ListenerProtocol, PriorKnowledge};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::limit::ClientKey;

use self::exchange_pool::{ExchangePool, future_bytes};
use self::lease::Lease;
use self::tls_refusal::TlsRefusal;
use super::http1::{AfterStream, Http1Stream, Http1StreamState};
use super::tcp::TcpStream;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::phases::tunnel::TunnelClient;
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::peer::{ConnectionOrigin, Peer};
use crate::net::socket::Socket;
use crate::net::timing::deadline::Deadline;
use crate::state::connections::activity::Activity;
use crate::state::shared::AcceptedConnection;
use crate::state::worker_config::LocalListener;
use crate::upstream::pinned::PinnedConnections;

/// How long a stop waits for the first request of a connection.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// One client connection.
pub(crate) struct ClientConnection {
    pub(crate) client: Client,
    pub(super) exchanges: Rc<ExchangePool>,
    pub(crate) connection: Connection,
    /// The failure for which the client is not served, until it has been reported to the client.
    pub(super) refused: Option<Failure>,
    /// Whether the limit on connections per client counts this one.
    counted: bool,
    /// Whether the first check for an abort, the one without the event loop, was made.
    pub(super) looked: bool,
}

impl ClientConnection {
    /// Bytes of one that runs, without what the event loop and TLS keep for it.
    pub(crate) fn bytes_min() -> usize {
        size_of::<Self>() + future_bytes(Self::run)
    }

    /// Takes over an accepted connection; `None` when it cannot be served, which is then counted and logged.
    pub(crate) fn open(
        exchanges: Rc<ExchangePool>,
        listener: Rc<LocalListener>,
        accepted: AcceptedConnection,
    ) -> Option<Box<Self>> {
        let AcceptedConnection { fd, peer, port, .. } = accepted;
        let worker = Rc::clone(&exchanges.worker);
        let plan = Arc::clone(&listener.plan());
        let protocol = plan.config.protocol;
        let counted = match proxy_header::is_expected(plan.config.proxy_protocol.as_ref(), peer) {
            // The header contains the address of the client.
            true => false,
            false => match count(&listener, peer) {
                Ok(counted) => counted,
                Err(failure) => {
                    listener.shard.failures.record(failure);
                    worker.record_connection(failure, peer, 0, &listener, clock::now());
                    return None;
                }
            },
        };
        listener.enter();
        listener.shard.connections.increment();
        listener.shard.connections_open.increment();
        let now = clock::now();
        let socket = Socket::new(fd);
        let destination = if plan.logs_local { socket.local_address() } else { None };
        let origin = |destination| Box::new(ConnectionOrigin { destination, sender: None, authority: None });
        let client = Client {
            deadline: Deadline::new(&worker.timers),
            number: worker.next_connection_number(),
            answered_query: worker.connection_list.query_number(),
            worker,
            listener,
            is_tls: false,
            protocol,
            peer,
            origin: destination.map(origin),
            pinned: PinnedConnections::default(),
            local_port: port,
            now,
            requests: 0,
            opened_at: now,
            gives_place: Cell::new(false),
        };
        let connection = Connection::new(socket);
        Some(Box::new(Self { client, exchanges, connection, refused: None, counted, looked: false }))
    }

    /// The client, and the stream of HTTP/1 that runs on the connection.
    pub(super) fn stream<'a>(
        &'a mut self,
        state: &'a mut Http1StreamState,
    ) -> (&'a mut Client, Http1Stream<'a>) {
        let Self { client, connection, refused, looked, .. } = self;
        (client, Http1Stream { connection, refused, looked, state })
    }

    /// The client, and its raw bytes.
    pub(super) fn tcp_stream(&mut self) -> (&mut Client, TcpStream<'_>) {
        let Self { client, connection, refused, looked, .. } = self;
        (client, TcpStream { connection, refused, looked })
    }

    /// Serves the connection to its end.
    pub(crate) async fn run(mut self: Box<Self>) {
        std::future::poll_fn(|cx| {
            self.client.deadline.enter(cx);
            self.client.worker.shard.connections_open.increment();
            Poll::Ready(())
        })
        .await;
        let has_header = proxy_header::is_expected(
            self.client.listener.plan().config.proxy_protocol.as_ref(),
            self.client.peer,
        );
        if has_header && !proxy_header::receive(&mut self).await {
            return;
        }
        if !self.begin_tls().await {
            return;
        }
        if self.begins_with_http2() {
            // On the heap, since it would make every connection larger.
            return Box::pin(self.serve_streams()).await;
        }
        while self.next_request().await {
            let Some(mut lease) = Lease::take(&mut self).await else { break };
            let after;
            (self, after) = lease.run(self).await;
            drop(lease);
            match after {
                AfterStream::KeepAlive => {}
                AfterStream::Close => return self.end_writing().await,
                AfterStream::Tunnel(mut tunnel) => {
                    let outcome = tunnel.run(&mut *self).await;
                    // On the heap, since it would make every connection larger.
                    return Box::pin(self.end_tunnel(tunnel, outcome)).await;
                }
                AfterStream::Http2 => return Box::pin(self.serve_streams()).await,
                // On the heap, since it would make every connection larger.
                after => return Box::pin(self.end(after)).await,
            }
        }
        if let Some(cause) = self.client.deadline.cut_cause() {
            self.count_failure(Failure::weir(Phase::Request, cause));
        }
        if self.connection.tls.is_some() {
            // Idle for too long, or Weir stops: nothing was cut off.
            self.end_writing().await;
        }
    }

    /// Counts and keeps why it has ended between two exchanges.
    #[cold]
    pub(super) fn count_failure(&self, failure: Failure) {
        self.client.listener.shard.failures.record(failure);
        self.record(failure, self.client.opened_at);
    }

    /// Keeps a failure on which there was no exchange.
    #[cold]
    pub(super) fn record(&self, failure: Failure, began: Instant) {
        self.client.worker.record_connection(
            failure,
            self.client.peer,
            self.client.number,
            &self.client.listener,
            began,
        );
    }

    /// Replaces the peer by the client that a PROXY header names.
    pub(crate) fn replace_peer(&mut self, client: Peer, origin: ConnectionOrigin) {
        self.client.peer = client;
        self.client.local_port = Some(origin.destination.port());
        self.client.origin = Some(Box::new(origin));
    }

    /// Counts the connection towards the limit of its client.
    ///
    /// # Errors
    /// When the client has as many as it may.
    pub(crate) fn count_client(&mut self) -> Result<(), Failure> {
        self.counted = count(&self.client.listener, self.client.peer)?;
        Ok(())
    }

    /// Whether a stop ends the connection, on which nothing is under way. The first request has a moment to arrive: a client whose
    /// connection was just accepted does not send it elsewhere. To be followed by a look at the deadline.
    ///
    /// Where another process serves now, there is no hurry: a request that is on its way right now would be lost.
    pub(crate) fn is_stopped(&mut self) -> bool {
        if self.client.worker.is_replaced() {
            return false;
        }
        if !self.client.worker.is_stopping() || self.client.requests > 0 {
            return self.client.worker.is_stopping();
        }
        let end = self.client.worker.stopped_at().max(self.client.opened_at) + FIRST_REQUEST_TIME;
        self.client.deadline.look_again(end);
        end <= clock::now()
    }

    /// Whether a hand-over to another node ends the connection, on which nothing is under way: packets of it would reach that node, which does not
    /// know it. A client that has just connected sends its request here.
    fn is_handed_over(&self) -> bool {
        let is_new =
            || self.client.requests == 0 && clock::now() < self.client.opened_at + FIRST_REQUEST_TIME;
        self.client.worker.closes_idle() && !is_new()
    }

    /// Does the TLS handshake where the listener has TLS; `false` when the connection is over.
    async fn begin_tls(&mut self) -> bool {
        let Some(tls) = self.client.listener.plan().tls.clone() else { return true };
        // On the heap, since it is short and would make every connection larger.
        match Box::pin(tls::accept(self, &tls)).await {
            Ok(()) => true,
            Err(TlsRefusal::Failed(failure)) => {
                self.refused = Some(failure);
                true
            }
            Err(TlsRefusal::Closed) => false,
        }
    }

    /// Whether the client speaks HTTP/2 from its first byte.
    fn begins_with_http2(&self) -> bool {
        match &self.connection.tls {
            Some(tls) => tls.protocol() == Some(b"h2"),
            None => {
                let http2 = &self.client.listener.plan().config.http2;
                http2.prior_knowledge == PriorKnowledge::Only && self.refused.is_none()
            }
        }
    }

    /// Waits, without a buffer, until the client sends something; `false` when the connection is over.
    async fn next_request(&mut self) -> bool {
        if self.connection.has_input() {
            if self.client.requests > 0 {
                // Pipelined: a client that never runs out of requests has one of them served per turn.
                tokio::task::yield_now().await;
            }
            return true;
        }
        // On a TCP listener, the server may send first.
        if self.refused.is_some()
            || self.client.requests == 0 && self.connection.fill_at_once(&self.client.worker.stock)
            || self.client.protocol == ListenerProtocol::Tcp
        {
            return true;
        }
        let idle = self.client.listener.plan().config.timeouts.idle;
        let idle_ends = self.client.now + idle;
        self.client.deadline.set_at(Some(self.client.ends_at().map_or(idle_ends, |end| end.min(idle_ends))));
        let mut has_looked = false;
        std::future::poll_fn(|cx| {
            if self.client.worker.is_ending() {
                // What has arrived by now is a request that was accepted: it has its answer.
                if !self.connection.is_quiet(true) {
                    return Poll::Ready(true);
                }
                if self.client.worker.is_stopping() && self.is_stopped() || self.is_handed_over() {
                    return Poll::Ready(false);
                }
            }
            if let Some(ends_at) = self.client.listener.ends_at() {
                self.client.deadline.set_ceiling(Some(ends_at));
            }
            let mut readable = self.connection.poll_readable(cx);
            // The readiness may be left from the last request: bytes that were moved inside the kernel, or that filled a buffer, do not show that
            // nothing follows. For nothing, the connection would hold an exchange and a buffer.
            if !std::mem::replace(&mut has_looked, true)
                && readable.is_ready()
                && self.connection.is_quiet(false)
            {
                readable = self.connection.poll_readable(cx);
            }
            match readable {
                Poll::Ready(outcome) => {
                    self.client.deadline.end_idle();
                    Poll::Ready(outcome.is_ok())
                }
                Poll::Pending => {
                    self.client.report_idle(Activity::Idle);
                    let (since, is_new) = (self.client.now, self.client.requests == 0);
                    if self.client.begin_idle(since, is_new) {
                        // A request may have come that the event loop has not reported yet.
                        let is_quiet = self.connection.is_quiet(true);
                        if is_quiet {
                            self.client.note_evicted();
                        }
                        self.client.deadline.end_idle();
                        return Poll::Ready(!is_quiet);
                    }
                    self.client.deadline.poll_passed().map(|()| false)
                }
            }
        })
        .await
    }
}

impl TunnelClient for ClientConnection {
    type End = Connection;

    fn split(&mut self) -> (&mut Client, &mut Connection) {
        (&mut self.client, &mut self.connection)
    }
}

/// Counts one more connection of a client, if the listener limits them or their rate; whether it limits them. A trusted proxy stands for many clients, and is not
/// limited.
fn count(listener: &LocalListener, client: Peer) -> Result<bool, Failure> {
    let plan = listener.plan();
    if let (Some(rate), Some(ip)) = (&plan.connection_rate, client.ip())
        && !plan.trusts(client)
        && !rate.admits(ClientKey::from(ip), clock::now())
    {
        return Err(Failure::weir(Phase::Accept, Cause::ClientConnectionRate));
    }
    let is_limited = plan.config.connections_per_client_max.is_some() && !plan.trusts(client);
    let limit = listener.state.clients().filter(|_| is_limited);
    let (Some(limit), Some(ip)) = (limit, client.ip()) else { return Ok(false) };
    let counted = limit.try_acquire(ClientKey::from(ip));
    counted.map(|_| true).map_err(|_| Failure::weir(Phase::Accept, Cause::TooManyClientConnections))
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.client.listener.exit();
        self.client.listener.shard.connections_open.decrement();
        if self.counted
            && let (Some(limit), Some(ip)) = (self.client.listener.state.clients(), self.client.peer.ip())
        {
            limit.release(ClientKey::from(ip));
        }
        if std::thread::panicking() {
            self.client.worker.shard.panics.increment();
            self.count_failure(Failure::weir(Phase::Relay, Cause::Panicked));
        } else if self.client.worker.crash.has_crashed() {
            self.client.worker.shard.connections_lost.increment();
            self.count_failure(Failure::weir(Phase::Relay, Cause::WorkerCrashed));
        }
        self.client.worker.connection_list.leave(self.client.answered_query);
        if self.client.gives_place.get() {
            self.client.worker.shared.places.leave();
        }
        let entered = self.client.deadline.leave();
        self.client.worker.leave_connection(entered, &self.client.listener);
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientConnection, future_bytes};

    #[test]
    fn an_idle_connection_is_small() {
        // Nothing is as numerous. The task around the future has some 104 bytes besides and is rounded up to a multiple of 128.
        let future = future_bytes(ClientConnection::run);
        assert!(future <= 256 - 104, "{future}");
        assert!(size_of::<ClientConnection>() <= 256, "{}", size_of::<ClientConnection>());
    }
}
