//! One client connection from accept to close, whatever carries it: its places, its counts, and the streams on it.
//!
//! Between exchanges a connection holds no buffer and no exchange, only its transport and a timer. Must not know what a
//! request means, nor what a transport does with its bytes: [`bytes`] is the life of a connection that has a socket.

pub(crate) mod bytes;
#[cfg(feature = "http3")]
pub(crate) mod datagrams;
#[cfg(feature = "http3")]
mod certificate_hold;
mod streams;
mod lease;
pub(crate) mod exchange_pool;
mod stream_client;

#[cfg(test)]
mod memory;
#[cfg(test)]
mod seams;
#[cfg(test)]
mod simulation;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_observe::{Cause, Failure, Phase};
use weir_traffic::limit::ClientKey;

use self::exchange_pool::ExchangePool;
use super::transport::Transport;
use crate::exchange::exchange_state::client::Client;
use crate::net::clock::{self, Instant};
use crate::net::peer::{ConnectionOrigin, Peer};
use crate::net::timing::deadline::Deadline;
use crate::state::shared::AcceptedConnection;
use crate::state::tracing::recorder::UnusedConnection;
use crate::state::worker_config::LocalListener;
use crate::upstream::pinned::PinnedConnections;

/// How long a stop waits for the first request of a connection.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// One client connection.
pub(crate) struct ClientConnection<T: Transport> {
    pub(crate) client: Client,
    pub(super) exchanges: Rc<ExchangePool>,
    pub(super) transport: T,
    /// Whether the limit on connections per client counts this one.
    counted: bool,
}

impl<T: Transport> ClientConnection<T> {
    /// Has a task of its own serve an accepted connection; whether it can be served.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        exchanges: &Rc<ExchangePool>,
        listener: Rc<LocalListener>,
        accepted: AcceptedConnection<T::Carrier>,
        run: impl FnOnce(Box<Self>) -> F,
    ) -> bool {
        let state = Arc::clone(&accepted.listener);
        let conn = Self::open(Rc::clone(exchanges), listener, accepted);
        let is_served = conn.is_some();
        match conn {
            Some(conn) => drop(tokio::task::spawn_local(run(conn))),
            None => exchanges.worker.forget(exchanges.worker.index, &state),
        }
        is_served
    }

    /// Takes over an accepted connection; `None` when it cannot be served, which is then counted and logged.
    fn open(
        exchanges: Rc<ExchangePool>,
        listener: Rc<LocalListener>,
        accepted: AcceptedConnection<T::Carrier>,
    ) -> Option<Box<Self>> {
        let AcceptedConnection { carrier, peer, port, .. } = accepted;
        let worker = Rc::clone(&exchanges.worker);
        let plan = Arc::clone(&listener.plan());
        let protocol = plan.config.protocol;
        let counted = match T::names_client(&plan, peer) {
            true => false,
            false => match count(&listener, peer) {
                Ok(counted) => counted,
                Err(failure) => {
                    listener.shard.failures.record(failure);
                    let refused =
                        UnusedConnection { peer, transport: T::AT_FIRST, number: 0, opened_at: clock::now() };
                    worker.record_connection(failure, refused, &listener);
                    return None;
                }
            },
        };
        listener.enter();
        listener.shard.connections.increment();
        listener.shard.connections_open.increment();
        let now = clock::now();
        let transport = T::open(carrier);
        let destination = if plan.logs_local { transport.local_address() } else { None };
        let origin = |destination| {
            Box::new(ConnectionOrigin { destination, sender: None, authority: None, values: None })
        };
        let client = Client {
            deadline: Deadline::new(&worker.timers),
            number: worker.next_connection_number(),
            answered_query: worker.connection_list.query_number(),
            worker,
            listener,
            is_tls: T::AT_FIRST.is_encrypted(),
            transport: T::AT_FIRST,
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
        Some(Box::new(Self { client, exchanges, transport, counted }))
    }

    /// The task that polls serves the connection from now on.
    fn enter(&mut self) -> impl Future<Output = ()> {
        std::future::poll_fn(|cx| {
            self.client.deadline.enter(cx);
            self.client.worker.shard.connections_open.increment();
            Poll::Ready(())
        })
    }

    /// Counts and keeps why it has ended between two exchanges.
    #[cold]
    fn count_failure(&self, failure: Failure) {
        self.client.listener.shard.failures.record(failure);
        self.record(failure, self.client.opened_at);
    }

    /// Keeps a failure on which there was no exchange.
    #[cold]
    fn record(&self, failure: Failure, began: Instant) {
        let connection = UnusedConnection { opened_at: began, ..self.client.without_exchange() };
        self.client.worker.record_connection(failure, connection, &self.client.listener);
    }

    /// Replaces the peer by the client that a PROXY header names.
    fn replace_peer(&mut self, client: Peer, origin: ConnectionOrigin) {
        self.client.peer = client;
        self.client.local_port = Some(origin.destination.port());
        self.client.origin = Some(Box::new(origin));
    }

    /// Counts the connection towards the limit of its client.
    ///
    /// # Errors
    /// When the client has as many as it may.
    fn count_client(&mut self) -> Result<(), Failure> {
        self.counted = count(&self.client.listener, self.client.peer)?;
        Ok(())
    }

    /// Whether a stop ends the connection, on which nothing is under way. The first request has a moment to arrive: a client whose
    /// connection was just accepted does not send it elsewhere. To be followed by a look at the deadline.
    ///
    /// Where another process serves now, there is no hurry: a request that is on its way right now would be lost.
    fn is_stopped(&mut self) -> bool {
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
}

/// Counts one more connection of a client, if the listener limits them or their rate; whether it limits them. A trusted proxy stands for many clients, and is not
/// limited, nor is a client of a list that is exempt.
fn count(listener: &LocalListener, client: Peer) -> Result<bool, Failure> {
    let plan = listener.plan();
    if let (Some(rate), Some(ip)) = (&plan.connection_rate, client.ip())
        && !plan.is_exempt(client)
        && !rate.admits(ClientKey::from(ip), clock::now())
    {
        return Err(Failure::weir(Phase::Accept, Cause::ClientConnectionRate));
    }
    let is_limited = plan.config.connections_per_client_max.is_some() && !plan.is_exempt(client);
    let limit = listener.state.clients().filter(|_| is_limited);
    let (Some(limit), Some(ip)) = (limit, client.ip()) else { return Ok(false) };
    let counted = limit.try_acquire(ClientKey::from(ip));
    counted.map(|_| true).map_err(|_| Failure::weir(Phase::Accept, Cause::TooManyClientConnections))
}

impl<T: Transport> Drop for ClientConnection<T> {
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
