//! One stream as the client of an exchange.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use weir_http::h2::{ErrorCode, HeadWriter};
use weir_http::{FieldName, FieldWriter as _, Framing, Method, Rule};
use weir_observe::{Cause, Failure, Phase};

use super::receive::ToClients;
use crate::downstream::stream_driver::{DrivenStream, StreamEnd};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::{Ended, Exchange};
use crate::net::clock;
use crate::net::tls::facts::TlsFacts;
use crate::relay::http2::body::Body;
use crate::relay::http2::handle::StreamHandle;
use crate::relay::http2::outgoing::FrameSink;
use crate::relay::http2::shared::{SharedConnection, StreamShared};
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::snapshot::ListenerPlan;

/// The status that a tunnel begins with.
const OK: u16 = 200;

/// A stream, whose exchange runs in a task of its own.
pub(crate) struct Http2Stream {
    pub(super) handle: StreamHandle<ToClients>,
    /// The failure for which it is not served, until it has been reported to the client.
    refused: Option<Failure>,
    /// The rule that makes its request malformed.
    malformed: Option<Rule>,
}

impl Http2Stream {
    pub(super) fn new(
        connection: Rc<SharedConnection<ToClients>>,
        stream: Rc<StreamShared<ToClients>>,
    ) -> Self {
        Self { handle: StreamHandle::new(connection, stream), refused: None, malformed: None }
    }

    /// Takes the head out of the inbox.
    fn take_head(&mut self, exchange: &mut Exchange) -> Result<(), Failure> {
        let inbox = &mut self.handle.stream.inbox.borrow_mut().side;
        exchange.record.bytes_in += inbox.head_bytes as u64;
        if let Some(mut head) = inbox.head.take() {
            std::mem::swap(&mut exchange.request, &mut head.head);
            std::mem::swap(&mut exchange.request_text, &mut head.text);
            self.handle.connection.state.borrow_mut().heads.push(head);
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

/// Whether a request that breaks this rule is only too large: there is nothing wrong with the stream then.
fn is_limit(rule: Rule) -> bool {
    matches!(rule, Rule::HeadTooLarge | Rule::TooManyFields | Rule::TargetTooLong | Rule::MethodTooLong)
}

impl DrivenStream for Http2Stream {
    fn enter(&self, cx: &Context<'_>) {
        self.handle.enter(cx);
    }

    fn gone(&self) -> Option<Cause> {
        self.handle.gone()
    }

    fn refuse(&mut self, failure: Failure) {
        self.refused = Some(failure);
    }

    fn finish(&mut self, end: StreamEnd) {
        if self.handle.is_over() {
            return;
        }
        if let Some(rule) = self.malformed {
            // Behind the answer, so that the client may read what was wrong (RFC 9113 section 8.1.1).
            self.handle.fail(rule);
        }
        self.handle.finish(match end {
            StreamEnd::Done => ErrorCode::NO_ERROR,
            StreamEnd::CutShort => ErrorCode::INTERNAL_ERROR,
            StreamEnd::Aborted => ErrorCode::CANCEL,
        });
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.finish(StreamEnd::CutShort);
    }
}

impl ClientEnd for Http2Stream {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.handle.connection.facts.tls()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.handle.connection.facts.local_address()
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.handle.poll_gone(cx)
    }

    fn body_received(&self) -> u64 {
        self.handle.incoming.received
    }

    fn sent(&self) -> u64 {
        self.handle.sent()
    }

    fn taken(&self) -> u64 {
        self.handle.taken()
    }

    fn stays_open(&self) -> bool {
        !self.handle.connection.state.borrow().side.is_ending
    }
}

impl ClientStream for Http2Stream {
    type Body<'a> = Body<'a, ToClients>;
    type Reply<'a> = FrameSink<'a, ToClients>;
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
            None => {
                let checked =
                    taken.and_then(|()| self.handle.connection.facts.check_host(exchange, listener));
                checked.map_err(Ended::Failed)
            }
        }
    }

    fn begin_body(&mut self, client: &Client, exchange: &Exchange, listener: &ListenerPlan) {
        self.handle.incoming.announced = match exchange.request.body() {
            Framing::Length(len) => Some(len),
            Framing::None | Framing::Delimited | Framing::UntilClose => None,
        };
        self.handle.incoming.is_for_tunnel =
            exchange.request.protocol().is_some() || exchange.request.method() == Method::Connect;
        // A request without a body has no trailers either.
        self.handle.incoming.stripped = match exchange.request.body() {
            Framing::None => None,
            Framing::Length(_) | Framing::Delimited | Framing::UntilClose => {
                listener.stripped_trailers(client.peer).cloned()
            }
        };
    }

    fn body<'a>(&'a mut self, _client: &'a Client) -> Body<'a, ToClients> {
        self.handle.incoming()
    }

    fn body_announced(&self) -> Option<u64> {
        self.handle.incoming.announced
    }

    fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        self.handle.incoming.stripped = Some(Arc::clone(stripped));
    }

    fn limit_body(&mut self, bytes_max: u64) {
        self.handle.incoming.bytes_max = bytes_max;
    }

    fn reply(&mut self) -> FrameSink<'_, ToClients> {
        self.handle.outgoing()
    }

    fn interim(
        &mut self,
        _exchange: &Exchange,
        status: Status<'_>,
        fields: impl FnOnce(&mut HeadWriter<'_>),
    ) {
        self.append_head(status.code, None, fields);
    }

    fn respond(
        &mut self,
        _client: &Client,
        _exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut HeadWriter<'_>),
    ) {
        let (status, framing, length) = match response.content {
            Content::Body(framing, length) => (response.status.code, framing, length),
            // A success opens the tunnel (RFC 8441 section 5).
            Content::Tunnel => (OK, Framing::Delimited, None),
        };
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
        // Its head is in the output already, and in the table of the encoder.
        false
    }

    fn close_after(&mut self) {}

    fn poll_reset(&mut self, cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.handle.poll_gone(cx)
    }
}

impl Http2Stream {
    /// Appends the head of a response: a final one with what it says of its body.
    fn append_head(
        &mut self,
        status: u16,
        framing: Option<Framing>,
        fields: impl FnOnce(&mut HeadWriter<'_>),
    ) {
        if self.gone().is_some() {
            return;
        }
        self.handle.append_head(framing, |encoder, out| {
            fields(&mut HeadWriter::response(encoder, out, status));
        });
    }
}
