//! One stream as the client of an exchange.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Context;

use weir_http::h2::{ErrorCode, HeadWriter, StreamFault};
use weir_http::{BodyLength, FieldName, FieldWriter as _, Method, Rule};
use weir_observe::{Cause, Failure, Phase};

use super::body::{Body, IncomingBody};
use super::reply::{OutgoingFrames, Reply};
use super::shared::{Http2State, SharedConnection, StreamShared};
use crate::exchange::client::Client;
use crate::exchange::stream::{ClientEnd, ClientStream, Content, FinalHead, Status};
use crate::exchange::{Ended, Exchange};
use crate::net::clock;
use crate::net::tls::facts::TlsFacts;
use crate::state::snapshot::ListenerPlan;

/// The status that a tunnel begins with.
const OK: u16 = 200;

/// How the exchange of a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// Its response is whole.
    Done,
    /// There is no response, or it is not whole.
    CutShort,
    /// The client has failed, or an operator has ended it.
    Aborted,
}

/// A stream, whose exchange runs in a task of its own.
pub(crate) struct Http2Stream {
    connection: Rc<SharedConnection>,
    stream: Rc<StreamShared>,
    /// The failure for which it is not served, until it has been reported to the client.
    pub(crate) refused: Option<Failure>,
    incoming: IncomingBody,
    outgoing: OutgoingFrames,
    /// The rule that makes its request malformed.
    malformed: Option<Rule>,
    is_over: bool,
}

impl Http2Stream {
    pub(super) fn new(connection: Rc<SharedConnection>, stream: Rc<StreamShared>) -> Self {
        Self {
            connection,
            stream,
            refused: None,
            incoming: IncomingBody::new(),
            outgoing: OutgoingFrames::default(),
            malformed: None,
            is_over: false,
        }
    }

    /// The task of `cx` runs the stream from now on.
    pub(crate) fn enter(&self, cx: &Context<'_>) {
        // It is set once, since a stream has one task.
        let _is_set = self.stream.task.set(cx.waker().clone());
    }

    /// Why the client does not want the response any more, or cannot get it.
    pub(crate) fn gone(&self) -> Option<Cause> {
        self.stream.gone.get()
    }

    /// The exchange is over.
    pub(crate) fn finish(&mut self, end: StreamEnd) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let state = &mut *self.connection.state.borrow_mut();
        if let Some(rule) = self.malformed
            && !state.is_closed
        {
            // Behind the answer, so that the client may read what was wrong (RFC 9113 section 8.1.1).
            let fault = StreamFault::protocol(rule);
            let now = state.millis();
            let charged = state.codec.fail(self.stream.id, fault, now, &mut state.output.bytes);
            state.fault = state.fault.or(charged.err());
        }
        let code = match end {
            StreamEnd::Done => ErrorCode::NO_ERROR,
            StreamEnd::CutShort => ErrorCode::INTERNAL_ERROR,
            StreamEnd::Aborted => ErrorCode::CANCEL,
        };
        state.release(&self.stream, code);
    }

    /// What was received and not yet taken.
    pub(super) fn received_bytes(&self) -> &[u8] {
        self.incoming.bytes()
    }

    /// What is received behind the head.
    pub(super) fn incoming(&mut self) -> Body<'_> {
        Body { connection: &self.connection, stream: &self.stream, incoming: &mut self.incoming }
    }

    /// What is sent behind the head.
    pub(super) fn outgoing(&mut self) -> Reply<'_> {
        Reply { connection: &self.connection, stream: &self.stream, outgoing: &mut self.outgoing }
    }

    /// Takes the head out of the inbox.
    fn take_head(&mut self, exchange: &mut Exchange) -> Result<(), Failure> {
        let mut inbox = self.stream.inbox.borrow_mut();
        exchange.record.bytes_in += inbox.head_bytes as u64;
        if let Some(mut head) = inbox.head.take() {
            std::mem::swap(&mut exchange.request, &mut head.request);
            std::mem::swap(&mut exchange.request_text, &mut head.text);
            self.connection.state.borrow_mut().heads.push(head);
        }
        match inbox.refused {
            None => Ok(()),
            Some(rule) => {
                self.malformed = (!is_limit(rule)).then_some(rule);
                Err(Failure::client(Phase::Request, Cause::Rule(rule)))
            }
        }
    }
}

impl Http2Stream {
    /// A client may send requests for several hosts on one connection, as far as the certificate that it was shown is for them (RFC 9113 section
    /// 9.1.1).
    fn check_host(&self, exchange: &Exchange, listener: &ListenerPlan) -> Result<(), Failure> {
        let (Some(facts), Some(tls)) = (self.tls(), &listener.tls) else { return Ok(()) };
        let (asked, host) = (facts.server_name, exchange.request.host().of(&exchange.request_text));
        if asked.is_empty() || asked.as_bytes().eq_ignore_ascii_case(host) {
            return Ok(());
        }
        match std::str::from_utf8(host) {
            Ok(host) if tls.certificates.are_others(asked, host) => {
                Err(Failure::client(Phase::Request, Cause::Misdirected))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a request that breaks this rule is only too large: there is nothing wrong with the stream then.
fn is_limit(rule: Rule) -> bool {
    matches!(rule, Rule::HeadTooLarge | Rule::TooManyFields | Rule::TargetTooLong | Rule::MethodTooLong)
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.finish(StreamEnd::CutShort);
    }
}

impl ClientEnd for Http2Stream {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.connection.tls.as_ref().map(|tls| tls.get())
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.connection.local_address
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, _cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.gone()
    }

    fn body_received(&self) -> u64 {
        self.incoming.received
    }

    fn sent(&self) -> u64 {
        self.outgoing.sent
    }

    /// While the stream waits for its turn, what the client takes of others counts as well: that is no fault of it.
    fn taken(&self) -> u64 {
        if !self.stream.awaits_window.get() {
            self.stream.taken_by_turn.set(self.connection.state.borrow().body_bytes_sent);
        }
        self.outgoing.sent + self.stream.taken_by_turn.get()
    }

    fn stays_open(&self) -> bool {
        !self.connection.state.borrow().is_ending
    }
}

impl ClientStream for Http2Stream {
    type Body<'a> = Body<'a>;
    type Reply<'a> = Reply<'a>;
    type Fields<'a> = HeadWriter<'a>;

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
            None => taken.and_then(|()| self.check_host(exchange, listener)).map_err(Ended::Failed),
        }
    }

    fn begin_body(&mut self, client: &Client, exchange: &Exchange, listener: &ListenerPlan) {
        self.incoming.announced = match exchange.request.body() {
            BodyLength::Known(len) => Some(len),
            BodyLength::None | BodyLength::Unknown => None,
        };
        self.incoming.is_for_tunnel =
            exchange.request.protocol().is_some() || exchange.request.method() == Method::Connect;
        self.incoming.stripped = listener.stripped(client.peer).map(std::sync::Arc::clone);
    }

    fn body<'a>(&'a mut self, _client: &'a Client) -> Body<'a> {
        self.incoming()
    }

    fn body_announced(&self) -> Option<u64> {
        self.incoming.announced
    }

    fn limit_body(&mut self, bytes_max: u64) {
        self.incoming.bytes_max = bytes_max;
    }

    fn reply(&mut self) -> Reply<'_> {
        self.outgoing()
    }

    fn interim(
        &mut self,
        _exchange: &Exchange,
        status: Status<'_>,
        fields: impl FnOnce(&mut HeadWriter<'_>),
    ) {
        self.append_head(status.code, false, fields);
    }

    fn respond(
        &mut self,
        _client: &Client,
        _exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut HeadWriter<'_>),
    ) {
        let (status, is_whole, length) = match response.content {
            Content::Body(body, length) => (response.status.code, body == BodyLength::None, length),
            // A success opens the tunnel (RFC 8441 section 5).
            Content::Tunnel => (OK, false, None),
        };
        self.append_head(status, is_whole, |out| {
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

    fn take_back(&mut self) -> bool {
        // Its head is in the output already, and in the table of the encoder.
        false
    }

    fn close_after(&mut self) {}

    fn poll_reset(&mut self, _cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.gone()
    }
}

impl Http2Stream {
    /// Appends the head of a response.
    fn append_head(&mut self, status: u16, is_whole: bool, fields: impl FnOnce(&mut HeadWriter<'_>)) {
        if self.gone().is_some() {
            return;
        }
        let state = &mut *self.connection.state.borrow_mut();
        let place = state.output.place();
        let before = state.output.bytes.len();
        let Http2State { codec, encoder, output, .. } = state;
        let block = codec.begin_block(self.stream.id, &mut output.bytes);
        fields(&mut HeadWriter::response(encoder, &mut output.bytes, status));
        codec.end_block(block, is_whole, &mut output.bytes);
        self.outgoing.sent += (state.output.bytes.len() - before) as u64;
        self.outgoing.last_frame = (status >= 200).then_some(place);
        state.wake();
    }
}
