//! One request of FastCGI and its response.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use weir_http::fastcgi::{
    CgiHeadParser, CgiProgress, Params, ProtocolStatus, begin_request, ends_with_end_request,
};
use weir_http::{ChunkedLimits, FieldWriter as _, Framing, HeadLimits, Method, ResponseHead};
use weir_observe::{Cause, Failure};

use super::error_lines;
use crate::net::buffer::BufferStock;
use crate::net::clock::Instant;
use crate::net::connection::Connection;
use crate::net::quantum::Quantum;
use crate::net::socket::Behind;
use crate::relay::Relay;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::fastcgi::{FoundRecord, OutputLeft, RecordInput, RecordOutput, RecordReader, RecordWriter};
use crate::state::servers::pool::ServerConnection;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker::Worker;
use crate::state::worker_config::WorkerConfig;
use crate::upstream::handshake::{self, ConnectionSetup};
use crate::upstream::pinned::PinnedConnections;
use crate::upstream::proxy_header::ConnectionIdentity;
use crate::upstream::stream::{
    Destination, HeadError, OutgoingFields, RequestLine, ServerStream, Servers, Unprocessed,
};
use crate::upstream::tunnel::ServerEnd;

/// Memory that each buffer of a stream keeps for the next; more goes back to the allocator.
const MEMORY_KEPT_MAX: usize = 8 * 1024;

/// The state of a stream, whose memory is reused from one to the next.
#[derive(Debug)]
struct FastcgiState {
    output: RecordOutput,
    params: Params,
    input: RecordInput,
    head: CgiHeadParser,
    received_any: bool,
    /// Whether the server was asked to keep the connection open.
    keeps_connection: bool,
    /// Why such a request cannot be sent.
    unable: Option<Cause>,
    /// The id of the request, for the log.
    request_id: Vec<u8>,
    /// Texts of the error stream that make a failure of the response.
    caught: Option<Arc<[Box<str>]>>,
    /// Which server it is, for the log.
    server: Option<(Arc<UpstreamPlan>, usize)>,
}

impl FastcgiState {
    fn new() -> Self {
        Self {
            output: RecordOutput::new(),
            params: Params::default(),
            input: RecordInput::new(),
            head: CgiHeadParser::default(),
            received_any: false,
            keeps_connection: false,
            unable: None,
            request_id: Vec::new(),
            caught: None,
            server: None,
        }
    }

    /// Forgets the stream; keeps the memory.
    fn reset(&mut self) {
        self.output.reset(MEMORY_KEPT_MAX);
        self.params.reset(MEMORY_KEPT_MAX);
        self.input.reset();
        self.head.reset(MEMORY_KEPT_MAX);
        (self.received_any, self.keeps_connection, self.unable) = (false, false, None);
        self.request_id.clear();
        self.caught = None;
        self.server = None;
    }
}

/// Streams of FastCGI to servers, for one exchange at a time.
#[derive(Debug, Default)]
pub(crate) struct FastcgiServers {
    /// The memory of the last stream.
    free: Option<Box<FastcgiState>>,
}

/// One request on a connection to a server, and its response.
#[derive(Debug)]
pub(crate) struct FastcgiServerStream {
    server: Box<ServerConnection>,
    state: Box<FastcgiState>,
}

impl FastcgiServers {
    fn stream(&mut self, mut server: Box<ServerConnection>, to: Destination<'_>) -> FastcgiServerStream {
        server.requests += 1;
        let mut state = self.free.take().unwrap_or_else(|| Box::new(FastcgiState::new()));
        state.server = Some((Arc::clone(&to.config.snapshot.upstreams[to.upstream]), to.server));
        FastcgiServerStream { server, state }
    }

    fn recycle(
        &mut self,
        FastcgiServerStream { server, mut state }: FastcgiServerStream,
    ) -> Box<ServerConnection> {
        if !state.input.errors.bytes.is_empty() {
            log_errors(&state, &server);
        }
        state.reset();
        self.free = Some(state);
        server
    }
}

impl Servers for FastcgiServers {
    type Stream = FastcgiServerStream;
    type Opened = Connection;

    fn for_background(&self) -> Self {
        Self::default()
    }

    fn take_kept(
        &mut self,
        to: Destination<'_>,
        _pinned: &mut PinnedConnections,
        now: Instant,
        careful: bool,
    ) -> Option<FastcgiServerStream> {
        if to.plan.is_for_one_client {
            return None;
        }
        let kept = WorkerConfig::take_pooled(to.plan, to.local, to.server, now, careful)?;
        Some(self.stream(kept, to))
    }

    fn forget_kept(&mut self, to: Destination<'_>, _pinned: &mut PinnedConnections) {
        to.plan.shared_pool[to.server].iter().for_each(|shared| shared.clear());
    }

    fn open(
        &mut self,
        to: Destination<'_>,
        identity: ConnectionIdentity,
        behind: Behind,
        worker: Rc<Worker>,
    ) -> impl Future<Output = Result<Connection, Failure>> {
        let endpoints = to.plan.live[to.server].endpoints.load_full();
        let handshake_config = to.plan.tls.as_ref().map(|config| config.for_traffic(to.server));
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

    fn begin(&mut self, opened: Connection, to: Destination<'_>, now: Instant) -> FastcgiServerStream {
        let shard = &to.local.shard;
        if let Some(tls) = &opened.tls {
            shard.tls_handshakes.increment();
            shard.tls_resumptions.add(u64::from(tls.is_resumed()));
        }
        self.stream(ServerConnection::new(opened, now, Arc::clone(shard)), to)
    }

    /// Keeps the connection for the next request of any client, if the server was asked to and has ended this one in order.
    fn finish(
        &mut self,
        stream: FastcgiServerStream,
        to: Destination<'_>,
        _pinned: &mut PinnedConnections,
        now: Instant,
        was_sent: bool,
    ) {
        let state = &stream.state;
        let is_over = state.keeps_connection && state.input.is_over(&stream.server.connection);
        let server = self.recycle(stream);
        if is_over && was_sent && !to.plan.is_for_one_client {
            to.config.return_to_pool((to.plan, to.local), (to.upstream, to.server), server, now, None);
        }
    }

    fn drop_stream(&mut self, stream: FastcgiServerStream) {
        self.recycle(stream);
    }
}

/// Logs what the script has written to its error stream.
#[cold]
fn log_errors(state: &FastcgiState, server: &ServerConnection) {
    let (lines, others) = error_lines::lines(&state.input.errors);
    server.shard().error_lines.add((lines.len() + others) as u64);
    let Some((plan, index)) = &state.server else { return };
    let request_id = String::from_utf8_lossy(&state.request_id);
    let (upstream, name) = (&*plan.config.name, &*plan.config.servers[*index].name);
    for line in &lines {
        tracing::warn!(upstream, server = name, %request_id, "FastCGI: {line}");
    }
    if others > 0 {
        tracing::warn!(upstream, server = name, %request_id, others, "FastCGI: more lines were left out");
    }
}

impl FastcgiServerStream {
    /// What a request that has ended without the head of a response means.
    fn ended(&self, status: ProtocolStatus) -> HeadError {
        match status {
            ProtocolStatus::Complete if self.state.head.has_begun() => HeadError::Closed,
            ProtocolStatus::Complete => HeadError::Lost(Cause::FastcgiNoResponse),
            ProtocolStatus::Overloaded | ProtocolStatus::CannotMultiplex => {
                HeadError::Unprocessed(Unprocessed::Overloaded)
            }
            ProtocolStatus::UnknownRole => HeadError::Unable(Cause::FastcgiNoResponder),
        }
    }
}

impl ServerStream for FastcgiServerStream {
    fn history(&self) -> (Instant, u64) {
        (self.server.opened_at, self.server.requests - 1)
    }

    /// The server gets the credentials with each request, and takes no connection for authenticated.
    fn set_private(&mut self) {}

    fn send(&mut self, head: &RequestLine<'_>, fields: &impl OutgoingFields) {
        let state = &mut *self.state;
        state.request_id.extend_from_slice(head.id);
        state.keeps_connection = !head.close;
        state.caught = fields.caught().map(Arc::clone);
        if head.body.length().is_none() {
            state.unable = Some(Cause::LengthUnknown);
            return;
        }
        state.output.allowance.begin(head.body);
        let params = &mut state.params;
        fields.write_params(params);
        params.set_with(b"CONTENT_LENGTH", |out| {
            if let Framing::Length(len) = head.body {
                weir_http::digits::decimal(out, len);
            }
        });
        if !head.host.is_empty() {
            params.field(b"Host", head.host);
        }
        // Programs expect it to be there.
        params.set(b"CONTENT_TYPE", b"");
        begin_request(&mut state.output.staged, state.keeps_connection);
        params.write(&mut state.output.staged);
    }

    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        body: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        if self.state.unable.is_some() {
            return Poll::Pending;
        }
        let mut writer =
            RecordWriter { connection: &mut self.server.connection, output: &mut self.state.output };
        relay.poll(cx, body, &mut writer)
    }

    fn sent(&self) -> u64 {
        self.state.output.sent
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
        if let Some(cause) = self.state.unable {
            return Poll::Ready(Err(HeadError::Unable(cause)));
        }
        let mut quantum = Quantum::new();
        loop {
            let (state, connection) = (&mut *self.state, &mut self.server.connection);
            match state.input.find(connection) {
                Ok((framing, FoundRecord::Output(len))) => {
                    quantum.take_framing(framing);
                    let pushed = state.head.push(response, &connection.received()[..len], limits);
                    match pushed.map_err(HeadError::Broken) {
                        Ok(CgiProgress::Incomplete) => connection.consume(len),
                        Ok(CgiProgress::Complete { taken }) => {
                            connection.consume(taken);
                            state.input.give_back(len - taken);
                            let errors = &state.input.errors.bytes;
                            let mut caught = state.caught.iter().flat_map(|caught| &**caught);
                            if caught.any(|text| memchr::memmem::find(errors, text.as_bytes()).is_some()) {
                                return Poll::Ready(Err(HeadError::Lost(Cause::FastcgiCaughtError)));
                            }
                            return Poll::Ready(Ok(()));
                        }
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                    continue;
                }
                Ok((_, FoundRecord::End(end))) => return Poll::Ready(Err(self.ended(end.status))),
                Ok((framing, FoundRecord::More)) => quantum.take_framing(framing),
                Err(rule) => return Poll::Ready(Err(HeadError::Broken(rule))),
            }
            ready!(quantum.poll_left(cx));
            match ready!(connection.poll_fill(cx, stock)) {
                Ok(0) => return Poll::Ready(Err(HeadError::Closed)),
                Ok(len) => {
                    quantum.take(len);
                    state.received_any = true;
                }
                Err(error) => return Poll::Ready(Err(HeadError::Io(error))),
            }
        }
    }

    fn head(&self) -> &[u8] {
        self.state.head.text()
    }

    /// The head is apart from the body.
    fn take_head(&mut self) {}

    fn begin_body(&mut self, response: &ResponseHead, method: Method, _limits: ChunkedLimits) -> Framing {
        let body = response.body(method);
        self.state.input.left = body.length().map_or(OutputLeft::Open, OutputLeft::Length);
        body
    }

    fn is_body_here(&self) -> bool {
        ends_with_end_request(self.server.connection.received())
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        client: &mut impl Sink,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>> {
        let (connection, input) = (&mut self.server.connection, &mut self.state.input);
        relay.poll(cx, &mut RecordReader { connection, input, stock }, client)
    }

    /// There is none: no response of FastCGI switches protocols.
    fn into_tunnel(self) -> ServerEnd {
        ServerEnd::Connection(self.server)
    }
}
