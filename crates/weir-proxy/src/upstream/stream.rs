//! Seam 1 to servers: the server of an exchange, independent of the protocol.
//!
//! A stream is one request and its response. Where it comes from (a pool, a new connection, one that other streams share) and
//! what happens to it afterwards is up to its protocol. The tests run exchanges over streams in memory.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::fastcgi::Params;
use weir_http::{ChunkedLimits, FieldWriter, Framing, HeadLimits, Method, ResponseHead, Rule};
use weir_observe::{Cause, Failure, Phase};

use super::pinned::PinnedConnections;
use super::proxy_header::ConnectionIdentity;
use super::tunnel::ServerEnd;
use crate::net::buffer::BufferStock;
use crate::net::clock::Instant;
use crate::net::socket::Behind;
use crate::relay::Relay;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::state::routes::stripped_fields::StrippedFields;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker::Worker;
use crate::state::worker_config::{LocalServer, WorkerConfig};

/// A server of an upstream, in the config of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination<'a> {
    pub(crate) config: &'a Rc<WorkerConfig>,
    pub(crate) upstream: usize,
    /// That upstream, found once for all that ask.
    pub(crate) plan: &'a UpstreamPlan,
    pub(crate) server: usize,
    /// The worker's side of the server.
    pub(crate) local: &'a Rc<LocalServer>,
}

/// The source of streams to servers.
pub(crate) trait Servers: 'static {
    type Stream: ServerStream + 'static;

    /// What opening a connection gives.
    type Opened;

    /// The same for another task.
    fn for_background(&self) -> Self;

    /// A stream on a connection that is open already and that this client may use.
    fn take_kept(
        &mut self,
        to: Destination<'_>,
        pinned: &mut PinnedConnections,
        now: Instant,
        careful: bool,
    ) -> Option<Self::Stream>;

    /// Forgets connections to the server: one of them has just proved to be dead.
    fn forget_kept(&mut self, to: Destination<'_>, pinned: &mut PinnedConnections);

    /// Opens a connection, up to where requests can be sent on it; `identity` is that of the connection, `behind` says what comes next.
    fn open(
        &mut self,
        to: Destination<'_>,
        identity: ConnectionIdentity,
        behind: Behind,
        worker: Rc<Worker>,
    ) -> impl Future<Output = Result<Self::Opened, Failure>>;

    /// The failure when a connection is not open in time.
    fn lateness(&self, _to: Destination<'_>) -> Failure {
        Failure::server(Phase::Connect, Cause::TimedOut)
    }

    /// The stream on a connection that was opened at `now`.
    fn begin(&mut self, opened: Self::Opened, to: Destination<'_>, now: Instant) -> Self::Stream;

    /// Takes back a stream whose response is over; the connection may be used again if the request `was_sent` whole and its
    /// protocol allows it.
    fn finish(
        &mut self,
        stream: Self::Stream,
        to: Destination<'_>,
        pinned: &mut PinnedConnections,
        now: Instant,
        was_sent: bool,
    );

    /// The memory of a stream that is over before its time goes to the next.
    fn drop_stream(&mut self, stream: Self::Stream);
}

/// Whether a server had closed the connection before a byte of the request reached its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadRequest {
    /// It may have read the request.
    Unknown,
    /// It had ended its direction, and nothing has arrived yet that says whether the other one is closed.
    Likely,
    /// It can not have read it.
    Certain,
}

/// One request and its response.
pub(crate) trait ServerStream {
    /// When its connection was opened, and how many exchanges that had carried before.
    fn history(&self) -> (Instant, u64);

    /// The server may consider the connection authenticated as one user: no other client may use it.
    fn set_private(&mut self);

    /// Stages the head of the request.
    fn send(&mut self, head: &RequestLine<'_>, fields: &impl OutgoingFields);

    /// Moves the body of the request on, behind the head, as [`Relay::poll`] does.
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        body: &mut impl Source,
    ) -> Poll<Result<(), RelayError>>;

    /// Bytes of the request that were sent, with framing.
    fn sent(&self) -> u64;

    /// Whether anything was received.
    fn received_any(&self) -> bool;

    /// What is known by now of a request whose server has closed the connection.
    fn unread(&self) -> UnreadRequest {
        UnreadRequest::Unknown
    }

    /// Reads on until the head of a response is complete and in `response`.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        stock: &Rc<BufferStock>,
        response: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Poll<Result<(), HeadError>>;

    /// What the spans of a complete head refer to.
    fn head(&self) -> &[u8];

    /// Drops a head that is complete: another one, or the body, is next.
    fn take_head(&mut self);

    /// Prepares for the body of the final response, whose head is complete; how long it is.
    fn begin_body(&mut self, response: &ResponseHead, method: Method, limits: ChunkedLimits) -> Framing;

    /// Trailers of that body that are not forwarded.
    fn strip_trailers(&mut self, _stripped: &Arc<StrippedFields>) {}

    /// Whether the body seems to be here whole already, behind the head.
    fn is_body_here(&self) -> bool;

    /// Moves the body of the response on, as [`Relay::poll`] does.
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        client: &mut impl Sink,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>>;

    /// What is wrong with the switch to the protocol that was asked for, in `response`, whose head is complete.
    fn check_switch(&self, _response: &ResponseHead) -> Result<(), Cause> {
        Ok(())
    }

    /// What `read` makes of the value of a field behind the body.
    fn trailer<T>(&self, _name: &str, _read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        None
    }

    /// The raw bytes of a stream that has become a tunnel.
    fn into_tunnel(self) -> ServerEnd;
}

/// The fields of a head, for a stream to write in the form of its protocol.
pub(crate) trait OutgoingFields {
    fn write(&self, out: &mut impl FieldWriter);

    /// Adds the parameters of CGI with the fields among them, for a server of FastCGI.
    fn write_params(&self, _params: &mut Params) {}

    /// Texts of the error stream of a server of FastCGI that make a failure of its response.
    fn caught(&self) -> Option<&Arc<[Box<str>]>> {
        None
    }
}

/// Why there is no head.
#[derive(Debug)]
pub(crate) enum HeadError {
    /// The server has ended the connection.
    Closed,
    /// The stream or its connection has ended, for this reason.
    Lost(Cause),
    Io(io::Error),
    Broken(Rule),
    /// The server has done nothing with the request, and never will: it may be sent again, whatever it is.
    Unprocessed(Unprocessed),
    /// The connection cannot carry such a request, of which nothing was sent.
    Unable(Cause),
}

/// Why a server has left a request alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unprocessed {
    /// It has refused this one.
    Refused,
    /// It takes no more on this connection.
    GoAway,
    /// It has no room for it.
    Overloaded,
    /// It wants it over HTTP/1.1 (RFC 9113 section 7).
    Http1Required,
}

/// What the head of a request says beside its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) body: Framing,
    /// The protocol that the client asks for, if the route allows it.
    pub(crate) upgrade: Option<&'a [u8]>,
    /// Whether a request for a WebSocket comes without a key, by a protocol that has none (RFC 8441 section 5): a server of HTTP/1 gets one
    /// of Weir's, and has to prove that it has understood it.
    pub(crate) needs_key: bool,
    /// The key of the WebSocket that the client asks for.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) takes_trailers: bool,
    /// Whether connections to this upstream are never used again.
    pub(crate) close: bool,
    /// The id of the request, for the log; empty without one.
    pub(crate) id: &'a [u8],
}

/// For how long a server says that it keeps an idle connection.
pub(crate) type KeepAlive = Option<Duration>;
