//! Servers in memory: how each attempt on them goes is decided by the seed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_http::http1::{HeadProgress, ResponseParser};
use weir_http::{ChunkedLimits, Framing, HeadLimits, Method, ResponseHead, Rule};
use weir_observe::{Cause, Failure, ServerShard};

use super::client::framing_line;
use super::fields::FieldList;
use super::pipe::{Arriving, Reader, Reading, Receiving, Sending, Writer};
use super::tunnel::TunnelPeer;
use super::world::{Event, World};
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::net::failure::of_connect;
use crate::net::socket::Behind;
use crate::relay::Relay;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::tunnel::memory_end::MemoryEnd;
use crate::state::worker::Worker;
use crate::upstream::pinned::PinnedConnections;
use crate::upstream::proxy_header::ConnectionIdentity;
use crate::upstream::stream::{
    Destination, HeadError, OutgoingFields, RequestLine, ServerStream, Servers, Unprocessed,
};
use crate::upstream::tunnel::ServerEnd;

/// How an attempt on a server goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Play {
    /// It answers the whole request.
    Answer,
    /// It answers at once, whatever is still to come of the request.
    AnswerEarly,
    /// It answers, and cuts the body of its response short.
    CutBody,
    /// It closes the connection before it says anything.
    Close,
    /// It sends what is no head.
    Garbage,
    /// It never answers.
    Hang,
    /// It refuses the request before it does anything with it.
    Refuse,
    /// It takes no more requests on its connection, this one included.
    GoAway,
    /// It wants the request by another protocol.
    RequireHttp1,
}

impl Play {
    /// How the server says that it has left the request alone, if it does.
    pub(super) fn unprocessed(self) -> Option<Unprocessed> {
        match self {
            Play::Refuse => Some(Unprocessed::Refused),
            Play::GoAway => Some(Unprocessed::GoAway),
            Play::RequireHttp1 => Some(Unprocessed::Http1Required),
            _ => None,
        }
    }
}

/// One attempt on a server; shared with the schedule.
#[derive(Debug)]
pub(super) struct ServerWorld {
    pub(super) server: usize,
    pub(super) client: usize,
    /// The number of its connection, which other attempts may have as well.
    pub(super) connection: usize,
    pub(super) play: Play,
    /// Heads that are here and not yet read.
    heads: RefCell<VecDeque<String>>,
    pub(super) request: Receiving,
    pub(super) body: Arriving,
    is_closed: Cell<bool>,
    is_over: Cell<bool>,
    is_broken: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The status of its final response.
    pub(super) status: u16,
    /// What it does with a tunnel.
    pub(super) tunnel: TunnelPeer,
    /// Whether a switch of protocols is none that was asked for.
    pub(super) switches_wrongly: Cell<bool>,
}

impl ServerWorld {
    pub(super) fn say(&self, head: String) {
        self.heads.borrow_mut().push_back(head);
        self.wake();
    }

    /// The id that the request names which it has received; `None` before its head has come.
    pub(super) fn id(&self) -> Option<String> {
        let got = self.request.got.borrow();
        let end = got.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&got[..end]);
        let is_id = |line: &&str| line.to_ascii_lowercase().starts_with("x-id:");
        head.lines().find(is_id).map(|line| line[5..].trim().to_owned())
    }

    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.request.leave();
        self.body.cut();
        self.wake();
    }

    /// Whether it has agreed to a tunnel.
    pub(super) fn has_tunnel(&self) -> bool {
        self.status == 101
    }

    pub(super) fn break_head(&self) {
        self.is_broken.set(true);
        self.wake();
    }

    /// Whether the attempt is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Servers as the exchanges of one client see them.
pub(super) struct MemoryServers {
    pub(super) world: Rc<World>,
    pub(super) client: usize,
}

/// A connection that waits for its next request.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptConnection {
    pub(super) number: usize,
    /// How many exchanges it has carried.
    pub(super) carried: u64,
}

/// A connection that is being opened.
#[derive(Debug, Default)]
pub(super) struct Connecting {
    outcome: Cell<Option<bool>>,
    waker: RefCell<Option<Waker>>,
}

impl Connecting {
    pub(super) fn end(&self, is_open: bool) {
        self.outcome.set(Some(is_open));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl MemoryServers {
    fn stream(&self, to: Destination<'_>, kept: Option<KeptConnection>) -> MemoryServerStream {
        let world = self.world.begin_attempt(self.client, to.server, kept);
        let carried = kept.map_or(0, |kept| kept.carried);
        MemoryServerStream {
            world,
            all: Rc::clone(&self.world),
            shard: Arc::clone(&to.local.shard),
            opened_at: clock::now(),
            carried,
            request: Sending::default(),
            reading: Reading::default(),
            head: String::new(),
            received_any: false,
        }
    }
}

impl Servers for MemoryServers {
    type Stream = MemoryServerStream;
    type Opened = ();

    fn for_background(&self) -> Self {
        Self { world: Rc::clone(&self.world), client: self.client }
    }

    fn take_kept(
        &mut self,
        to: Destination<'_>,
        _pinned: &mut PinnedConnections,
        _now: Instant,
        _careful: bool,
    ) -> Option<MemoryServerStream> {
        let kept = self.world.take_kept(to.server)?;
        Some(self.stream(to, Some(kept)))
    }

    fn forget_kept(&mut self, to: Destination<'_>, _pinned: &mut PinnedConnections) {
        while self.world.take_kept(to.server).is_some() {}
    }

    fn open(
        &mut self,
        _to: Destination<'_>,
        _identity: ConnectionIdentity,
        _behind: Behind,
        _worker: Rc<Worker>,
    ) -> impl Future<Output = Result<(), Failure>> {
        let connecting = self.world.connect();
        poll_fn(move |cx| match connecting.outcome.get() {
            Some(true) => Poll::Ready(Ok(())),
            Some(false) => Poll::Ready(Err(of_connect(&io::ErrorKind::ConnectionRefused.into()))),
            None => {
                connecting.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
    }

    fn begin(&mut self, (): (), to: Destination<'_>, _now: Instant) -> MemoryServerStream {
        self.stream(to, None)
    }

    fn finish(
        &mut self,
        stream: MemoryServerStream,
        to: Destination<'_>,
        _pinned: &mut PinnedConnections,
        _now: Instant,
        was_sent: bool,
    ) {
        if was_sent && !stream.world.is_closed.get() {
            let (number, carried) = (stream.world.connection, stream.carried + 1);
            self.world.keep(to.server, KeptConnection { number, carried });
        }
    }

    fn drop_stream(&mut self, _stream: MemoryServerStream) {}
}

/// One attempt on a server.
pub(super) struct MemoryServerStream {
    world: Rc<ServerWorld>,
    all: Rc<World>,
    shard: Arc<ServerShard>,
    opened_at: Instant,
    carried: u64,
    request: Sending,
    reading: Reading,
    /// The head that has been read last.
    head: String,
    received_any: bool,
}

impl Drop for MemoryServerStream {
    fn drop(&mut self) {
        self.world.is_over.set(true);
    }
}

impl ServerStream for MemoryServerStream {
    fn history(&self) -> (Instant, u64) {
        (self.opened_at, self.carried)
    }

    fn set_private(&mut self) {}

    fn send(&mut self, head: &RequestLine<'_>, fields: &impl OutgoingFields) {
        let mut list = FieldList::default();
        fields.write(&mut list);
        assert!(list.get("x-forwarded-for").is_some(), "servers hear of the client");
        assert!(!head.host.is_empty() && head.target.starts_with(b"/"), "a request has a host and a path");
        let mut out = [head.method, b" ", head.target, b" HTTP/1.1\r\nHost: ", head.host, b"\r\n"].concat();
        list.write_lines(&mut out);
        if let Some(protocol) = head.upgrade {
            out.extend([b"Connection: Upgrade\r\nUpgrade: ", protocol, b"\r\n"].concat());
        }
        out.extend(framing_line(head.body, None).bytes());
        out.extend_from_slice(b"\r\n");
        self.request.stage(&out);
        self.request.begin_body(head.body);
        self.all.at_once(Event::Request(Rc::clone(&self.world)));
    }

    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        body: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        let mut request = Writer { receiving: &self.world.request, sending: &mut self.request };
        relay.poll(cx, body, &mut request)
    }

    fn sent(&self) -> u64 {
        self.request.sent
    }

    fn received_any(&self) -> bool {
        self.received_any
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        _stock: &Rc<BufferStock>,
        response: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Poll<Result<(), HeadError>> {
        if let Some(head) = self.world.heads.borrow_mut().pop_front() {
            self.received_any = true;
            let parsed = ResponseParser::new().parse(response, head.as_bytes(), limits);
            assert!(matches!(parsed, Ok(HeadProgress::Complete { .. })), "{head}: {parsed:?}");
            self.head = head;
            return Poll::Ready(Ok(()));
        }
        if self.world.is_broken.get() {
            self.received_any = true;
            return Poll::Ready(Err(HeadError::Broken(Rule::BadStatusLine)));
        }
        if self.world.is_closed.get() {
            let unprocessed = self.world.play.unprocessed();
            return Poll::Ready(Err(unprocessed.map_or(HeadError::Closed, HeadError::Unprocessed)));
        }
        self.world.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn head(&self) -> &[u8] {
        self.head.as_bytes()
    }

    fn take_head(&mut self) {}

    fn begin_body(&mut self, response: &ResponseHead, method: Method, _limits: ChunkedLimits) -> Framing {
        response.body(method)
    }

    fn is_body_here(&self) -> bool {
        self.world.body.arrived() == self.world.body.bytes.len()
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        relay: &mut Relay,
        client: &mut impl Sink,
        _stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>> {
        let mut body = Reader { arriving: &self.world.body, reading: &mut self.reading };
        relay.poll(cx, &mut body, client)
    }

    fn check_switch(&self, response: &ResponseHead) -> Result<(), Cause> {
        assert_eq!(response.status(), 101, "nothing else switches protocols");
        if self.world.switches_wrongly.get() { Err(Cause::WebsocketAcceptMismatch) } else { Ok(()) }
    }

    fn into_tunnel(self) -> ServerEnd {
        let end = Box::new(MemoryEnd::new(&self.world.tunnel.stream));
        ServerEnd::Stream { end, shard: Arc::clone(&self.shard) }
    }
}

/// What an attempt has to go on with.
pub(super) fn attempt(
    (server, connection): (usize, usize),
    client: usize,
    play: Play,
    status: u16,
    body: Vec<u8>,
) -> Rc<ServerWorld> {
    Rc::new(ServerWorld {
        server,
        client,
        connection,
        play,
        heads: RefCell::default(),
        request: Receiving::default(),
        body: Arriving::new(body),
        is_closed: Cell::new(false),
        is_over: Cell::new(false),
        is_broken: Cell::new(false),
        waker: RefCell::default(),
        status,
        tunnel: TunnelPeer::new(5),
        switches_wrongly: Cell::new(false),
    })
}
