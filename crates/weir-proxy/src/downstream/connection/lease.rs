//! The loan of an exchange to a client connection, for one request.
//!
//! When buffers are short, an exchange that waits without one is parked: another may run meanwhile.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};

use weir_observe::{Cause, Failure, Phase};

use super::ClientConnection;
use super::exchange_pool::{ExchangePool, ExchangeUser, PooledExchange};
use super::stream_client::StreamClient;
use crate::downstream::abort::LOOK_INTERVAL;
use crate::downstream::http1::AfterStream;
use crate::exchange::End;
use crate::net::clock;
use crate::state::connections::activity::Activity;
use crate::state::worker::Worker;

/// A borrowed exchange; returned to the pool when dropped, unless a connection is still in it.
pub(super) struct Lease {
    pool: Rc<ExchangePool>,
    exchange: Option<PooledExchange>,
    user: ExchangeUser,
    /// A connection is in it.
    is_running: bool,
    /// Buffers were short when it began, so it returns its share of the budget while it waits without one.
    is_watched: bool,
    /// It has given it back.
    is_parked: bool,
    /// Buffers that its connection and its server connection hold, as long as it is watched.
    held: i32,
}

impl Lease {
    /// Takes an exchange, waiting for one when the buffers of the worker are used up; `None` when the connection ends meanwhile.
    pub(super) async fn take(conn: &mut ClientConnection) -> Option<Self> {
        let exchange = match conn.exchanges.try_take(ExchangeUser::Connection) {
            Some(exchange) => exchange,
            // On the heap, since it is rare and would make every connection larger.
            None => Box::pin(Self::wait(conn)).await?,
        };
        Some(Self {
            pool: Rc::clone(&conn.exchanges),
            exchange: Some(exchange),
            user: ExchangeUser::Connection,
            is_running: false,
            is_watched: conn.client.worker.is_short_of_buffers(),
            is_parked: false,
            held: i32::from(conn.connection.input.is_some()),
        })
    }

    /// Waits no longer than a request head may take; then the client gets the failure `buffer-limit`.
    async fn wait(conn: &mut ClientConnection) -> Option<PooledExchange> {
        let pool = Rc::clone(&conn.exchanges);
        let mut exchange = pin!(pool.take(ExchangeUser::Connection));
        let limit = conn.client.listener.plan().config.timeouts.request;
        conn.client.deadline.set_ceiling(None);
        conn.client.deadline.set(clock::now(), Some(limit));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(exchange) = exchange.as_mut().poll(cx) {
                return Poll::Ready(Some(exchange));
            }
            pool.worker.shared.memory.note_starved();
            if let Some(cause) = conn.is_abandoned() {
                // The request cannot be read; it counts as received.
                conn.count_failure(Failure::client(Phase::Route, cause));
                return Poll::Ready(None);
            }
            conn.client.report_idle(Activity::Memory);
            conn.client.deadline.look_again(clock::now() + LOOK_INTERVAL);
            conn.client.deadline.poll_passed().map(|()| {
                if conn.client.deadline.is_cut() {
                    return None;
                }
                conn.refused = Some(Failure::weir(Phase::Request, Cause::BufferLimit));
                Some(pool.take_beyond(ExchangeUser::Connection))
            })
        })
        .await
    }

    /// The same for one stream of a connection. One whose client does not wait so long gets an exchange beyond the budget, in which it ends
    /// at once.
    pub(super) async fn take_for_stream(pool: Rc<ExchangePool>, stream: &mut StreamClient) -> Self {
        let exchange = match pool.try_take(ExchangeUser::Stream) {
            Some(exchange) => exchange,
            // On the heap, since it is rare and would make every stream larger.
            None => Box::pin(Self::wait_for_stream(&pool, stream)).await,
        };
        let is_watched = pool.worker.is_short_of_buffers();
        let (exchange, user) = (Some(exchange), ExchangeUser::Stream);
        Self { pool, exchange, user, is_running: false, is_watched, is_parked: false, held: 0 }
    }

    async fn wait_for_stream(pool: &ExchangePool, stream: &mut StreamClient) -> PooledExchange {
        let mut exchange = pin!(pool.take(ExchangeUser::Stream));
        let limit = stream.client.listener.plan().config.timeouts.request;
        stream.client.deadline.set(clock::now(), Some(limit));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(exchange) = exchange.as_mut().poll(cx) {
                return Poll::Ready(exchange);
            }
            pool.worker.shared.memory.note_starved();
            let refusal = match stream.stream.gone() {
                Some(cause) => Failure::client(Phase::Route, cause),
                None => {
                    stream.client.report_idle(Activity::Memory);
                    ready!(stream.client.deadline.poll_passed());
                    let short = Failure::weir(Phase::Request, Cause::BufferLimit);
                    stream.client.deadline.failure(Phase::Request, short)
                }
            };
            stream.stream.refused = Some(refusal);
            Poll::Ready(pool.take_beyond(ExchangeUser::Stream))
        })
        .await
    }

    /// Runs the exchange of a stream; as [`Lease::run`].
    pub(super) fn run_stream(
        &mut self,
        stream: Box<StreamClient>,
    ) -> impl Future<Output = (Box<StreamClient>, End)> {
        self.begin(|exchange| exchange.begin_stream(stream));
        std::future::poll_fn(|cx| self.poll_exchange(|exchange| exchange.poll_stream(cx)))
    }

    /// Runs one exchange. A panic or an end of the task meanwhile takes connection and exchange along.
    ///
    /// Not an `async fn`: it would have room of its own for the connection, and all idle connections are as large as it is.
    pub(super) fn run(
        &mut self,
        conn: Box<ClientConnection>,
    ) -> impl Future<Output = (Box<ClientConnection>, AfterStream)> {
        self.begin(|exchange| exchange.begin(conn));
        std::future::poll_fn(|cx| self.poll_exchange(|exchange| exchange.poll(cx)))
    }

    fn begin(&mut self, begin: impl FnOnce(&mut PooledExchange)) {
        begin(self.exchange.as_mut().expect("present until it is dropped"));
        self.is_running = true;
    }

    #[inline]
    fn poll_exchange<T>(&mut self, poll: impl FnOnce(&mut PooledExchange) -> Poll<T>) -> Poll<T> {
        let exchange = self.exchange.as_mut().expect("present until it is dropped");
        let done = if self.is_watched {
            let (worker, is_parked, held) = (&self.pool.worker, &mut self.is_parked, &mut self.held);
            poll_watched(worker, is_parked, held, || poll(exchange))
        } else {
            poll(exchange)
        };
        let done = ready!(done);
        self.is_running = false;
        Poll::Ready(done)
    }
}

/// Polls an exchange that began when buffers were short, and parks it when it waits for more of a head or a body and holds
/// no buffer. Only one runs at a time, so the buffers taken meanwhile are its own.
#[cold]
fn poll_watched<T>(
    worker: &Worker,
    is_parked: &mut bool,
    held: &mut i32,
    poll: impl FnOnce() -> Poll<T>,
) -> Poll<T> {
    if *is_parked {
        *is_parked = !worker.resume_exchange();
    }
    let stock = &worker.stock;
    let in_use = || i32::try_from(stock.counts()[0]).unwrap_or(i32::MAX);
    let before = in_use();
    stock.set_exhausted(*is_parked);
    worker.connection_list.forget_wait();
    let polled = poll();
    stock.set_exhausted(false);
    *held += in_use() - before;
    if polled.is_pending() && *held <= 0 && !*is_parked && worker.connection_list.is_wait_for_bytes() {
        *is_parked = true;
        worker.park_exchange();
    }
    polled
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Also after a panic.
        self.pool.worker.stock.set_exhausted(false);
        if self.is_parked {
            self.pool.worker.leave_parked();
        }
        self.pool.give_back(self.user, self.exchange.take().filter(|_| !self.is_running));
    }
}
