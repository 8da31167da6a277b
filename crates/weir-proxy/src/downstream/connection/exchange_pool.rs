//! The exchanges of a worker: the memory of their state and the state machine of their phases, reused from one to the next.
//!
//! Client connections are many and mostly idle, exchanges few and large. So a connection owns none: it borrows one from the
//! pool for each request, is moved into it, and is returned with an [`AfterStream`]. Must not know the phases.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_config::ListenerProtocol;

use super::ClientConnection;
use super::stream_client::StreamClient;
use crate::downstream::http1::{AfterStream, Http1StreamState};
use crate::exchange::End;
use crate::exchange::{self, Exchange};
use crate::state::worker::Worker;
use crate::upstream::pooled::PooledServers;

/// Exchanges kept for the next request; each holds a few KiB of warm memory.
const KEPT_MAX: usize = 256;

/// The exchanges of one worker that no connection uses, and the allowance for those that may begin.
pub(crate) struct ExchangePool {
    pub(crate) worker: Rc<Worker>,
    free: RefCell<Vec<PooledExchange>>,
    /// Those of streams.
    free_for_streams: RefCell<Vec<PooledExchange>>,
}

impl ExchangePool {
    pub(crate) fn new(worker: &Rc<Worker>) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(worker),
            free: RefCell::default(),
            free_for_streams: RefCell::default(),
        })
    }

    /// An exchange, warm if an earlier one has left it; waits while the buffers are used up.
    pub(crate) async fn take(&self, user: ExchangeUser) -> PooledExchange {
        self.worker.exchanges.wait().await;
        self.lend(user)
    }

    /// The same without waiting; `None` while the buffers are used up, or others wait for them.
    #[inline]
    pub(crate) fn try_take(&self, user: ExchangeUser) -> Option<PooledExchange> {
        self.worker.exchanges.try_take().then(|| self.lend(user))
    }

    /// The same although the buffers are used up: for an answer that needs none.
    pub(crate) fn take_beyond(&self, user: ExchangeUser) -> PooledExchange {
        self.worker.exchanges.overdraw();
        self.lend(user)
    }

    #[inline]
    fn lend(&self, user: ExchangeUser) -> PooledExchange {
        self.worker.shard.exchanges_open.increment();
        self.free(user).borrow_mut().pop().unwrap_or_else(|| PooledExchange::new(user))
    }

    #[inline]
    fn free(&self, user: ExchangeUser) -> &RefCell<Vec<PooledExchange>> {
        match user {
            ExchangeUser::Connection => &self.free,
            ExchangeUser::Stream => &self.free_for_streams,
        }
    }

    /// Takes back an exchange that is over; `None` when it must not be used again.
    #[inline]
    pub(crate) fn give_back(&self, user: ExchangeUser, exchange: Option<PooledExchange>) {
        self.worker.exchanges.give_back();
        self.worker.wake_waiting_for_buffers();
        self.worker.shard.exchanges_open.decrement();
        let mut free = self.free(user).borrow_mut();
        if free.len() < KEPT_MAX {
            free.extend(exchange);
        }
    }

    /// Gives the memory of those that are free back to the allocator.
    pub(crate) fn shrink(&self) {
        self.free.take();
        self.free_for_streams.take();
    }

    /// How many are free.
    pub(crate) fn free_count(&self) -> usize {
        self.free.borrow().len() + self.free_for_streams.borrow().len()
    }
}

/// What an exchange runs for: those of streams need no state of HTTP/1 and are smaller, since many of them wait at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeUser {
    /// A connection with one exchange at a time.
    Connection,
    /// A stream among others.
    Stream,
}

/// The state of one running exchange, on the heap once. It can be lent out again whenever no connection is in it.
pub(crate) struct PooledExchange {
    slot: Rc<ConnectionCell>,
    work: Pin<Box<dyn Future<Output = Infallible>>>,
}

/// Where a connection waits for its exchange to begin, or to be taken back.
type ConnectionCell = Cell<Option<SlotState>>;

enum SlotState {
    Waiting(Box<ClientConnection>),
    Done(Box<ClientConnection>, AfterStream),
    StreamWaiting(Box<StreamClient>),
    StreamDone(Box<StreamClient>, End),
}

impl PooledExchange {
    /// Bytes of one, without what its exchange has put on the heap.
    pub(crate) fn bytes_min() -> usize {
        size_of::<Self>() + size_of::<ConnectionCell>() + future_bytes(run_for_connections)
    }

    fn new(user: ExchangeUser) -> Self {
        let slot = Rc::new(Cell::new(None));
        let work: Pin<Box<dyn Future<Output = Infallible>>> = match user {
            ExchangeUser::Connection => Box::pin(run_for_connections(Rc::clone(&slot))),
            ExchangeUser::Stream => Box::pin(run_for_streams(Rc::clone(&slot))),
        };
        Self { slot, work }
    }

    /// Takes in a connection on which a request is arriving.
    pub(crate) fn begin(&mut self, conn: Box<ClientConnection>) {
        self.slot.set(Some(SlotState::Waiting(conn)));
    }

    /// Takes in one stream of a connection, whose head is there.
    pub(crate) fn begin_stream(&mut self, stream: Box<StreamClient>) {
        self.slot.set(Some(SlotState::StreamWaiting(stream)));
    }

    /// Runs the exchange; gives the stream back with how it ended.
    pub(crate) fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<(Box<StreamClient>, End)> {
        match self.work.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => match self.slot.take() {
                Some(SlotState::StreamDone(stream, end)) => Poll::Ready((stream, end)),
                other => {
                    self.slot.set(other);
                    Poll::Pending
                }
            },
        }
    }

    /// Runs the exchange; gives the connection back with what becomes of it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Box<ClientConnection>, AfterStream)> {
        match self.work.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => match self.slot.take() {
                Some(SlotState::Done(conn, after)) => Poll::Ready((conn, after)),
                other => {
                    self.slot.set(other);
                    Poll::Pending
                }
            },
        }
    }
}

/// Bytes of what a function makes when it is called.
pub(crate) fn future_bytes<A, F: Future>(_function: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

/// The next one that waits for its exchange.
async fn next<T>(slot: &ConnectionCell, take: impl Fn(SlotState) -> Result<T, SlotState>) -> T {
    poll_fn(|_| match slot.take().map(&take) {
        Some(Ok(waiting)) => Poll::Ready(waiting),
        other => {
            slot.set(other.and_then(Result::err));
            Poll::Pending
        }
    })
    .await
}

/// Runs the exchanges of connections, one after the other.
async fn run_for_connections(slot: Rc<ConnectionCell>) -> Infallible {
    let mut exchange = Exchange::new();
    let mut http1 = Http1StreamState::new();
    let mut servers = PooledServers::default();
    loop {
        let mut conn = next(&slot, |state| match state {
            SlotState::Waiting(conn) => Ok(conn),
            other => Err(other),
        })
        .await;
        let after = match conn.client.protocol {
            ListenerProtocol::Http => {
                let (client, mut stream) = conn.stream(&mut http1);
                let end = exchange::run(client, &mut stream, &mut servers, &mut exchange).await;
                stream.after(end, &exchange)
            }
            ListenerProtocol::Tcp => {
                let (client, mut stream) = conn.tcp_stream();
                match exchange::tcp::run(client, &mut stream, &mut servers.http1, &mut exchange).await {
                    End::Tunnel(tunnel) => AfterStream::Tunnel(tunnel),
                    _ => AfterStream::Close,
                }
            }
        };
        exchange.reset();
        http1.reset();
        slot.set(Some(SlotState::Done(conn, after)));
    }
}

/// Runs the exchanges of streams, one after the other.
async fn run_for_streams(slot: Rc<ConnectionCell>) -> Infallible {
    let mut exchange = Exchange::new();
    let mut servers = PooledServers::default();
    loop {
        let mut stream = next(&slot, |state| match state {
            SlotState::StreamWaiting(stream) => Ok(stream),
            other => Err(other),
        })
        .await;
        let end = {
            let StreamClient { client, stream: http2 } = &mut *stream;
            exchange::run(client, http2, &mut servers, &mut exchange).await
        };
        exchange.reset();
        slot.set(Some(SlotState::StreamDone(stream, end)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_waits_is_small() {
        // A connection of HTTP/2 has a hundred of them and more.
        let future = future_bytes(run_for_streams);
        assert!(future <= 2048, "{future}");
    }
}
