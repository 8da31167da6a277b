//! One stream as the server of an exchange.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_http::h2::{ErrorCode, HeadWriter, RequestPseudoFields};
use weir_http::{ChunkedLimits, FieldName, FieldWriter as _, Framing, HeadLimits, Method, ResponseHead};
use weir_observe::{Cause, ServerShard};

use super::link::ServerLink;
use super::receive::ToServers;
use super::websocket::{AskedWebsocket, WEBSOCKET};
use crate::net::buffer::BufferStock;
use crate::net::clock::Instant;
use crate::relay::Relay;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::http2::handle::StreamHandle;
use crate::relay::http2::inbox::ReceivedHead;
use crate::state::routes::stripped_fields::StrippedFields;
use crate::upstream::stream::{HeadError, OutgoingFields, RequestLine, ServerStream, Unprocessed};
use crate::upstream::tunnel::ServerEnd;

/// One request and its response, on a connection that others share.
pub(crate) struct Http2ServerStream {
    handle: StreamHandle<ToServers>,
    opened_at: Instant,
    /// Requests that the connection has had before.
    carried: u64,
    shard: Arc<ServerShard>,
    /// The head of the response that was read last.
    head: Option<Box<ReceivedHead<ResponseHead>>>,
    received_any: bool,
    /// Why the request cannot be sent on this connection, or not any more.
    unable: Option<HeadError>,
    websocket: Option<AskedWebsocket>,
}

impl Http2ServerStream {
    /// The next stream on a connection.
    pub(super) fn begin(link: &ServerLink, shard: &Arc<ServerShard>) -> Self {
        let (handle, carried, unable) = match link.begin() {
            Some((handle, carried)) => (handle, carried, None),
            None => (link.nothing(), 0, Some(HeadError::Unprocessed(Unprocessed::GoAway))),
        };
        Self {
            handle,
            opened_at: link.opened_at,
            carried,
            shard: Arc::clone(shard),
            head: None,
            received_any: false,
            unable,
            websocket: None,
        }
    }

    /// The stream is over.
    pub(crate) fn finish(mut self) {
        self.recycle_head();
        self.handle.finish(ErrorCode::CANCEL);
    }

    /// Gives the memory of the last head to the next.
    fn recycle_head(&mut self) {
        if let Some(head) = self.head.take() {
            self.handle.connection.state.borrow_mut().heads.push(head);
        }
    }

    /// Whether the server takes WebSockets (RFC 8441 section 3).
    fn takes_websockets(&self) -> bool {
        self.handle.connection.state.borrow().codec.remote().enable_connect_protocol
    }

    /// Appends the head of the request.
    fn append_head(&mut self, head: &RequestLine<'_>, is_tunnel: bool, fields: &impl OutgoingFields) {
        let pseudo_fields = match (&self.websocket, head.method) {
            (None, b"CONNECT") => RequestPseudoFields {
                method: b"CONNECT",
                scheme: b"",
                authority: head.host,
                path: b"",
                protocol: None,
            },
            (websocket, method) => RequestPseudoFields {
                method: if websocket.is_some() { b"CONNECT" } else { method },
                scheme: self.handle.connection.facts.scheme,
                authority: head.host,
                path: head.target,
                protocol: websocket.as_ref().map(|_| WEBSOCKET),
            },
        };
        let is_websocket = self.websocket.is_some();
        let framing = if is_tunnel { Framing::Delimited } else { head.body };
        self.handle.append_head(Some(framing), |encoder, out| {
            let mut out = HeadWriter::request(encoder, out, &pseudo_fields);
            if is_websocket {
                out.leave_out(FieldName::SecWebsocketKey);
            }
            fields.write(&mut out);
            if let Framing::Length(len) = framing {
                out.decimal_field(b"content-length", len);
            }
            if head.takes_trailers {
                out.field(b"te", b"trailers");
            }
        });
    }
}

impl ServerStream for Http2ServerStream {
    fn history(&self) -> (Instant, u64) {
        (self.opened_at, self.carried)
    }

    /// A connection that is shared cannot be authenticated for one client: a server that wants that has to be spoken to in HTTP/1.1.
    fn set_private(&mut self) {}

    #[inline]
    fn send(&mut self, head: &RequestLine<'_>, fields: &impl OutgoingFields) {
        if self.unable.is_some() || self.handle.gone().is_some() {
            return;
        }
        if head.upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case(WEBSOCKET)) {
            if !self.takes_websockets() {
                self.handle.abandon(Cause::WebsocketNotSupported);
                self.unable = Some(HeadError::Unable(Cause::WebsocketNotSupported));
                return;
            }
            self.websocket = Some(AskedWebsocket::new(head.key));
        }
        let is_tunnel = self.websocket.is_some() || head.method == b"CONNECT";
        let method = match head.method {
            _ if is_tunnel => Method::Connect,
            b"HEAD" => Method::Head,
            _ => Method::Get,
        };
        self.handle.stream.inbox.borrow_mut().side.method = method;
        if is_tunnel {
            self.handle.set_outgoing_for_tunnel();
        }
        self.append_head(head, is_tunnel, fields);
    }

    #[inline]
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        body: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        relay.poll(cx, body, &mut self.handle.outgoing())
    }

    fn sent(&self) -> u64 {
        self.handle.sent()
    }

    fn received_any(&self) -> bool {
        self.received_any
    }

    #[inline]
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        _stock: &Rc<BufferStock>,
        response: &mut ResponseHead,
        _limits: &HeadLimits,
    ) -> Poll<Result<(), HeadError>> {
        if let Some(unable) = self.unable.take() {
            return Poll::Ready(Err(unable));
        }
        let mut inbox = self.handle.stream.inbox.borrow_mut();
        let Some(mut head) = inbox.side.take_head() else {
            let unprocessed = inbox.side.unprocessed;
            drop(inbox);
            return self.poll_end(cx, unprocessed).map(Err);
        };
        drop(inbox);
        self.received_any = true;
        std::mem::swap(response, &mut head.head);
        if let Some(websocket) = &self.websocket {
            websocket.translate(response, &mut head.text);
        }
        self.head = Some(head);
        Poll::Ready(Ok(()))
    }

    fn head(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], |head| &head.text)
    }

    fn take_head(&mut self) {
        self.recycle_head();
    }

    #[inline]
    fn begin_body(&mut self, response: &ResponseHead, method: Method, _limits: ChunkedLimits) -> Framing {
        response.body(method)
    }

    fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        self.handle.incoming.stripped = Some(Arc::clone(stripped));
    }

    fn is_body_here(&self) -> bool {
        self.handle.stream.inbox.borrow().has_ended
    }

    #[inline]
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        client: &mut impl Sink,
        _stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>> {
        relay.poll(cx, &mut self.handle.incoming(), client)
    }

    fn trailer<T>(&self, name: &str, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let inbox = self.handle.stream.inbox.borrow();
        let mut fields = inbox.trailers.as_ref()?.fields();
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| read(value))
    }

    fn into_tunnel(self) -> ServerEnd {
        ServerEnd::Stream { end: Box::new(self.handle), shard: self.shard }
    }
}

impl Http2ServerStream {
    /// Why no head will come, if none will.
    fn poll_end(&mut self, cx: &Context<'_>, unprocessed: Option<Unprocessed>) -> Poll<HeadError> {
        let Some(cause) = self.handle.gone() else { return self.handle.stream.pending(cx) };
        Poll::Ready(match (unprocessed, cause) {
            (Some(Unprocessed::Http1Required), _) if !self.handle.connection.facts.may_use_http1 => {
                HeadError::Unable(Cause::Http1Required)
            }
            (Some(unprocessed), _) => HeadError::Unprocessed(unprocessed),
            (None, Cause::Rule(rule)) => {
                self.received_any = true;
                HeadError::Broken(rule)
            }
            (None, Cause::Closed) => HeadError::Closed,
            (None, Cause::Reset) => {
                // What the server says of this stream is its answer: the connection is alive, and the request was read.
                self.received_any |= self.handle.stream.inbox.borrow().side.was_reset;
                HeadError::Io(io::ErrorKind::ConnectionReset.into())
            }
            (None, cause) => HeadError::Lost(cause),
        })
    }
}
