//! A stream in memory as the client of an exchange, and as the end of a tunnel.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_http::http1::{FieldLines, HeadProgress, RequestParser};
use weir_http::{FieldWriter as _, Framing};
use weir_observe::{Cause, Failure, Phase};

use super::driver::DriverState;
use super::wire::StreamWire;
use crate::downstream::stream_driver::{DrivenStream, StreamEnd};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::{Ended, Exchange};
use crate::net::buffer::BufferStock;
use crate::net::clock;
use crate::net::socket::Behind;
use crate::net::tls::facts::TlsFacts;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::message_end::BodyAllowance;
use crate::relay::tunnel::end::TunnelEnd;
use crate::state::snapshot::ListenerPlan;

/// What was received of a body.
struct Incoming {
    bytes: Vec<u8>,
    taken: usize,
    received: u64,
    bytes_max: u64,
    has_ended: bool,
    announced: Option<u64>,
    /// Whether the request has no body: what comes behind its head is for a tunnel.
    is_for_tunnel: bool,
}

/// What is sent of a response.
struct Outgoing {
    allowance: BodyAllowance,
    is_blocked: bool,
    sent: u64,
}

/// One stream.
pub(crate) struct MemoryStream {
    state: Rc<DriverState>,
    wire: Rc<StreamWire>,
    incoming: Incoming,
    outgoing: Outgoing,
    refused: Option<Failure>,
    is_over: bool,
}

impl MemoryStream {
    pub(super) fn new(state: Rc<DriverState>, wire: Rc<StreamWire>) -> Self {
        let incoming = Incoming {
            bytes: Vec::new(),
            taken: 0,
            received: 0,
            bytes_max: u64::MAX,
            has_ended: false,
            announced: None,
            is_for_tunnel: false,
        };
        let outgoing = Outgoing { allowance: BodyAllowance::unbegun(), is_blocked: false, sent: 0 };
        Self { state, wire, incoming, outgoing, refused: None, is_over: false }
    }

    fn source(&mut self) -> MemoryBody<'_> {
        MemoryBody { wire: &self.wire, incoming: &mut self.incoming }
    }

    fn poll_left(&self, cx: &Context<'_>) -> Option<Cause> {
        self.wire.watch(cx);
        self.gone()
    }
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl DrivenStream for MemoryStream {
    fn enter(&self, cx: &Context<'_>) {
        self.wire.watch(cx);
    }

    fn gone(&self) -> Option<Cause> {
        self.wire.gone.get()
    }

    fn refuse(&mut self, failure: Failure) {
        self.refused = Some(failure);
    }

    fn finish(&mut self, end: StreamEnd) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.wire.end.set(Some(end));
            self.state.release();
        }
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.finish(StreamEnd::CutShort);
    }
}

impl ClientEnd for MemoryStream {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.state.facts.tls()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.state.facts.local_address()
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.poll_left(cx)
    }

    fn body_received(&self) -> u64 {
        self.incoming.received
    }

    fn sent(&self) -> u64 {
        self.outgoing.sent
    }

    fn stays_open(&self) -> bool {
        !self.state.is_ending.get()
    }
}

impl ClientStream for MemoryStream {
    type Body<'a> = MemoryBody<'a>;
    type Reply<'a> = MemoryReply<'a>;
    type Fields<'a> = FieldLines;

    async fn receive(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        listener: &ListenerPlan,
    ) -> Result<(), Ended> {
        client.now = clock::now();
        exchange.record.began = client.now;
        let head = self.wire.head.as_bytes();
        match RequestParser::new().parse(&mut exchange.request, head, &listener.head_limits) {
            Ok(HeadProgress::Complete { .. }) => exchange.request_text.extend_from_slice(head),
            Ok(HeadProgress::Incomplete) => panic!("the head of a stream comes whole"),
            Err(rule) => return Err(Failure::client(Phase::Request, Cause::Rule(rule)).into()),
        }
        match self.refused.take() {
            Some(failure) => Err(failure.into()),
            None => self.state.facts.check_host(exchange, listener).map_err(Ended::Failed),
        }
    }

    fn begin_body(&mut self, _client: &Client, exchange: &Exchange, _listener: &ListenerPlan) {
        self.incoming.announced = exchange.request.body().length();
        self.incoming.is_for_tunnel = exchange.request.body() == Framing::None;
    }

    fn body<'a>(&'a mut self, _client: &'a Client) -> MemoryBody<'a> {
        self.source()
    }

    fn body_announced(&self) -> Option<u64> {
        self.incoming.announced
    }

    fn limit_body(&mut self, bytes_max: u64) {
        self.incoming.bytes_max = bytes_max;
    }

    fn reply(&mut self) -> MemoryReply<'_> {
        MemoryReply { wire: &self.wire, outgoing: &mut self.outgoing }
    }

    fn ends_anywhere(&self) -> bool {
        true
    }

    fn interim(&mut self, _exchange: &Exchange, status: Status<'_>, fields: impl FnOnce(&mut FieldLines)) {
        fields(&mut FieldLines(Vec::new()));
        self.wire.statuses.borrow_mut().push(status.code);
    }

    fn respond(
        &mut self,
        _client: &Client,
        _exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut FieldLines),
    ) {
        let mut lines = FieldLines(Vec::new());
        fields(&mut lines);
        match response.content {
            Content::Tunnel => self.outgoing.allowance.begin(Framing::Delimited),
            Content::Body(framing, length) => {
                self.outgoing.allowance.begin(framing);
                if let Some(length) = length {
                    lines.decimal_field(b"content-length", length);
                }
            }
        }
        let lines = String::from_utf8(lines.0).expect("fields of tests are text");
        let fields = lines.lines().filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.wire.fields.borrow_mut().extend(fields);
        self.wire.statuses.borrow_mut().push(response.status.code);
    }

    fn take_back(&mut self) -> bool {
        // The client has the head by now.
        false
    }

    fn close_after(&mut self) {}

    fn poll_reset(&mut self, cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.poll_left(cx)
    }
}

/// A body that is read.
pub(crate) struct MemoryBody<'a> {
    wire: &'a StreamWire,
    incoming: &'a mut Incoming,
}

impl MemoryBody<'_> {
    fn received(&self) -> &[u8] {
        &self.incoming.bytes[self.incoming.taken..]
    }

    /// Takes what has come, once everything of before is taken.
    fn refill(&mut self) {
        let incoming = &mut *self.incoming;
        if incoming.taken == incoming.bytes.len() && !incoming.has_ended {
            incoming.bytes = self.wire.body.take();
            incoming.taken = 0;
            incoming.has_ended = self.wire.has_ended.get();
            incoming.received += incoming.bytes.len() as u64;
        }
    }
}

impl Source for MemoryBody<'_> {
    fn data(&self) -> &[u8] {
        if self.incoming.is_for_tunnel { &[] } else { self.received() }
    }

    fn take(&mut self, len: usize) {
        self.incoming.taken += len;
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        if !self.incoming.is_for_tunnel {
            self.refill();
        }
        if self.incoming.received > self.incoming.bytes_max { Err(RelayError::TooLarge) } else { Ok(0) }
    }

    fn is_finished(&self) -> bool {
        self.incoming.is_for_tunnel || self.incoming.has_ended && self.received().is_empty()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if !self.wire.body.borrow().is_empty() || self.wire.has_ended.get() {
            return Poll::Ready(Ok(()));
        }
        match self.wire.gone.get() {
            Some(Cause::Closed) => Poll::Ready(Err(RelayError::Truncated)),
            Some(_) => Poll::Ready(Err(RelayError::Read(reset()))),
            None => self.wire.pending(cx),
        }
    }
}

/// A response that is sent.
pub(crate) struct MemoryReply<'a> {
    wire: &'a StreamWire,
    outgoing: &'a mut Outgoing,
}

impl MemoryReply<'_> {
    /// Hands over as much as the client has room for.
    fn put(&mut self, data: &[u8]) -> usize {
        let len =
            if self.outgoing.allowance.check(data.len()) { data.len().min(self.wire.room.get()) } else { 0 };
        self.outgoing.allowance.count(len);
        self.wire.got.borrow_mut().extend_from_slice(&data[..len]);
        self.wire.room.update(|room| if room == usize::MAX { room } else { room - len });
        self.outgoing.sent += len as u64;
        self.outgoing.is_blocked = len < data.len();
        len
    }
}

impl Sink for MemoryReply<'_> {
    fn has_room(&self) -> bool {
        !self.outgoing.is_blocked
    }

    fn is_waiting(&self) -> bool {
        self.outgoing.is_blocked
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.wire.gone.get().is_some() {
            self.outgoing.is_blocked = true;
            return 0;
        }
        self.put(data)
    }

    fn finish(&mut self, _source: &impl Source) {
        self.outgoing.is_blocked = !self.outgoing.allowance.end();
        self.wire.got_end.set(!self.outgoing.is_blocked);
    }

    fn left(&self) -> u64 {
        self.outgoing.allowance.left()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        if self.wire.gone.get().is_some() {
            return Poll::Ready(Err(RelayError::Write(reset())));
        }
        match self.put(data) {
            _ if self.outgoing.allowance.is_violated() => Poll::Ready(Err(RelayError::Framing)),
            0 if !data.is_empty() => self.wire.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }
}

impl TunnelEnd for MemoryStream {
    fn received(&self) -> &[u8] {
        &self.incoming.bytes[self.incoming.taken..]
    }

    fn consume(&mut self, len: usize) {
        self.incoming.taken += len;
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        let mut body = self.source();
        body.refill();
        match body.received().len() {
            0 if body.incoming.has_ended => Poll::Ready(Ok(0)),
            0 if self.gone().is_some() => Poll::Ready(Err(reset())),
            0 => self.wire.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], _behind: Behind) -> Poll<io::Result<usize>> {
        if self.gone().is_some() {
            return Poll::Ready(Err(reset()));
        }
        match self.reply().put(bytes) {
            0 if !bytes.is_empty() => self.wire.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        self.wire.got_end.set(true);
        Poll::Ready(())
    }

    fn poll_aborted(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        self.poll_left(cx).map(|_| reset())
    }

    fn abort(&mut self) {
        self.finish(StreamEnd::Aborted);
    }
}
