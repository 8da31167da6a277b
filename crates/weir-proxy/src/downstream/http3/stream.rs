//! One stream as the client of an exchange.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn_proto::StreamId;
use weir_http::h3::{Http3Code, SectionWriter};
use weir_http::{FieldName, FieldWriter as _, Framing, Method, RequestHead, Rule};
use weir_observe::{Cause, Failure, Phase};

use super::incoming::{Http3Body, IncomingStream};
use super::outgoing::{Http3Reply, OutgoingStream};
use super::shared::{Http3Shared, Http3StreamShared};
use crate::downstream::stream_driver::{DrivenStream, StreamEnd};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::{Ended, Exchange};
use crate::net::clock;
use crate::net::tls::facts::TlsFacts;
use crate::relay::http2::inbox::ReceivedHead;
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::snapshot::ListenerPlan;

/// The status that a tunnel begins with.
const OK: u16 = 200;

/// The head of a request, until the exchange takes it.
pub(super) struct StreamRequest {
    pub(super) head: Box<ReceivedHead<RequestHead>>,
    /// Bytes of its section.
    pub(super) head_bytes: usize,
    /// The rule that the head breaks: it is not served.
    pub(super) refused: Option<Rule>,
}

/// A stream, whose exchange runs in a task of its own.
pub(crate) struct Http3Stream {
    pub(super) connection: Rc<Http3Shared>,
    pub(super) stream: Rc<Http3StreamShared>,
    pub(super) id: StreamId,
    request: Option<StreamRequest>,
    pub(super) incoming: IncomingStream,
    pub(super) outgoing: OutgoingStream,
    /// The failure for which it is not served, until it has been reported to the client.
    refused: Option<Failure>,
    /// The rule that makes its request malformed.
    malformed: Option<Rule>,
    /// Whether its head was whole before the handshake was over.
    came_early: bool,
    is_over: bool,
}

impl Http3Stream {
    pub(super) fn new(
        connection: Rc<Http3Shared>,
        id: StreamId,
        request: StreamRequest,
        incoming: IncomingStream,
    ) -> Self {
        let stream = Http3StreamShared::new();
        let came_early = connection.link.is_handshaking();
        connection.state.borrow_mut().streams.insert(id, Rc::clone(&stream));
        Self {
            connection,
            stream,
            id,
            request: Some(request),
            incoming,
            outgoing: OutgoingStream::new(),
            refused: None,
            malformed: None,
            came_early,
            is_over: false,
        }
    }

    /// Waits for the end of the handshake, where what is asked for is more than to read something, since that may be a repetition of another's request
    /// (RFC 8470 section 4), and where the client has not shown that the address is its own: lists and limits go by that.
    async fn confirm(
        &mut self,
        client: &mut Client,
        exchange: &Exchange,
        listener: &ListenerPlan,
    ) -> Result<(), Ended> {
        let is_harmless = exchange.request.method().is_safe() && self.connection.link.is_proven();
        if is_harmless || !self.is_early() {
            return Ok(());
        }
        client.deadline.set(client.now, Some(listener.config.timeouts.tls));
        let confirmed = std::future::poll_fn(|cx| {
            if let Some(cause) = self.gone() {
                return Poll::Ready(Err(Failure::client(Phase::Request, cause)));
            }
            if self.poll_confirmed(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let timed_out = Failure::client(Phase::Request, Cause::TimedOut);
            client.deadline.poll_passed().map(|()| Err(client.deadline.failure(Phase::Request, timed_out)))
        });
        confirmed.await.map_err(Ended::Failed)?;
        client.deadline.set_at(None);
        client.now = clock::now();
        Ok(())
    }

    /// Takes the head that was received.
    fn take_head(&mut self, exchange: &mut Exchange) -> Result<(), Failure> {
        let Some(StreamRequest { mut head, head_bytes, refused }) = self.request.take() else {
            return Ok(());
        };
        exchange.record.bytes_in += head_bytes as u64;
        std::mem::swap(&mut exchange.request, &mut head.head);
        std::mem::swap(&mut exchange.request_text, &mut head.text);
        self.connection.state.borrow_mut().heads.push(head);
        match refused {
            None => Ok(()),
            Some(rule) => {
                self.malformed = (!is_limit(rule)).then_some(rule);
                Err(Failure::client(Phase::Request, Cause::Rule(rule)))
            }
        }
    }

    /// Appends the head of a response: a final one with what it says of its body.
    fn append_head(
        &mut self,
        status: u16,
        framing: Option<Framing>,
        fields: impl FnOnce(&mut SectionWriter<'_>),
    ) {
        if self.gone().is_some() {
            return;
        }
        let id = self.id;
        self.outgoing.append_head(&self.connection, id, framing, |encoder, out| {
            let mut section = SectionWriter::response(encoder, id.into(), out, status);
            fields(&mut section);
            section.finish();
        });
    }

    /// What is received behind the head.
    pub(super) fn source(&mut self) -> Http3Body<'_> {
        Http3Body {
            connection: &self.connection,
            stream: &self.stream,
            id: self.id,
            incoming: &mut self.incoming,
        }
    }

    /// Releases the stream; `code` says why it ends, where it is not whole.
    fn release(&mut self, code: Http3Code) {
        self.is_over = true;
        if self.stream.gone.get().is_none() || !self.outgoing.has_ended {
            self.incoming.stop(&self.connection, self.id, code);
        }
        if !self.outgoing.has_ended {
            let breaks_off = code == Http3Code::INTERNAL_ERROR && self.gone().is_none();
            match breaks_off && self.outgoing.flush(&self.connection, self.id) && self.outgoing.sent > 0 {
                true => self.connection.cut(self.id, code),
                false => self.connection.reset(self.id, code),
            }
        }
        self.connection.state.borrow_mut().streams.remove(&self.id);
        self.connection.link.wake();
    }
}

/// Whether a request that breaks this rule is only too large: there is nothing wrong with the stream then.
fn is_limit(rule: Rule) -> bool {
    matches!(rule, Rule::HeadTooLarge | Rule::TooManyFields | Rule::TargetTooLong | Rule::MethodTooLong)
}

impl DrivenStream for Http3Stream {
    fn enter(&self, cx: &Context<'_>) {
        self.stream.watch(cx);
    }

    fn gone(&self) -> Option<Cause> {
        self.stream.gone.get()
    }

    fn refuse(&mut self, failure: Failure) {
        self.refused = Some(failure);
    }

    fn finish(&mut self, end: StreamEnd) {
        if self.is_over {
            return;
        }
        if self.malformed.take().or(self.incoming.broken()).is_some() {
            // Behind the answer, so that the client may read what was wrong (RFC 9114 section 4.1.2).
            self.connection.charge_fault();
            return self.release(Http3Code::MESSAGE_ERROR);
        }
        self.release(match end {
            StreamEnd::Done => Http3Code::NO_ERROR,
            StreamEnd::CutShort => Http3Code::INTERNAL_ERROR,
            StreamEnd::Aborted => Http3Code::REQUEST_CANCELLED,
        });
    }
}

impl Drop for Http3Stream {
    fn drop(&mut self) {
        self.finish(StreamEnd::CutShort);
    }
}

impl ClientEnd for Http3Stream {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        let round_trip = self.connection.link.with(|connection| connection.rtt());
        let tls = self.connection.facts.tls()?;
        Some(TlsFacts {
            is_early: self.came_early,
            round_trip_micros: Some(clock::micros(round_trip)),
            ..tls
        })
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.connection.facts.local_address()
    }

    fn came_early(&self) -> bool {
        self.came_early
    }

    fn is_early(&self) -> bool {
        self.came_early && self.connection.link.is_handshaking()
    }

    fn poll_confirmed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_early() { Poll::Ready(()) } else { self.stream.pending(cx) }
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        let gone = self.gone();
        if gone.is_none() {
            self.stream.watch(cx);
        }
        gone
    }

    fn body_received(&self) -> u64 {
        self.incoming.received
    }

    fn sent(&self) -> u64 {
        self.outgoing.sent
    }

    fn stays_open(&self) -> bool {
        !self.connection.is_ending.get()
    }
}

impl ClientStream for Http3Stream {
    type Body<'a> = Http3Body<'a>;
    type Reply<'a> = Http3Reply<'a>;
    type Fields<'a> = SectionWriter<'a>;

    async fn receive(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        listener: &ListenerPlan,
    ) -> Result<(), Ended> {
        client.now = clock::now();
        exchange.record.began = client.now;
        if client.requests == 0 {
            exchange.record.times.add(Phase::Tls, self.tls_micros().into());
        }
        let taken = self.take_head(exchange);
        match self.refused.take() {
            Some(failure) => Err(Ended::Failed(failure)),
            None => {
                let checked = taken.and_then(|()| self.connection.facts.check_host(exchange, listener));
                checked.map_err(Ended::Failed)?;
                self.confirm(client, exchange, listener).await
            }
        }
    }

    fn begin_body(&mut self, client: &Client, exchange: &Exchange, listener: &ListenerPlan) {
        self.incoming.announced = exchange.request.body().length();
        self.incoming.is_for_tunnel =
            exchange.request.protocol().is_some() || exchange.request.method() == Method::Connect;
        // A request without a body has no trailers either.
        self.incoming.stripped = match exchange.request.body() {
            Framing::None => None,
            Framing::Length(_) | Framing::Delimited | Framing::UntilClose => {
                listener.stripped_trailers(client.peer).cloned()
            }
        };
    }

    fn body<'a>(&'a mut self, _client: &'a Client) -> Http3Body<'a> {
        self.source()
    }

    fn body_announced(&self) -> Option<u64> {
        self.incoming.announced
    }

    fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        self.incoming.stripped = Some(Arc::clone(stripped));
    }

    fn limit_body(&mut self, bytes_max: u64) {
        self.incoming.bytes_max = bytes_max;
    }

    fn reply(&mut self) -> Http3Reply<'_> {
        Http3Reply {
            connection: &self.connection,
            stream: &self.stream,
            id: self.id,
            outgoing: &mut self.outgoing,
        }
    }

    fn interim(
        &mut self,
        _exchange: &Exchange,
        status: Status<'_>,
        fields: impl FnOnce(&mut SectionWriter<'_>),
    ) {
        self.append_head(status.code, None, fields);
    }

    fn respond(
        &mut self,
        _client: &Client,
        _exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut SectionWriter<'_>),
    ) {
        let (status, framing, length) = match response.content {
            Content::Body(framing, length) => (response.status.code, framing, length),
            // A success opens the tunnel (RFC 9220 section 3).
            Content::Tunnel => (OK, Framing::Delimited, None),
        };
        self.outgoing.is_for_tunnel = response.content == Content::Tunnel;
        self.append_head(status, Some(framing), |out| {
            if response.content == Content::Tunnel {
                // The proof of a WebSocket is for a key that the client has not sent.
                out.leave_out(FieldName::SecWebsocketAccept);
            }
            fields(out);
            if let Some(length) = length {
                out.decimal_field(b"content-length", length);
            }
        });
    }

    fn ends_anywhere(&self) -> bool {
        true
    }

    fn take_back(&mut self) -> bool {
        // Its head may have changed the table of the encoder.
        false
    }

    fn close_after(&mut self) {}

    fn poll_reset(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause> {
        self.poll_gone(cx, client)
    }
}
