//! Streams to the servers of all upstreams, each by the protocol of its upstream: what the exchanges of clients run on.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_http::{ChunkedLimits, Framing, HeadLimits, Method, ResponseHead};
use weir_observe::{Cause, Failure};

use super::fastcgi::{FastcgiServerStream, FastcgiServers};
use super::http1::{Http1ServerStream, Http1Servers};
use super::http2::{Http2Opened, Http2ServerStream, Http2Servers, StreamTicket};
use super::pinned::PinnedConnections;
use super::proxy_header::ConnectionIdentity;
use super::stream::{
    Destination, HeadError, OutgoingFields, RequestLine, ServerStream, Servers, UnreadRequest,
};
use super::tunnel::ServerEnd;
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::socket::Behind;
use crate::relay::Relay;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::worker::Worker;

/// Streams of every protocol.
#[derive(Debug, Default)]
pub(crate) struct PooledServers {
    pub(crate) http1: Http1Servers,
    http2: Http2Servers,
    fastcgi: FastcgiServers,
}

/// A stream of one of the protocols.
pub(crate) enum PooledStream {
    Http1(Http1ServerStream),
    /// Behind one pointer, so that a stream is two words: it is moved several times in each exchange.
    Other(Box<OtherStream>),
}

/// A stream of a protocol that is less common.
#[expect(clippy::large_enum_variant, reason = "each stream has one, in a box")]
pub(crate) enum OtherStream {
    Http2(Http2ServerStream),
    Fastcgi(FastcgiServerStream),
}

impl From<Http2ServerStream> for PooledStream {
    fn from(stream: Http2ServerStream) -> Self {
        Self::Other(Box::new(OtherStream::Http2(stream)))
    }
}

impl From<FastcgiServerStream> for PooledStream {
    fn from(stream: FastcgiServerStream) -> Self {
        Self::Other(Box::new(OtherStream::Fastcgi(stream)))
    }
}

/// What opening a connection gives.
pub(crate) enum PooledOpened {
    /// A connection, and whether it was counted and its handshake with it.
    Http1(Connection, bool),
    Http2(StreamTicket),
    Fastcgi(Connection),
}

impl Servers for PooledServers {
    type Stream = PooledStream;
    type Opened = PooledOpened;

    fn for_background(&self) -> Self {
        Self::default()
    }

    #[inline(always)]
    fn take_kept(
        &mut self,
        to: Destination<'_>,
        pinned: &mut PinnedConnections,
        now: Instant,
        careful: bool,
    ) -> Option<PooledStream> {
        if to.plan.shares_connections() {
            if let Some(stream) = self.http2.take(to) {
                return Some(stream.into());
            }
            if !self.http2.uses_http1(to, now) {
                return None;
            }
        } else if to.plan.speaks_fastcgi() {
            return self.fastcgi.take_kept(to, pinned, now, careful).map(PooledStream::from);
        }
        self.http1.take_kept(to, pinned, now, careful).map(PooledStream::Http1)
    }

    fn forget_kept(&mut self, to: Destination<'_>, pinned: &mut PinnedConnections) {
        // A shared connection that has ended is forgotten already, and says nothing about the others.
        if !to.plan.shares_connections() || self.http2.uses_http1(to, clock::now()) {
            self.http1.forget_kept(to, pinned);
        }
    }

    fn open(
        &mut self,
        to: Destination<'_>,
        identity: ConnectionIdentity,
        behind: Behind,
        worker: Rc<Worker>,
    ) -> impl Future<Output = Result<PooledOpened, Failure>> {
        let is_shared = to.plan.shares_connections();
        let is_shared = is_shared && !self.http2.uses_http1(to, clock::now());
        let shared = is_shared.then(|| self.http2.open(to, &worker));
        let alone = self.http1.open(to, identity, behind, worker);
        let is_fastcgi = to.plan.speaks_fastcgi();
        async move {
            if let Some(shared) = shared {
                match shared.await? {
                    Http2Opened::Stream(ticket) => return Ok(PooledOpened::Http2(ticket)),
                    Http2Opened::Http1(connection) => return Ok(PooledOpened::Http1(*connection, true)),
                    Http2Opened::Http1Elsewhere => {}
                }
            }
            let connection = alone.await?;
            Ok(match is_fastcgi {
                true => PooledOpened::Fastcgi(connection),
                false => PooledOpened::Http1(connection, false),
            })
        }
    }

    fn lateness(&self, to: Destination<'_>) -> Failure {
        let is_shared = to.plan.shares_connections() && !self.http2.uses_http1(to, clock::now());
        if is_shared { self.http2.lateness(to) } else { self.http1.lateness(to) }
    }

    fn begin(&mut self, opened: PooledOpened, to: Destination<'_>, now: Instant) -> PooledStream {
        match opened {
            PooledOpened::Http1(connection, is_counted) => {
                if !is_counted {
                    Http1Servers::count_handshake(&connection, to);
                }
                PooledStream::Http1(self.http1.begin_on(connection, to, now))
            }
            PooledOpened::Fastcgi(connection) => self.fastcgi.begin(connection, to, now).into(),
            PooledOpened::Http2(ticket) => self.http2.begin(&ticket, to).into(),
        }
    }

    #[inline(always)]
    fn finish(
        &mut self,
        stream: PooledStream,
        to: Destination<'_>,
        pinned: &mut PinnedConnections,
        now: Instant,
        was_sent: bool,
    ) {
        match stream {
            PooledStream::Http1(stream) => self.http1.finish(stream, to, pinned, now, was_sent),
            PooledStream::Other(stream) => match *stream {
                OtherStream::Http2(stream) => stream.finish(),
                OtherStream::Fastcgi(stream) => self.fastcgi.finish(stream, to, pinned, now, was_sent),
            },
        }
    }

    fn drop_stream(&mut self, stream: PooledStream) {
        match stream {
            PooledStream::Http1(stream) => self.http1.drop_stream(stream),
            PooledStream::Other(stream) => match *stream {
                OtherStream::Http2(stream) => stream.finish(),
                OtherStream::Fastcgi(stream) => self.fastcgi.drop_stream(stream),
            },
        }
    }
}

/// Calls the same of a stream that is borrowed, whatever its protocol.
macro_rules! of_stream {
    ($stream:expr, $name:ident => $call:expr) => {
        match $stream {
            PooledStream::Http1($name) => $call,
            PooledStream::Other(other) => match other.as_ref() {
                OtherStream::Http2($name) => $call,
                OtherStream::Fastcgi($name) => $call,
            },
        }
    };
}

/// The same of one that changes.
macro_rules! of_stream_mut {
    ($stream:expr, $name:ident => $call:expr) => {
        match $stream {
            PooledStream::Http1($name) => $call,
            PooledStream::Other(other) => match other.as_mut() {
                OtherStream::Http2($name) => $call,
                OtherStream::Fastcgi($name) => $call,
            },
        }
    };
}

impl ServerStream for PooledStream {
    #[inline(always)]
    fn history(&self) -> (Instant, u64) {
        of_stream!(self, stream => stream.history())
    }

    fn set_private(&mut self) {
        of_stream_mut!(self, stream => stream.set_private());
    }

    #[inline(always)]
    fn send(&mut self, head: &RequestLine<'_>, fields: &impl OutgoingFields) {
        of_stream_mut!(self, stream => stream.send(head, fields));
    }

    #[inline(always)]
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        body: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        of_stream_mut!(self, stream => stream.poll_request(cx, relay, body))
    }

    #[inline(always)]
    fn sent(&self) -> u64 {
        of_stream!(self, stream => stream.sent())
    }

    #[inline(always)]
    fn received_any(&self) -> bool {
        of_stream!(self, stream => stream.received_any())
    }

    fn unread(&self) -> UnreadRequest {
        of_stream!(self, stream => stream.unread())
    }

    #[inline(always)]
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        stock: &Rc<BufferStock>,
        response: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Poll<Result<(), HeadError>> {
        of_stream_mut!(self, stream => stream.poll_head(cx, stock, response, limits))
    }

    #[inline(always)]
    fn head(&self) -> &[u8] {
        of_stream!(self, stream => stream.head())
    }

    #[inline(always)]
    fn take_head(&mut self) {
        of_stream_mut!(self, stream => stream.take_head());
    }

    #[inline(always)]
    fn begin_body(&mut self, response: &ResponseHead, method: Method, limits: ChunkedLimits) -> Framing {
        of_stream_mut!(self, stream => stream.begin_body(response, method, limits))
    }

    fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        of_stream_mut!(self, stream => stream.strip_trailers(stripped));
    }

    #[inline(always)]
    fn is_body_here(&self) -> bool {
        of_stream!(self, stream => stream.is_body_here())
    }

    #[inline(always)]
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        client: &mut impl Sink,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>> {
        of_stream_mut!(self, stream => stream.poll_response(cx, relay, client, stock))
    }

    fn check_switch(&self, response: &ResponseHead) -> Result<(), Cause> {
        of_stream!(self, stream => stream.check_switch(response))
    }

    fn trailer<T>(&self, name: &str, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        of_stream!(self, stream => stream.trailer(name, read))
    }

    fn into_tunnel(self) -> ServerEnd {
        match self {
            PooledStream::Http1(stream) => stream.into_tunnel(),
            PooledStream::Other(stream) => match *stream {
                OtherStream::Http2(stream) => stream.into_tunnel(),
                OtherStream::Fastcgi(stream) => stream.into_tunnel(),
            },
        }
    }
}
