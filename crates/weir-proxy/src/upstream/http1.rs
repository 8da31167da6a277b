//! HTTP/1 to servers (RFC 9112): one stream after the other on a connection from a pool.
//!
//! Framing, keep-alive and `Connection` towards servers are decided here and nowhere else.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_http::http1::{FieldLines, HeadProgress, ResponseParser, keep_alive_timeout, keeps_alive, write};
use weir_http::{
    ChunkedLimits, FieldName, FieldWriter as _, Framing, HeadLimits, Method, ResponseHead, Version,
};
use weir_observe::{Cause, Failure};

use super::handshake::{self, ConnectionSetup};
use super::pinned::PinnedConnections;
use super::proxy_header::ConnectionIdentity;
use super::stream::{
    Destination, HeadError, KeepAlive, OutgoingFields, RequestLine, ServerStream, Servers, UnreadRequest,
};
use super::tunnel::ServerEnd;
use super::websocket::{AskedUpgrade, WebsocketKey};
use crate::net::buffer::BufferStock;
use crate::net::clock::Instant;
use crate::net::connection::Connection;
use crate::net::permit_queue;
use crate::net::socket::Behind;
use crate::relay::Relay;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::http1::{Incoming, Outgoing, Reader, TransferCoding, Writer};
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::servers::pool::ServerConnection;
use crate::state::worker::Worker;
use crate::state::worker_config::WorkerConfig;

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
    /// Whether the server has closed the connection in the place of a response.
    ended: bool,
    /// Whether the server keeps the connection open after this response, and for how long if it says so.
    keeps_alive: bool,
    announced: KeepAlive,
    /// The protocol that it was asked to switch to.
    asked_upgrade: Option<Box<AskedUpgrade>>,
}

impl Http1ServerStreamState {
    fn new() -> Self {
        Self {
            request: Outgoing::new(),
            parser: ResponseParser::new(),
            body: Incoming::nothing(),
            head_len: 0,
            received_any: false,
            ended: false,
            keeps_alive: false,
            announced: None,
            asked_upgrade: None,
        }
    }

    /// Forgets the stream; keeps the memory.
    fn reset(&mut self) {
        self.request.reset(MEMORY_KEPT_MAX);
        self.parser.reset();
        self.body.begin_nothing();
        (self.head_len, self.received_any, self.keeps_alive, self.announced) = (0, false, false, None);
        (self.ended, self.asked_upgrade) = (false, None);
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
    server: Box<ServerConnection>,
    state: Box<Http1ServerStreamState>,
}

impl Http1Servers {
    fn stream(&mut self, mut server: Box<ServerConnection>) -> Http1ServerStream {
        server.requests += 1;
        let state = self.free.take().unwrap_or_else(|| Box::new(Http1ServerStreamState::new()));
        Http1ServerStream { server, state }
    }

    /// Counts the handshake of a new connection.
    pub(crate) fn count_handshake(opened: &Connection, to: Destination<'_>) {
        if let Some(tls) = &opened.tls {
            let shard = &to.local.shard;
            shard.tls_handshakes.increment();
            shard.tls_resumptions.add(u64::from(tls.is_resumed()));
        }
    }

    /// The stream on a new connection, whose handshake is counted.
    pub(crate) fn begin_on(
        &mut self,
        opened: Connection,
        to: Destination<'_>,
        now: Instant,
    ) -> Http1ServerStream {
        self.stream(ServerConnection::new(opened, now, Arc::clone(&to.local.shard)))
    }

    fn recycle(&mut self, mut state: Box<Http1ServerStreamState>) {
        state.reset();
        self.free = Some(state);
    }
}

impl Servers for Http1Servers {
    type Stream = Http1ServerStream;
    type Opened = Connection;

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
    ) -> Option<Http1ServerStream> {
        let (plan, local) = (to.plan, to.local);
        let own = pinned.take(local, now, careful);
        let own = own.filter(|own| !plan.is_outdated(to.server, own.opened_at));
        let kept = match own {
            None if !plan.is_for_one_client => {
                WorkerConfig::take_pooled(plan, local, to.server, now, careful)
            }
            own => own,
        };
        kept.map(|kept| self.stream(kept))
    }

    fn forget_kept(&mut self, to: Destination<'_>, pinned: &mut PinnedConnections) {
        to.plan.shared_pool[to.server].iter().for_each(|shared| shared.clear());
        pinned.clear(to.local);
    }

    fn open(
        &mut self,
        to: Destination<'_>,
        identity: ConnectionIdentity,
        behind: Behind,
        worker: Rc<Worker>,
    ) -> impl Future<Output = Result<Connection, Failure>> {
        let endpoints = to.plan.live[to.server].endpoints.load_full();
        let handshake_config = to.plan.tls.as_ref().map(|config| config.for_http1_traffic(to.server));
        let first = worker.random() as usize;
        async move {
            let setup = ConnectionSetup {
                identity: &identity,
                handshake: handshake_config.as_ref(),
                behind,
                timers: Some(&worker.timers),
            };
            handshake::open(setup, &endpoints, first, &worker.stock).await
        }
    }

    fn begin(&mut self, opened: Connection, to: Destination<'_>, now: Instant) -> Http1ServerStream {
        Self::count_handshake(&opened, to);
        self.begin_on(opened, to, now)
    }

    /// Keeps the connection for the next request: of any client, or of this one if a PROXY header or its source has named its client.
    #[inline(always)]
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
        let (plan, is_private) = (to.plan, server.is_private);
        if !plan.is_for_one_client && !is_private {
            to.config.return_to_pool((to.plan, to.local), (to.upstream, to.server), server, now, announced);
        } else if !is_private && permit_queue::is_awaited() {
            // Its descriptor is awaited.
        } else if plan.shared_pool[to.server].is_none() || is_private {
            // A server with a limit may serve no other client while a client that is silent holds a connection to it; but without
            // this one, the client could not authenticate at all.
            pinned.keep(server, to.local, now, &plan.pool_limits, announced);
        }
    }

    fn drop_stream(&mut self, stream: Http1ServerStream) {
        self.recycle(stream.state);
    }
}

impl Http1ServerStream {
    #[inline]
    fn request(&mut self) -> Writer<'_> {
        Writer { connection: &mut self.server.connection, outgoing: &mut self.state.request }
    }
}

impl ServerStream for Http1ServerStream {
    fn history(&self) -> (Instant, u64) {
        (self.server.opened_at, self.server.requests - 1)
    }

    fn set_private(&mut self) {
        self.server.is_private = true;
    }

    #[inline]
    fn send(&mut self, head: &RequestLine<'_>, fields: &impl OutgoingFields) {
        let request = &mut self.state.request;
        let mut out = FieldLines(std::mem::take(&mut request.staged));
        write::request_line(&mut out.0, head.method, head.target, Version::Http11);
        out.lines(b"Host: ");
        out.lines(head.host);
        out.lines(b"\r\n");
        fields.write(&mut out);
        let mut coding = TransferCoding::None;
        match head.body {
            Framing::Length(len) => out.decimal_field(b"Content-Length", len),
            Framing::Delimited | Framing::UntilClose => {
                coding = TransferCoding::Chunked;
                out.lines(b"Transfer-Encoding: chunked\r\n");
            }
            Framing::None => {}
        }
        match head.upgrade {
            Some(protocol) => self.state.asked_upgrade = Some(write_upgrade(&mut out, protocol, head)),
            None => write_connection(&mut out, head, head.close && !self.server.is_private),
        }
        out.lines(b"\r\n");
        request.staged = out.0;
        request.begin(head.body, coding);
    }

    #[inline]
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        body: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        relay.poll(cx, body, &mut self.request())
    }

    fn sent(&self) -> u64 {
        self.state.request.sent
    }

    fn received_any(&self) -> bool {
        self.state.received_any
    }

    /// The end of the server's bytes acknowledges what had arrived before it, which is none of the request: the server had closed its
    /// direction already. That it had closed the other one as well, so that it cannot read the request, shows in the reset that answers it.
    /// A reset in the place of the end acknowledges nothing that the kernel would tell: the server may have read the request.
    fn unread(&self) -> UnreadRequest {
        let connection = &self.server.connection;
        if !self.state.ended || !connection.has_delivered_none(self.state.request.sent) {
            UnreadRequest::Unknown
        } else if connection.is_reset() {
            UnreadRequest::Certain
        } else {
            UnreadRequest::Likely
        }
    }

    #[inline(always)]
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
                Ok(0) => {
                    self.state.ended = !self.state.received_any;
                    return Poll::Ready(Err(HeadError::Closed));
                }
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

    #[inline(always)]
    fn begin_body(&mut self, response: &ResponseHead, method: Method, limits: ChunkedLimits) -> Framing {
        let framing = response.body(method);
        match framing {
            Framing::None => self.state.body.begin_nothing(),
            Framing::Length(len) => self.state.body.begin_length(len),
            Framing::Delimited => self.state.body.begin_chunked(limits, None),
            Framing::UntilClose => self.state.body.begin_until_close(),
        }
        self.state.keeps_alive =
            keeps_alive(response.version(), response.connection()) && framing != Framing::UntilClose;
        let says_how_long = response.fields().contains(FieldName::KeepAlive);
        let seconds = if says_how_long { keep_alive_timeout(response.fields(), self.head()) } else { None };
        self.state.announced = seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
        framing
    }

    fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        self.state.body.strip_trailers(stripped);
    }

    fn is_body_here(&self) -> bool {
        self.state.body.seems_whole(&self.server.connection.received()[self.state.head_len..])
    }

    #[inline]
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        client: &mut impl Sink,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>> {
        let Self { server, state } = self;
        let mut body = Reader { connection: &mut server.connection, incoming: &mut state.body, stock };
        relay.poll(cx, &mut body, client)
    }

    fn check_switch(&self, response: &ResponseHead) -> Result<(), Cause> {
        let Some(asked) = &self.state.asked_upgrade else { return Err(Cause::UnexpectedUpgrade) };
        let values = |name| response.fields().all(name).map(|field| field.value.of(self.head()));
        asked.check(values(FieldName::Upgrade), values(FieldName::SecWebsocketAccept))
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

/// Asks for another protocol, with a key if that is needed.
#[cold]
fn write_upgrade(out: &mut FieldLines, protocol: &[u8], head: &RequestLine<'_>) -> Box<AskedUpgrade> {
    out.field(b"Connection", b"Upgrade");
    out.field(b"Upgrade", protocol);
    if !(head.needs_key && AskedUpgrade::is_websocket(protocol)) {
        return Box::new(AskedUpgrade::new(protocol, head.key));
    }
    let key = WebsocketKey::random();
    out.field(b"Sec-WebSocket-Key", key.as_bytes());
    Box::new(AskedUpgrade::new(protocol, Some(key.as_bytes())))
}

fn write_connection(out: &mut FieldLines, head: &RequestLine<'_>, close: bool) {
    // RFC 9110 section 10.1.4: Connection has to name TE.
    out.lines(match (head.takes_trailers, close) {
        (true, true) => b"TE: trailers\r\nConnection: TE, close\r\n",
        (true, false) => b"TE: trailers\r\nConnection: TE\r\n",
        (false, true) => b"Connection: close\r\n",
        (false, false) => return,
    });
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::net::clock;
    use crate::net::socket::Socket;

    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";

    /// A stream to a server, and the server.
    fn stream() -> (Http1ServerStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
        ours.set_nonblocking(true).expect("it can be set");
        let connection = Connection::new(Socket::new(ours.into()));
        let server = ServerConnection::new(connection, clock::now(), Arc::default());
        (Http1Servers::default().stream(server), theirs)
    }

    struct Version13;

    impl OutgoingFields for Version13 {
        fn write(&self, out: &mut impl weir_http::FieldWriter) {
            out.field(b"Sec-WebSocket-Version", b"13");
        }
    }

    /// Sends a request that asks for `protocol`; the fields of its head as the server gets them.
    fn ask(
        stream: &mut Http1ServerStream,
        server: &mut UnixStream,
        protocol: &[u8],
        needs_key: bool,
    ) -> String {
        let head = RequestLine {
            id: b"",
            method: b"GET",
            target: b"/chat",
            host: b"a.test",
            body: Framing::None,
            upgrade: Some(protocol),
            needs_key,
            key: None,
            takes_trailers: false,
            close: false,
        };
        stream.send(&head, &Version13);
        let mut writer = stream.request();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while crate::relay::ends::Sink::is_waiting(&writer) {
            assert!(crate::relay::ends::Sink::poll_write(&mut writer, &mut cx, &[]).is_ready());
        }
        let mut got = [0; 1_000];
        let len = server.read(&mut got).expect("it was sent");
        String::from_utf8(got[..len].to_vec()).expect("it is text")
    }

    /// What a switch with these fields is checked to be.
    async fn answer(
        stream: &mut Http1ServerStream,
        server: &mut UnixStream,
        fields: &str,
    ) -> Result<(), Cause> {
        server.write_all(format!("{SWITCH}{fields}\r\nraw bytes").as_bytes()).expect("it is taken");
        let (mut response, stock) = (ResponseHead::new(), BufferStock::new(4 * 1024));
        poll_fn(|cx| stream.poll_head(cx, &stock, &mut response, &HeadLimits::default()))
            .await
            .expect("it is a head");
        stream.check_switch(&response)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("it can be made").block_on(test);
    }

    fn key_in(head: &str) -> Option<&str> {
        head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))
    }

    /// `Sec-WebSocket-Accept` as a server computes it.
    fn accept_of(key: &str) -> String {
        let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        data_encoding::BASE64.encode(hash.as_ref())
    }

    #[test]
    fn a_websocket_of_a_client_without_keys_has_one_that_the_server_must_prove() {
        let wrong = accept_of("another key");
        for (case, is_proof) in [("right", true), ("wrong", false), ("none", false), ("twice", false)] {
            run(async {
                let (mut stream, mut server) = stream();
                let head = ask(&mut stream, &mut server, b"websocket", true);
                assert!(head.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), "{head}");
                let right = accept_of(key_in(&head).expect("it has a key"));
                let fields = match case {
                    "right" => format!("Sec-WebSocket-Accept: {right}\r\n"),
                    "wrong" => format!("Sec-WebSocket-Accept: {wrong}\r\n"),
                    "none" => String::new(),
                    _ => format!("Sec-WebSocket-Accept: {right}\r\n").repeat(2),
                };
                let checked = answer(&mut stream, &mut server, &fields).await;
                let expected = if is_proof { Ok(()) } else { Err(Cause::WebsocketAcceptMismatch) };
                assert_eq!(checked, expected, "{case}");
            });
        }
    }

    #[test]
    fn other_protocols_have_no_keys() {
        for (protocol, needs_key, expected) in
            [(&b"websocket"[..], false, Ok(())), (b"chat", true, Err(Cause::UnexpectedUpgrade))]
        {
            run(async {
                let (mut stream, mut server) = stream();
                let head = ask(&mut stream, &mut server, protocol, needs_key);
                assert_eq!(key_in(&head), None, "{head}");
                let fields = "Sec-WebSocket-Accept: anything\r\n";
                assert_eq!(answer(&mut stream, &mut server, fields).await, expected);
            });
        }
    }

    #[test]
    fn a_key_is_for_one_stream_only() {
        let mut servers = Http1Servers::default();
        run(async {
            let (mut first, mut server) = stream();
            ask(&mut first, &mut server, b"WebSocket", true);
            servers.drop_stream(first);
            assert_eq!(servers.free.as_ref().expect("it is kept").asked_upgrade, None);
        });
    }

    #[test]
    fn a_tunnel_begins_with_what_is_behind_the_head() {
        run(async {
            let (mut stream, mut server) = stream();
            ask(&mut stream, &mut server, b"websocket", false);
            answer(&mut stream, &mut server, "").await.expect("nothing is verified");
            stream.take_head();
            assert_eq!(stream.into_tunnel().end().received(), b"raw bytes");
        });
    }
}
