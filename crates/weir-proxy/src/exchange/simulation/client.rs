//! A client in memory: one request, and what has come back.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Waker};

use weir_http::http1::{HeadProgress, RequestParser};
use weir_http::{Framing, Method};
use weir_observe::{Cause, Failure, Phase};

use super::fields::FieldList;
use super::pipe::{Arriving, Reader, Reading, Receiving, Sending, Writer};
use super::tunnel::TunnelPeer;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::net::clock::{self, Instant};
use crate::net::tls::facts::TlsFacts;
use crate::state::snapshot::ListenerPlan;

/// What a client sends and has got; shared with the schedule.
#[derive(Debug)]
pub(super) struct ClientWorld {
    /// What its request names itself in `X-Id`, which servers repeat.
    pub(super) id: usize,
    /// The head of its request.
    pub(super) head: String,
    pub(super) body: Arriving,
    pub(super) reply: Receiving,
    /// The status codes that have come, interim ones first.
    pub(super) statuses: RefCell<Vec<u16>>,
    /// What it does with a tunnel.
    pub(super) tunnel: TunnelPeer,
    left_at: Cell<Option<Instant>>,
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl ClientWorld {
    /// A client that sends `head`, which names `id`, at once, and `body` as it comes.
    pub(super) fn new(id: usize, head: String, body: Vec<u8>) -> Self {
        Self {
            id,
            head,
            body: Arriving::new(body),
            reply: Receiving::default(),
            statuses: RefCell::default(),
            tunnel: TunnelPeer::new(3),
            left_at: Cell::default(),
            is_over: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// The method and the target of its request.
    pub(super) fn method_and_target(&self) -> (&str, &str) {
        let mut words = self.head.split(' ');
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }

    /// Whether it asks for another protocol.
    pub(super) fn asks_for_tunnel(&self) -> bool {
        self.head.contains("Upgrade: websocket")
    }

    /// The client resets its connection.
    pub(super) fn leave(&self) {
        self.left_at.set(self.left_at.get().or(Some(clock::now())));
        self.body.cut();
        self.reply.leave();
        self.tunnel.stream.abort();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.left_at.get().is_some()
    }

    pub(super) fn left_at(&self) -> Option<Instant> {
        self.left_at.get()
    }

    /// Its exchange is over.
    pub(super) fn end(&self) {
        self.is_over.set(true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}

/// Whether another response follows one of this status.
pub(super) const fn is_interim(status: u16) -> bool {
    status < 200 && status != 101
}

fn status_line(status: Status<'_>) -> Vec<u8> {
    [format!("HTTP/1.1 {} ", status.code).as_bytes(), status.reason, b"\r\n"].concat()
}

/// What a head of HTTP/1.1 says about the body behind it; `announced` is the length that a body would have had.
pub(super) fn framing_line(framing: Framing, announced: Option<u64>) -> String {
    match (framing.length(), announced) {
        (None, _) => "Transfer-Encoding: chunked\r\n".to_owned(),
        (Some(length), _) if framing == Framing::Length(length) => format!("Content-Length: {length}\r\n"),
        (_, Some(length)) => format!("Content-Length: {length}\r\n"),
        (_, None) => String::new(),
    }
}

/// The stream of a client.
pub(super) struct MemoryClient {
    pub(super) world: Rc<ClientWorld>,
    reading: Reading,
    reply: Sending,
    closes: bool,
}

impl MemoryClient {
    pub(super) fn new(world: &Rc<ClientWorld>) -> Self {
        Self {
            world: Rc::clone(world),
            reading: Reading::default(),
            reply: Sending::default(),
            closes: false,
        }
    }

    fn poll_left(&self, cx: &Context<'_>) -> Option<Cause> {
        if self.world.is_gone() {
            return Some(Cause::Reset);
        }
        self.world.waker.replace(Some(cx.waker().clone()));
        None
    }
}

impl ClientEnd for MemoryClient {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        None
    }

    fn local_address(&self) -> Option<SocketAddr> {
        None
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
        self.reading.decoded()
    }

    fn sent(&self) -> u64 {
        self.reply.sent
    }

    fn stays_open(&self) -> bool {
        !self.closes
    }
}

impl ClientStream for MemoryClient {
    type Body<'a> = Reader<'a>;
    type Reply<'a> = Writer<'a>;
    type Fields<'a> = FieldList;

    async fn receive(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        listener: &ListenerPlan,
    ) -> Result<(), Ended> {
        let head = self.world.head.as_bytes();
        match RequestParser::new().parse(&mut exchange.request, head, &listener.head_limits) {
            Ok(HeadProgress::Complete { .. }) => {}
            Ok(HeadProgress::Incomplete) => return Err(Ended::Closed),
            Err(rule) => return Err(Failure::client(Phase::Request, Cause::Rule(rule)).into()),
        }
        exchange.request_text.extend_from_slice(head);
        client.now = clock::now();
        exchange.record.began = client.now;
        Ok(())
    }

    fn begin_body(&mut self, _client: &Client, _exchange: &Exchange, _listener: &ListenerPlan) {}

    fn body<'a>(&'a mut self, _client: &'a Client) -> Reader<'a> {
        Reader { arriving: &self.world.body, reading: &mut self.reading }
    }

    fn body_announced(&self) -> Option<u64> {
        Some(self.world.body.bytes.len() as u64)
    }

    fn limit_body(&mut self, bytes_max: u64) {
        self.reading.limit(bytes_max);
    }

    fn reply(&mut self) -> Writer<'_> {
        Writer { receiving: &self.world.reply, sending: &mut self.reply }
    }

    fn interim(&mut self, _exchange: &Exchange, status: Status<'_>, fields: impl FnOnce(&mut FieldList)) {
        let mut list = FieldList::default();
        fields(&mut list);
        assert!((100..200).contains(&status.code) && status.code != 101, "only 1xx are interim");
        self.world.statuses.borrow_mut().push(status.code);
        let mut head = status_line(status);
        list.write_lines(&mut head);
        head.extend_from_slice(b"\r\n");
        self.reply.stage(&head);
    }

    fn respond(
        &mut self,
        _client: &Client,
        exchange: &Exchange,
        response: &FinalHead<'_>,
        fields: impl FnOnce(&mut FieldList),
    ) {
        assert_eq!(
            matches!(response.content, Content::Tunnel),
            response.status.code == 101,
            "only a switch has a tunnel"
        );
        assert!(exchange.request.method() != Method::Connect, "nothing asks for that here");
        let mut list = FieldList::default();
        fields(&mut list);
        let mut statuses = self.world.statuses.borrow_mut();
        assert!(statuses.last().is_none_or(|last| is_interim(*last)), "a client gets one final response");
        statuses.push(response.status.code);
        let mut head = status_line(response.status);
        list.write_lines(&mut head);
        match response.content {
            Content::Tunnel => {
                head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
                self.reply.begin_tunnel();
            }
            Content::Body(framing, announced) => {
                head.extend(framing_line(framing, announced).bytes());
                self.reply.begin_body(framing);
            }
        }
        head.extend_from_slice(b"\r\n");
        self.reply.stage(&head);
    }

    fn take_back(&mut self) -> bool {
        let is_taken = self.reply.take_back();
        if is_taken {
            // Those of interim responses are taken back with it.
            self.world.statuses.borrow_mut().clear();
        }
        is_taken
    }

    fn close_after(&mut self) {
        self.closes = true;
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        self.poll_left(cx)
    }
}
