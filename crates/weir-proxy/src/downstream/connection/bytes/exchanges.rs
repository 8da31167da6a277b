//! The exchanges of a connection of bytes: one at a time, borrowed for each request of HTTP/1 or for the whole of a TCP connection.

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use weir_observe::{Cause, Failure, Phase};

use super::ByteConnection;
use crate::downstream::abort::LOOK_INTERVAL;
use crate::downstream::byte_driver::ByteDriver;
use crate::downstream::connection::exchange_pool::{
    ExchangePool, ExchangeSlot, ExchangeUser, KeptExchanges, PooledExchange,
};
use crate::downstream::connection::lease::Lease;
use crate::downstream::http1::{AfterStream, Http1Stream, Http1StreamState};
use crate::downstream::tcp::TcpStream;
use crate::downstream::transport::ByteTransport;
use crate::exchange::End;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::{self, Exchange};
use crate::net::clock;
use crate::state::connections::activity::Activity;
use crate::upstream::pooled::PooledServers;

impl ByteConnection {
    /// The client, and the stream of HTTP/1 that runs on the connection.
    fn stream<'a>(&'a mut self, state: &'a mut Http1StreamState) -> (&'a mut Client, Http1Stream<'a>) {
        let Self { client, transport, .. } = self;
        let ByteTransport { connection, refused, looked, .. } = transport;
        (client, Http1Stream { connection, refused, looked, state })
    }

    /// The client, and its raw bytes.
    fn tcp_stream(&mut self) -> (&mut Client, TcpStream<'_>) {
        let Self { client, transport, .. } = self;
        let ByteTransport { connection, refused, looked, .. } = transport;
        (client, TcpStream { connection, refused, looked })
    }
}

impl ExchangeUser for ByteConnection {
    type Outcome = AfterStream;

    fn kept(pool: &ExchangePool) -> &KeptExchanges<Self> {
        &pool.bytes
    }

    async fn run_all(slot: Rc<ExchangeSlot<Self>>) -> Infallible {
        let mut exchange = Exchange::new();
        let mut http1 = Http1StreamState::new();
        let mut servers = PooledServers::default();
        loop {
            let mut conn = slot.next().await;
            let after = match conn.transport.driver {
                ByteDriver::Http1 => {
                    let (client, mut stream) = conn.stream(&mut http1);
                    let end = exchange::run(client, &mut stream, &mut servers, &mut exchange).await;
                    stream.after(end, &exchange)
                }
                ByteDriver::Tcp => {
                    let (client, mut stream) = conn.tcp_stream();
                    match exchange::tcp::run(client, &mut stream, &mut servers.http1, &mut exchange).await {
                        End::Tunnel(tunnel) => AfterStream::Tunnel(tunnel),
                        _ => AfterStream::Close,
                    }
                }
                ByteDriver::Http2 => unreachable!("its streams have exchanges of their own"),
            };
            exchange.reset();
            http1.reset();
            slot.end(conn, after);
        }
    }
}

impl Lease<ByteConnection> {
    /// Takes an exchange, waiting for one when the buffers of the worker are used up; `None` when the connection ends meanwhile.
    pub(super) async fn take(conn: &mut ByteConnection) -> Option<Self> {
        let exchange = match conn.exchanges.try_take() {
            Some(exchange) => exchange,
            // On the heap, since it is rare and would make every connection larger.
            None => Box::pin(wait(conn)).await?,
        };
        let held = i32::from(conn.transport.connection.input.is_some());
        Some(Self::new(Rc::clone(&conn.exchanges), exchange, held))
    }
}

/// Waits no longer than a request head may take; then the client gets the failure `buffer-limit`.
async fn wait(conn: &mut ByteConnection) -> Option<PooledExchange<ByteConnection>> {
    let pool = Rc::clone(&conn.exchanges);
    let mut exchange = pin!(pool.take());
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
            conn.transport.refused = Some(Failure::weir(Phase::Request, Cause::BufferLimit));
            Some(pool.take_beyond())
        })
    })
    .await
}
