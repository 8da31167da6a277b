//! HTTP/1 to servers (RFC 9112): one stream after the other on a connection from a pool.
//!
//! Framing, keep-alive and `Connection` towards servers are decided here and nowhere else.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_http::http1::{
    FieldLines, HeadProgress, ResponseFraming, ResponseParser, keep_alive_timeout, keeps_alive, write,
};
use weir_http::{BodyLength, ChunkedLimits, FieldWriter as _, HeadLimits, Method, ResponseHead, Version};
use weir_observe::Failure;

use super::handshake::{self, ConnectionSetup};
use super::pinned::PinnedConnections;
use super::proxy_header::Header;
use super::stream::{Destination, HeadError, KeepAlive, RequestLine, ServerStream, Servers};
use super::tunnel::ServerEnd;
use crate::net::buffer::BufferStock;
use crate::net::clock::Instant;
use crate::net::connection::Connection;
use crate::net::socket::Behind;
use crate::relay::http1::{Framing, Incoming, Outgoing, Reader, Writer};
use crate::state::pool::ServerConnection;
use crate::state::worker::Worker;

/// Memory that each buffer of a stream keeps for the next; more goes back to the allocator.
const MEMORY_KEPT_MAX: usize = 8 * 1024;

/// The state of a stream, whose memory is reused from one to the next.
#[derive(Debug)]
struct Http1ServerStreamState {
    request: Outgoing,
    parser: ResponseParser,
    body: Incoming,
    /// Bytes of the head of the response at the front of the input, once it is complete.
    head_len: usize,
    received_any: bool,
    /// Whether the server keeps the connection open after this response, and for how long if it says so.
    keeps_alive: bool,
    announced: KeepAlive,
}

impl Http1ServerStreamState {
    fn new() -> Self {
        Self {
            request: Outgoing::new(),
            parser: ResponseParser::new(),
            body: Incoming::nothing(),
            head_len: 0,
            received_any: false,
            keeps_alive: false,
            announced: None,
        }
    }

    /// Forgets the stream; keeps the memory.
    fn reset(&mut self) {
        self.request.reset(MEMORY_KEPT_MAX);
        self.parser.reset();
        self.body.begin_nothing();
        (self.head_len, self.received_any, self.keeps_alive, self.announced) = (0, false, false, None);
    }
}

/// Streams of HTTP/1 to servers, for one exchange at a time.
#[derive(Debug, Default)]
pub(crate) struct Http1Servers {
    /// The memory of the last stream.
    free: Option<Box<Http1ServerStreamState>>,
}

/// One request on a connection to a server, and its response.
#[derive(Debug)]
pub(crate) struct Http1ServerStream {
    server: ServerConnection,
    state: Box<Http1ServerStreamState>,
}

impl Http1Servers {
    fn stream(&mut self, mut server: ServerConnection) -> Http1ServerStream {
        server.requests += 1;
        let state = self.free.take().unwrap_or_else(|| Box::new(Http1ServerStreamState::new()));
        Http1ServerStream { server, state }
    }

    fn recycle(&mut self, mut state: Box<Http1ServerStreamState>) {
        state.reset();
        self.free = Some(state);
    }
}

impl Servers for Http1Servers {
    type Stream = Http1ServerStream;
    type Opened = Connection;

    fn take_kept(
        &mut self,
        to: Destination<'_>,
        pinned: &mut PinnedConnections,
        now: Instant,
        careful: bool,
    ) -> Option<Http1ServerStream> {
        let plan = to.plan();
        let own = pinned.take(to.local(), now, careful);
        let own = own.filter(|own| !plan.has_moved(to.server, own.opened_at));
        let kept = match own {
            None if plan.config.proxy_protocol.is_none() => {
                to.config.take_pooled(to.upstream, to.server, now, careful)
            }
            own => own,
        };
        kept.map(|kept| self.stream(kept))
    }

    fn forget_kept(&mut self, to: Destination<'_>, pinned: &mut PinnedConnections) {
        to.plan().shared_pool[to.server].iter().for_each(|shared| shared.clear());
        pinned.clear(to.local());
    }

    fn open(
        &mut self,
        to: Destination<'_>,
        header: Option<Header>,
        behind: Behind,
        worker: Rc<Worker>,
    ) -> impl Future<Output = Result<Connection, Failure>> {
        let endpoints = to.plan().live[to.server].endpoints.load_full();
        let handshake_config = to.plan().tls.as_ref().map(|config| config.for_traffic(to.server));
        let first = worker.random() as usize;
        async move {
            let setup = ConnectionSetup {
                header: header.as_ref(),
                handshake: handshake_config.as_ref(),
                behind,
                timers: Some(&worker.timers),
            };
            handshake::open(setup, &endpoints, first, &worker.stock).await
        }
    }

    fn begin(&mut self, opened: Connection, to: Destination<'_>, now: Instant) -> Http1ServerStream {
        let shard = &to.local().shard;
        if let Some(tls) = &opened.tls {
            shard.tls_handshakes.increment();
            shard.tls_resumptions.add(u64::from(tls.is_resumed()));
        }
        self.stream(ServerConnection::new(opened, now, Arc::clone(shard)))
    }

    /// Keeps the connection for the next request: of any client, or of this one if a PROXY header has named its client.
    fn finish(
        &mut self,
        stream: Http1ServerStream,
        to: Destination<'_>,
        pinned: &mut PinnedConnections,
        now: Instant,
        was_sent: bool,
    ) {
        let Http1ServerStream { server, state } = stream;
        let (keeps_alive, announced) = (state.keeps_alive, state.announced);
        self.recycle(state);
        if !keeps_alive || !was_sent {
            return;
        }
        let (plan, is_private) = (to.plan(), server.is_private);
        if plan.config.proxy_protocol.is_none() && !is_private {
            to.config.return_to_pool(to.upstream, to.server, server, now, announced);
        } else if plan.shared_pool[to.server].is_none() || is_private {
            // A server with a limit may serve no other client while a client that is silent holds a connection to it; but without
            // this one, the client could not authenticate at all.
            pinned.keep(server, to.local(), now, &plan.pool_limits, announced);
        }
    }

    fn drop_stream(&mut self, stream: Http1ServerStream) {
        self.recycle(stream.state);
    }
}

impl ServerStream for Http1ServerStream {
    type Request<'a> = Writer<'a>;
    type Body<'a> = Reader<'a>;
    type Fields<'a> = FieldLines;

    fn history(&self) -> (Instant, u64) {
        (self.server.opened_at, self.server.requests - 1)
    }

    fn set_private(&mut self) {
        self.server.is_private = true;
    }

    #[inline]
    fn send(&mut self, head: &RequestLine<'_>, fields: impl FnOnce(&mut FieldLines)) {
        let request = &mut self.state.request;
        let mut out = FieldLines(std::mem::take(&mut request.staged));
        write::request_line(&mut out.0, head.method, head.target, Version::Http11);
        out.field(b"Host", head.host);
        fields(&mut out);
        match head.body {
            BodyLength::Known(len) => out.decimal_field(b"Content-Length", len),
            BodyLength::Unknown => out.lines(b"Transfer-Encoding: chunked\r\n"),
            BodyLength::None if head.announces_length => out.lines(b"Content-Length: 0\r\n"),
            BodyLength::None => {}
        }
        write_connection(&mut out, head, head.close && !self.server.is_private);
        out.lines(b"\r\n");
        request.staged = out.0;
        request.framing = match head.body {
            BodyLength::Unknown => Framing::Chunked,
            BodyLength::None | BodyLength::Known(_) => Framing::Plain,
        };
    }

    #[inline]
    fn request(&mut self) -> Writer<'_> {
        Writer { connection: &mut self.server.connection, outgoing: &mut self.state.request }
    }

    fn sent(&self) -> u64 {
        self.state.request.sent
    }

    fn received_any(&self) -> bool {
        self.state.received_any
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        stock: &Rc<BufferStock>,
        response: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Poll<Result<(), HeadError>> {
        loop {
            let connection = &mut self.server.connection;
            if !connection.received().is_empty() {
                match self.state.parser.parse(response, connection.received(), limits) {
                    Ok(HeadProgress::Complete { len }) => {
                        self.state.head_len = len;
                        return Poll::Ready(Ok(()));
                    }
                    Ok(HeadProgress::Incomplete) => make_room(connection, limits),
                    Err(rule) => return Poll::Ready(Err(HeadError::Broken(rule))),
                }
            }
            match ready!(connection.poll_fill(cx, stock)) {
                Ok(0) => return Poll::Ready(Err(HeadError::Closed)),
                Ok(_) => self.state.received_any = true,
                Err(error) => return Poll::Ready(Err(HeadError::Io(error))),
            }
        }
    }

    fn head(&self) -> &[u8] {
        self.state.parser.text(&self.server.connection.received()[..self.state.head_len])
    }

    fn take_head(&mut self) {
        self.server.connection.consume(self.state.head_len);
        self.state.head_len = 0;
        self.state.parser.reset();
    }

    fn begin_body(&mut self, response: &ResponseHead, method: Method, limits: ChunkedLimits) -> BodyLength {
        let framing = self.state.parser.framing(response, method);
        match framing {
            ResponseFraming::None => self.state.body.begin_nothing(),
            ResponseFraming::Length(len) => self.state.body.begin_length(len),
            ResponseFraming::Chunked => self.state.body.begin_chunked(limits, None),
            ResponseFraming::UntilClose => self.state.body.begin_until_close(),
        }
        self.state.keeps_alive =
            keeps_alive(response.version(), response.connection()) && framing != ResponseFraming::UntilClose;
        let seconds = keep_alive_timeout(response.fields(), self.head());
        self.state.announced = seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
        response.body(method)
    }

    fn is_body_here(&self) -> bool {
        self.state.body.seems_whole(&self.server.connection.received()[self.state.head_len..])
    }

    #[inline]
    fn body<'a>(&'a mut self, stock: &'a Rc<BufferStock>) -> Reader<'a> {
        Reader { connection: &mut self.server.connection, incoming: &mut self.state.body, stock }
    }

    fn into_tunnel(self) -> ServerEnd {
        ServerEnd::Connection(self.server)
    }
}

/// Makes the input larger where it is full of a head that goes on.
fn make_room(connection: &mut Connection, limits: &HeadLimits) {
    if let Some(input) = connection.input.as_mut().filter(|input| input.is_full()) {
        let size = (input.len() * 2).min(limits.head_bytes_max + 1).max(input.len() + 1);
        input.grow(size);
    }
}

fn write_connection(out: &mut FieldLines, head: &RequestLine<'_>, close: bool) {
    if let Some(protocol) = head.upgrade {
        out.field(b"Connection", b"Upgrade");
        return out.field(b"Upgrade", protocol);
    }
    // RFC 9110 section 10.1.4: Connection has to name TE.
    out.lines(match (head.takes_trailers, close) {
        (true, true) => b"TE: trailers\r\nConnection: TE, close\r\n",
        (true, false) => b"TE: trailers\r\nConnection: TE\r\n",
        (false, true) => b"Connection: close\r\n",
        (false, false) => return,
    });
}
