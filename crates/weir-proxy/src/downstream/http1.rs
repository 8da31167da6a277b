//! HTTP/1 to clients (RFC 9112): one stream after the other on a connection, and what becomes of the connection behind each.
//!
//! Keep-alive, pipelining, framing and `Connection` are decided here and nowhere else. A head is parsed as it arrives and
//! copied out whole when it is complete, so that the input buffer is free for the body and a repeated attempt finds the head
//! untouched.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::http1::{FieldLines, HeadProgress, RequestParser, keeps_alive, write};
use weir_http::{FieldName, FieldWriter as _, Framing, HeadLimits, Method, Rule, Version};
use weir_observe::{Cause, Failure, Phase};

use super::abort;
use super::byte_driver::ByteDriver;
use crate::exchange::End;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::phases::tunnel::Tunnelled;
use crate::exchange::{Ended, Exchange};
use crate::net::buffer::MEMORY_KEPT_MAX;
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::failure::of_io;
use crate::net::tls::facts::TlsFacts;
use crate::net::tls::records::Records;
use crate::relay::http1::{Incoming, Outgoing, Reader, TransferCoding, Writer};
use crate::state::connections::activity::Activity;
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::snapshot::ListenerPlan;

/// The status that requires another protocol (426 Upgrade Required).
const UPGRADE_REQUIRED: u16 = 426;

/// What becomes of the connection after a stream.
pub(crate) enum AfterStream {
    /// The next request may come.
    KeepAlive,
    /// Close: the response is complete and no request follows.
    Close,
    /// Close, but take in what the client still sends for a moment, so that it reads the answer.
    Linger,
    /// End without the `close_notify` of TLS: the client has everything that was received, and the framing shows that the response is
    /// incomplete.
    CutShort,
    /// Reset, once the client's system has everything that was received: nothing else shows that the response is incomplete.
    Reset,
    /// Reset at once: the client has failed, or an operator has ended the connection.
    Abort,
    /// Relay raw bytes from now on.
    Tunnel(Box<Tunnelled>),
    /// The client has begun with HTTP/2: nothing of it was taken.
    Http2,
}

/// The HTTP/1 state of the current stream; pooled with its exchange.
#[derive(Debug)]
pub(crate) struct Http1StreamState {
    parser: RequestParser,
    body: Incoming,
    reply: Outgoing,
    /// Whether the connection may carry another request.
    keep_alive: bool,
    /// Whether the client may still be sending although its request is over.
    lingers: bool,
    /// Whether it has begun with HTTP/2, as it may.
    is_http2: bool,
}

impl Http1StreamState {
    pub(crate) fn new() -> Self {
        Self {
            parser: RequestParser::new(),
            body: Incoming::nothing(),
            reply: Outgoing::new(),
            keep_alive: false,
            lingers: false,
            is_http2: false,
        }
    }

    /// Forgets the stream; keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.parser.reset();
        self.body.begin_nothing();
        self.reply.reset(MEMORY_KEPT_MAX);
        (self.keep_alive, self.lingers, self.is_http2) = (false, false, false);
    }
}

/// The stream that runs on a connection.
pub(crate) struct Http1Stream<'a> {
    pub(crate) connection: &'a mut Connection,
    /// The failure for which the client is not served, until it has been reported to the client.
    pub(crate) refused: &'a mut Option<Failure>,
    /// Whether the first check for an abort, the one without the event loop, was made.
    pub(crate) looked: &'a mut bool,
    pub(crate) state: &'a mut Http1StreamState,
}

impl Http1Stream<'_> {
    /// What becomes of the connection.
    pub(crate) fn after(&self, end: End, exchange: &Exchange) -> AfterStream {
        match end {
            End::Closed if self.state.is_http2 => AfterStream::Http2,
            End::Closed => AfterStream::Close,
            End::Aborted => AfterStream::Abort,
            End::Tunnel(tunnel) => AfterStream::Tunnel(tunnel),
            End::CutShort => {
                let body = exchange.response.body(exchange.request.method());
                let is_framed = body.length().is_some() || self.state.reply.is_chunked();
                if is_framed || self.connection.tls.is_some() {
                    AfterStream::CutShort
                } else {
                    AfterStream::Reset
                }
            }
            End::Done => {
                // A client that did not announce its last request may have sent another by now. Unread bytes would
                // turn the close into a reset, and the client would lose what it has not fetched of the response (RFC 9112
                // section 9.6).
                let was_last =
                    !self.state.lingers && !asks_for_more(exchange) && !self.connection.has_input();
                match (self.state.body.is_finished(), self.state.keep_alive) {
                    (true, true) => AfterStream::KeepAlive,
                    (true, false) if was_last => AfterStream::Close,
                    _ => AfterStream::Linger,
                }
            }
        }
    }

    /// Parses what has arrived; `true` when the head is complete and moved into the exchange.
    fn parse(&mut self, exchange: &mut Exchange, limits: &HeadLimits) -> Result<bool, Failure> {
        let received = self.connection.received();
        if received.is_empty() {
            return Ok(false);
        }
        match self.state.parser.parse(&mut exchange.request, received, limits) {
            Ok(HeadProgress::Complete { len }) => {
                exchange.request_text.extend_from_slice(self.state.parser.text(&received[..len]));
                exchange.record.bytes_in += len as u64;
                self.connection.consume(len);
                Ok(true)
            }
            Ok(HeadProgress::Incomplete) => {
                if let Some(input) = self.connection.input.as_mut().filter(|input| input.is_full()) {
                    let size = (input.len() * 2).min(limits.head_bytes_max + 1).max(input.len() + 1);
                    input.grow(size);
                }
                Ok(false)
            }
            Err(rule) => {
                // For the log: the beginning of what could not be read.
                exchange.record.bytes_in += received.len() as u64;
                Err(Failure::client(Phase::Request, Cause::Rule(rule)))
            }
        }
    }

    fn wait(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        waited: &mut bool,
        timeout: Duration,
    ) -> Poll<Result<(), Ended>> {
        if !*waited {
            *waited = true;
            let now = clock::now();
            begin(exchange, now);
            client.deadline.set(now, Some(timeout));
        }
        client.report(Activity::Head, self, exchange);
        if client.worker.is_short_of_buffers()
            && let Some(input) = &mut self.connection.input
        {
            input.set_aside();
        }
        client.deadline.poll_passed().map(|()| {
            let timed_out = Failure::client(Phase::Request, Cause::TimedOut);
            Err(Ended::Failed(client.deadline.failure(Phase::Request, timed_out)))
        })
    }
}

/// The first bytes are here, and are no whole head.
#[cold]
fn begin(exchange: &mut Exchange, now: Instant) {
    (exchange.record.began, exchange.record.accounted) = (now, now);
}

/// The client closed or reset the connection instead of sending the rest of a head.
fn closed(outcome: std::io::Result<usize>) -> Failure {
    match outcome {
        Ok(_) => Failure::client(Phase::Request, Cause::Closed),
        Err(error) => of_io(Phase::Request, weir_observe::Party::Client, &error),
    }
}

/// Whether a request failed because it is the beginning of HTTP/2.
fn is_preface(failure: Failure) -> bool {
    failure.cause == Cause::Rule(Rule::Http2Preface)
}

/// Whether the client wants to send further requests on its connection.
fn asks_for_more(exchange: &Exchange) -> bool {
    keeps_alive(exchange.request.version(), exchange.request.connection())
}

/// Whether another request may follow on this connection.
fn may_go_on(client: &Client, exchange: &Exchange, listener: &ListenerPlan) -> bool {
    let used_up = listener.config.limits.requests_per_connection.is_some_and(|max| client.requests >= max);
    let aged = client.ends_at().is_some_and(|end| end <= client.now);
    // RFC 9931: what stands behind a CONNECT that is refused was meant for the tunnel.
    let connects = exchange.request.method() == Method::Connect;
    asks_for_more(exchange) && !connects && !used_up && !aged && !client.is_ending()
}

impl ClientEnd for Http1Stream<'_> {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.connection.tls.as_deref().map(Records::facts)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.connection.socket.local_address()
    }

    fn unread(&self) -> &[u8] {
        self.connection.received()
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause> {
        abort::poll_aborted(cx, self.connection, self.looked, client, &self.state.body)
    }

    fn body_received(&self) -> u64 {
        self.state.body.received()
    }

    fn sent(&self) -> u64 {
        self.state.reply.sent
    }

    fn stays_open(&self) -> bool {
        self.state.keep_alive
    }
}

impl ClientStream for Http1Stream<'_> {
    type Body<'b>
        = Reader<'b>
    where
        Self: 'b;
    type Reply<'b>
        = Writer<'b>
    where
        Self: 'b;
    type Fields<'b>
        = FieldLines
    where
        Self: 'b;

    async fn receive(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        listener: &ListenerPlan,
    ) -> Result<(), Ended> {
        if let Some(failure) = self.refused.take() {
            exchange.record.begin_refused(client, failure);
            return Err(Ended::Failed(failure));
        }
        let timeout = client.listener.plan().config.timeouts.request;
        let mut waited = false;
        std::future::poll_fn(|cx| {
            loop {
                match self.parse(exchange, &listener.head_limits) {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) => {}
                    Err(failure) if is_preface(failure) && ByteDriver::may_begin_with_preface(client) => {
                        self.state.is_http2 = true;
                        return Poll::Ready(Err(Ended::Closed));
                    }
                    Err(failure) => {
                        if !waited {
                            begin(exchange, clock::now());
                        }
                        return Poll::Ready(Err(Ended::Failed(failure)));
                    }
                }
                match self.connection.poll_fill(cx, &client.worker.stock) {
                    Poll::Ready(Ok(len)) if len > 0 => {}
                    Poll::Ready(_) if !self.connection.has_input() => {
                        return Poll::Ready(Err(Ended::Closed));
                    }
                    Poll::Ready(outcome) => {
                        if !waited {
                            begin(exchange, clock::now());
                        }
                        return Poll::Ready(Err(Ended::Failed(closed(outcome))));
                    }
                    Poll::Pending => return self.wait(client, exchange, &mut waited, timeout),
                }
            }
        })
        .await?;
        let now = clock::now();
        if waited {
            exchange.record.times.add(Phase::Request, u64::from(clock::micros(now - exchange.record.began)));
        } else {
            exchange.record.began = now;
        }
        client.now = now;
        if client.requests == 0 {
            exchange.record.times.add(Phase::Tls, self.tls_micros().into());
        }
        Ok(())
    }

    fn begin_body(&mut self, client: &Client, exchange: &Exchange, listener: &ListenerPlan) {
        self.state.keep_alive = may_go_on(client, exchange, listener);
        let body = &mut self.state.body;
        match exchange.request.body() {
            Framing::None => body.begin_nothing(),
            Framing::Length(len) => body.begin_length(len),
            Framing::Delimited | Framing::UntilClose => {
                body.begin_chunked(listener.chunked_limits, listener.stripped_trailers(client.peer));
            }
        }
    }

    #[inline]
    fn body<'a>(&'a mut self, client: &'a Client) -> Reader<'a> {
        Reader { connection: self.connection, incoming: &mut self.state.body, stock: &client.worker.stock }
    }

    fn body_announced(&self) -> Option<u64> {
        self.state.body.announced()
    }

    fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        self.state.body.strip_trailers(stripped);
    }

    fn limit_body(&mut self, bytes_max: u64) {
        self.state.body.limit(bytes_max);
    }

    #[inline]
    fn reply(&mut self) -> Writer<'_> {
        Writer { connection: self.connection, outgoing: &mut self.state.reply }
    }

    fn interim(&mut self, exchange: &Exchange, status: Status<'_>, fields: impl FnOnce(&mut FieldLines)) {
        if exchange.request.version() != Version::Http11 {
            return;
        }
        let mut out = FieldLines(std::mem::take(&mut self.state.reply.staged));
        write::status_line(&mut out.0, Version::Http11, status.code, status.reason);
        fields(&mut out);
        out.0.extend_from_slice(b"\r\n");
        self.state.reply.staged = out.0;
    }

    fn respond(
        &mut self,
        client: &Client,
        exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut FieldLines),
    ) {
        let (state, connection) = (&mut *self.state, &*self.connection);
        let mut out = FieldLines(std::mem::take(&mut state.reply.staged));
        write::status_line(&mut out.0, Version::Http11, response.status.code, response.status.reason);
        match response.content {
            Content::Tunnel => {
                state.keep_alive = false;
                state.reply.begin(Framing::None, TransferCoding::None);
                fields(&mut out);
                if response.status.code == 101 {
                    out.lines(b"Connection: Upgrade\r\n");
                    if let Some(field) = exchange.response.fields().first(FieldName::Upgrade) {
                        out.field(b"Upgrade", field.value.of(response.text));
                    }
                }
            }
            Content::Body(framing, announced) => {
                let http11 = exchange.request.version() == Version::Http11;
                let length = framing.length();
                state.keep_alive = state.keep_alive
                    && (http11 || length.is_some())
                    && !response.is_early
                    && !client.ends_with_response(|| connection.has_input());
                state.reply.closes = !state.keep_alive;
                let is_chunked = http11 && length.is_none();
                let coding = if is_chunked { TransferCoding::Chunked } else { TransferCoding::None };
                state.reply.begin(framing, coding);
                fields(&mut out);
                if is_chunked {
                    out.lines(b"Transfer-Encoding: chunked\r\n");
                } else if let Framing::Length(length) = framing {
                    // Also where the server has told an empty body by the end of its stream.
                    out.decimal_field(b"Content-Length", length);
                } else if let Some(length) = announced {
                    out.decimal_field(b"Content-Length", length);
                }
                if response.status.code == UPGRADE_REQUIRED && http11 {
                    write_offered_protocols(&mut out, exchange, response.text, state.keep_alive);
                } else {
                    write_connection(&mut out, exchange, state.keep_alive);
                }
            }
        }
        out.0.extend_from_slice(b"\r\n");
        state.reply.staged = out.0;
    }

    fn take_back(&mut self) -> bool {
        let is_untouched = self.state.reply.sent == 0;
        if is_untouched {
            self.state.reply.reset(MEMORY_KEPT_MAX);
        }
        is_untouched
    }

    fn close_after(&mut self) {
        (self.state.keep_alive, self.state.lingers) = (false, true);
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause> {
        abort::poll_reset(cx, self.connection, self.looked, client)
    }
}

/// Adds the `Connection` field of a response (RFC 9112 section 9.3).
fn write_connection(out: &mut FieldLines, exchange: &Exchange, keep_alive: bool) {
    if !keep_alive {
        out.lines(b"Connection: close\r\n");
    } else if exchange.request.version() == Version::Http10 {
        out.lines(b"Connection: keep-alive\r\n");
    }
}

/// 426 has to name the protocols that the server requires in `Upgrade` (RFC 9110 section 15.5.22), and `Upgrade` in `Connection`.
#[cold]
fn write_offered_protocols(out: &mut FieldLines, exchange: &Exchange, text: &[u8], keep_alive: bool) {
    for field in exchange.response.fields().all(FieldName::Upgrade) {
        out.field(b"Upgrade", field.value.of(text));
    }
    out.field(b"Connection", if keep_alive { b"Upgrade" } else { b"Upgrade, close" });
}
