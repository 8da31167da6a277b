//! Seam 1: the client of an exchange, independent of the protocol.
//!
//! A stream is one request and its response. HTTP/1 has one stream at a time on a connection; the protocol decides what happens to the
//! connection afterwards. The tests run exchanges over streams in memory.

use std::sync::Arc;
use std::task::Context;

use weir_http::{FieldWriter, Framing, ResponseHead, Version};
use weir_observe::{Cause, status_text};

use super::client::Client;
use super::client_end::ClientEnd;
use super::exchange::{Ended, Exchange};
use crate::relay::ends::{Sink, Source};
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::snapshot::ListenerPlan;

/// One request and its response.
pub(crate) trait ClientStream: ClientEnd {
    /// The body of the request.
    type Body<'a>: Source
    where
        Self: 'a;

    /// Where the response goes.
    type Reply<'a>: Sink
    where
        Self: 'a;

    /// Takes the fields of a head that is staged.
    type Fields<'a>: FieldWriter
    where
        Self: 'a;

    /// Waits for the head of the request and moves it into the exchange.
    ///
    /// # Errors
    /// [`Ended::Closed`] when there is no request; else the failure to answer with.
    async fn receive(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        listener: &ListenerPlan,
    ) -> Result<(), Ended>;

    /// The head is taken: prepares for the body behind it.
    fn begin_body(&mut self, client: &Client, exchange: &Exchange, listener: &ListenerPlan);

    fn body<'a>(&'a mut self, client: &'a Client) -> Self::Body<'a>;

    /// The length of the body, when its head announced one.
    fn body_announced(&self) -> Option<u64>;

    /// Refuses a body of more than `bytes_max` bytes as soon as that is known.
    fn limit_body(&mut self, bytes_max: u64);

    /// Trailers that stop here, in place of those that the listener does not let pass.
    fn strip_trailers(&mut self, _stripped: &Arc<StrippedFields>) {}

    /// Drops the received part of the request body; `false` when more of it is still to come.
    fn discard_body(&mut self, client: &Client) -> bool {
        let mut source = self.body(client);
        loop {
            if source.decode().is_err() {
                return false;
            }
            let len = source.data().len();
            if len == 0 {
                return source.is_finished();
            }
            source.take(len);
        }
    }

    fn reply(&mut self) -> Self::Reply<'_>;

    /// Whether a response without an announced length can be ended by trailers at any time, whatever was accepted of its body.
    fn ends_anywhere(&self) -> bool {
        false
    }

    /// Stages an interim response (1xx but 101), if the client understands it (RFC 9110 section 15.2).
    fn interim(
        &mut self,
        exchange: &Exchange,
        status: Status<'_>,
        fields: impl FnOnce(&mut Self::Fields<'_>),
    );

    /// Stages the head of the final response.
    fn respond(
        &mut self,
        client: &Client,
        exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut Self::Fields<'_>),
    );

    /// Takes the final response back, if none of it has left; whether that could be done.
    fn take_back(&mut self) -> bool;

    /// The connection must not carry another request after this one: what comes behind it may not be a request.
    fn close_after(&mut self);

    /// Why the client will not read the rest of its response; registers `cx` for the next event.
    fn poll_reset(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause>;
}

/// Status and reason phrase of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status<'a> {
    pub(crate) code: u16,
    /// The reason phrase, for protocols that have one (RFC 9112 section 4).
    pub(crate) reason: &'a [u8],
}

impl<'a> Status<'a> {
    /// That of a received response, of which `head` is the text. One of a protocol without reason phrases gets the usual phrase.
    #[inline]
    pub(crate) fn received(response: &ResponseHead, head: &'a [u8]) -> Self {
        let (code, reason) = (response.status(), response.reason().of(head));
        let has_none = reason.is_empty() && response.version() == Version::Http2;
        Self { code, reason: if has_none { status_text(code).as_bytes() } else { reason } }
    }
}

/// What the head of a final response says beside its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinalHead<'a> {
    pub(crate) status: Status<'a>,
    pub(crate) content: Content,
    /// Whether it is an answer to part of the request: nothing waits for the rest.
    pub(crate) is_early: bool,
    /// What the spans of the received head refer to; empty for an answer of Weir's own.
    pub(crate) text: &'a [u8],
}

/// What follows the head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A body, or none; with the `Content-Length` that the head had or would have had.
    Body(Framing, Option<u64>),
    /// Raw bytes: the protocol of an upgrade, or the tunnel of CONNECT.
    Tunnel,
}
