//! The loan of an exchange to a client connection or a stream, for one request.
//!
//! When buffers are short, an exchange that waits without one is parked: another may run meanwhile.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};

use weir_observe::{Cause, Failure, Phase};

use super::exchange_pool::{ExchangePool, ExchangeUser, PooledExchange, StreamUser};
use super::stream_client::StreamClient;
use crate::net::clock;
use crate::state::connections::activity::Activity;
use crate::state::worker::Worker;

/// A borrowed exchange; returned to the pool when dropped, unless its user is still in it.
pub(super) struct Lease<U: ExchangeUser> {
    pool: Rc<ExchangePool>,
    exchange: Option<PooledExchange<U>>,
    /// Its user is in it.
    is_running: bool,
    /// Buffers were short when it began, so it returns its share of the budget while it waits without one.
    is_watched: bool,
    /// It has given it back.
    is_parked: bool,
    /// Buffers that its user and its server connection hold, as long as it is watched.
    held: i32,
}

impl<S: StreamUser> Lease<StreamClient<S>> {
    /// Takes an exchange for one stream of a connection, waiting for one when the buffers of the worker are used up. A stream whose client does not
    /// wait so long gets an exchange beyond the budget, in which it ends at once.
    pub(super) async fn take_for_stream(pool: Rc<ExchangePool>, stream: &mut StreamClient<S>) -> Self {
        let exchange = match pool.try_take() {
            Some(exchange) => exchange,
            // On the heap, since it is rare and would make every stream larger.
            None => Box::pin(wait_for_stream(&pool, stream)).await,
        };
        Self::new(pool, exchange, 0)
    }
}

async fn wait_for_stream<S: StreamUser>(
    pool: &ExchangePool,
    stream: &mut StreamClient<S>,
) -> PooledExchange<StreamClient<S>> {
    let mut exchange = pin!(pool.take());
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
        stream.stream.refuse(refusal);
        Poll::Ready(pool.take_beyond())
    })
    .await
}

impl<U: ExchangeUser> Lease<U> {
    /// A loan to a user that holds so many buffers.
    pub(super) fn new(pool: Rc<ExchangePool>, exchange: PooledExchange<U>, held: i32) -> Self {
        let is_watched = pool.worker.is_short_of_buffers();
        Self { pool, exchange: Some(exchange), is_running: false, is_watched, is_parked: false, held }
    }

    /// Runs one exchange. A panic or an end of the task meanwhile takes its user and the exchange along.
    ///
    /// Not an `async fn`: it would have room of its own for the user, and all idle connections are as large as it is.
    pub(super) fn run(&mut self, user: Box<U>) -> impl Future<Output = (Box<U>, U::Outcome)> {
        self.exchange.as_mut().expect("present until it is dropped").begin(user);
        self.is_running = true;
        // Moved, so that it has one pointer to the lease and not one to each of its fields.
        std::future::poll_fn(move |cx| {
            let exchange = self.exchange.as_mut().expect("present until it is dropped");
            let done = if self.is_watched {
                let (worker, is_parked, held) = (&self.pool.worker, &mut self.is_parked, &mut self.held);
                poll_watched(worker, is_parked, held, || exchange.poll(cx))
            } else {
                exchange.poll(cx)
            };
            let done = ready!(done);
            self.is_running = false;
            Poll::Ready(done)
        })
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

impl<U: ExchangeUser> Drop for Lease<U> {
    fn drop(&mut self) {
        // Also after a panic.
        self.pool.worker.stock.set_exhausted(false);
        if self.is_parked {
            self.pool.worker.leave_parked();
        }
        self.pool.give_back(self.exchange.take().filter(|_| !self.is_running));
    }
}
