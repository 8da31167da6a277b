//! The exchanges of a worker: the memory of their state and the state machine of their phases, reused from one to the next.
//!
//! Client connections are many and mostly idle, exchanges few and large. So a connection owns none: it borrows one from the
//! pool for each request, is moved into it, and is returned with what becomes of it. Each kind of user has exchanges of its own: those of streams need
//! no state of HTTP/1 and are smaller, since many of them wait at once. Must not know the phases.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::ClientConnection;
#[cfg(test)]
use super::memory::stream::MemoryStream;
use super::stream_client::StreamClient;
use crate::downstream::http2::Http2Stream;
#[cfg(feature = "http3")]
use crate::downstream::http3::Http3Stream;
use crate::downstream::stream_driver::DrivenStream;
use crate::downstream::transport::ByteTransport;
use crate::exchange::End;
use crate::exchange::{self, Exchange};
use crate::state::worker::Worker;
use crate::upstream::pooled::PooledServers;

/// Exchanges kept for the next request; each holds a few KiB of warm memory.
const KEPT_MAX: usize = 256;

/// The exchanges of one worker that no connection uses, and the allowance for those that may begin.
pub(crate) struct ExchangePool {
    pub(crate) worker: Rc<Worker>,
    pub(super) bytes: KeptExchanges<ClientConnection<ByteTransport>>,
    http2: KeptExchanges<StreamClient<Http2Stream>>,
    #[cfg(feature = "http3")]
    http3: KeptExchanges<StreamClient<Http3Stream>>,
    #[cfg(test)]
    memory: KeptExchanges<StreamClient<MemoryStream>>,
}

/// Those of one kind of user.
pub(crate) type KeptExchanges<U> = RefCell<Vec<PooledExchange<U>>>;

impl ExchangePool {
    pub(crate) fn new(worker: &Rc<Worker>) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(worker),
            bytes: RefCell::default(),
            http2: RefCell::default(),
            #[cfg(feature = "http3")]
            http3: RefCell::default(),
            #[cfg(test)]
            memory: RefCell::default(),
        })
    }

    /// An exchange, warm if an earlier one has left it; waits while the buffers are used up.
    pub(crate) async fn take<U: ExchangeUser>(&self) -> PooledExchange<U> {
        self.worker.exchanges.wait().await;
        self.lend()
    }

    /// The same without waiting; `None` while the buffers are used up, or others wait for them.
    #[inline]
    pub(crate) fn try_take<U: ExchangeUser>(&self) -> Option<PooledExchange<U>> {
        self.worker.exchanges.try_take().then(|| self.lend())
    }

    /// The same although the buffers are used up: for an answer that needs none.
    pub(crate) fn take_beyond<U: ExchangeUser>(&self) -> PooledExchange<U> {
        self.worker.exchanges.overdraw();
        self.lend()
    }

    #[inline]
    fn lend<U: ExchangeUser>(&self) -> PooledExchange<U> {
        self.worker.shard.exchanges_open.increment();
        U::kept(self).borrow_mut().pop().unwrap_or_else(PooledExchange::new)
    }

    /// Takes back an exchange that is over; `None` when it must not be used again.
    #[inline]
    pub(crate) fn give_back<U: ExchangeUser>(&self, exchange: Option<PooledExchange<U>>) {
        self.worker.exchanges.give_back();
        self.worker.wake_waiting_for_buffers();
        self.worker.shard.exchanges_open.decrement();
        let mut kept = U::kept(self).borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.extend(exchange);
        }
    }

    /// Gives the memory of those that are free back to the allocator.
    pub(crate) fn shrink(&self) {
        self.bytes.take();
        self.http2.take();
        #[cfg(feature = "http3")]
        self.http3.take();
    }

    /// How many are free.
    pub(crate) fn free_count(&self) -> usize {
        let free = self.bytes.borrow().len() + self.http2.borrow().len();
        #[cfg(feature = "http3")]
        let free = free + self.http3.borrow().len();
        free
    }
}

/// What an exchange runs for: it is moved into the exchange, and comes back.
pub(crate) trait ExchangeUser: Sized + 'static {
    /// How the exchange ended, and what becomes of its user.
    type Outcome;

    /// Where the exchanges for such users are kept.
    fn kept(pool: &ExchangePool) -> &KeptExchanges<Self>;

    /// Runs the exchanges of all users that come into `slot`, one after the other.
    fn run_all(slot: Rc<ExchangeSlot<Self>>) -> impl Future<Output = Infallible> + 'static;
}

/// Streams whose exchanges have a place in the pool.
pub(crate) trait StreamUser: DrivenStream {
    fn kept(pool: &ExchangePool) -> &KeptExchanges<StreamClient<Self>>;
}

impl StreamUser for Http2Stream {
    fn kept(pool: &ExchangePool) -> &KeptExchanges<StreamClient<Self>> {
        &pool.http2
    }
}

#[cfg(feature = "http3")]
impl StreamUser for Http3Stream {
    fn kept(pool: &ExchangePool) -> &KeptExchanges<StreamClient<Self>> {
        &pool.http3
    }
}

#[cfg(test)]
impl StreamUser for MemoryStream {
    fn kept(pool: &ExchangePool) -> &KeptExchanges<StreamClient<Self>> {
        &pool.memory
    }
}

/// The state of one running exchange, on the heap once. It can be lent out again whenever no user is in it.
pub(crate) struct PooledExchange<U: ExchangeUser> {
    slot: Rc<ExchangeSlot<U>>,
    work: Pin<Box<dyn Future<Output = Infallible>>>,
}

/// Where a user waits for its exchange to begin, or to be taken back.
pub(crate) struct ExchangeSlot<U: ExchangeUser> {
    waiting: Cell<Option<Box<U>>>,
    done: Cell<Option<(Box<U>, U::Outcome)>>,
}

impl<U: ExchangeUser> ExchangeSlot<U> {
    /// The next one that waits for its exchange.
    pub(super) async fn next(&self) -> Box<U> {
        poll_fn(|_| self.waiting.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Its exchange is over.
    pub(super) fn end(&self, user: Box<U>, outcome: U::Outcome) {
        self.done.set(Some((user, outcome)));
    }
}

impl<U: ExchangeUser> PooledExchange<U> {
    /// Bytes of one, without what its exchange has put on the heap.
    pub(crate) fn bytes_min() -> usize {
        size_of::<Self>() + size_of::<ExchangeSlot<U>>() + future_bytes(U::run_all)
    }

    fn new() -> Self {
        let slot = Rc::new(ExchangeSlot { waiting: Cell::new(None), done: Cell::new(None) });
        let work = Box::pin(U::run_all(Rc::clone(&slot)));
        Self { slot, work }
    }

    /// Takes in a user whose request is there, or arriving.
    pub(crate) fn begin(&mut self, user: Box<U>) {
        self.slot.waiting.set(Some(user));
    }

    /// Runs the exchange; gives the user back with how it ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Box<U>, U::Outcome)> {
        match self.work.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => self.slot.done.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

/// Bytes of what a function makes when it is called.
pub(crate) fn future_bytes<A, F: Future>(_function: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

impl<S: StreamUser> ExchangeUser for StreamClient<S> {
    type Outcome = End;

    fn kept(pool: &ExchangePool) -> &KeptExchanges<Self> {
        S::kept(pool)
    }

    async fn run_all(slot: Rc<ExchangeSlot<Self>>) -> Infallible {
        let mut exchange = Exchange::new();
        let mut servers = PooledServers::default();
        loop {
            let mut user = slot.next().await;
            let end = {
                let StreamClient { client, stream } = &mut *user;
                exchange::run(client, stream, &mut servers, &mut exchange).await
            };
            exchange.reset();
            slot.end(user, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_waits_is_small() {
        // A connection of HTTP/2 has a hundred of them and more.
        let future = future_bytes(StreamClient::<Http2Stream>::run_all);
        assert!(future <= 2048, "{future}");
    }
}
