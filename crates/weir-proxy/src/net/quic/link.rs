//! One connection of QUIC, shared by the task that serves it and its streams.

use std::cell::{Cell, RefCell};
use std::future::{self, Future as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::{Connection, ConnectionEvent, ConnectionHandle, EndpointEvent, Event, Transmit, VarInt};
use tokio::sync::oneshot;
use weir_traffic::limit::ClientKey;

use super::path_guard::PathGuard;
use super::socket::QuicSocket;
use super::trace::{QuicTrace, TracedEnd, TracedStream};
use crate::net::clock::{self, Instant};
use crate::net::timing::timers::Timers;

/// Streams that a client may have open at once at first: each that it may open takes memory, whether it does or not (82 bytes), and most connections have few.
pub(crate) const STREAMS_AT_FIRST: u32 = 16;

/// Bytes that a client may send on all streams of a connection at first, beyond what is read of them.
pub(crate) const FIRST_WINDOW: u32 = 64 * 1024;

/// Bytes of a datagram that are not of streams: header, tag, frames that come along.
const OVERHEAD_BYTES: usize = 64;

/// Sends of one turn: with more to go, another turn follows behind those of other connections.
const SENDS_MAX: usize = 8;

/// Datagrams after which it is looked at what has come in them.
const LOOK_AFTER: u32 = 32;

/// What packets have at least by which a handshake or a path is tried (RFC 9000 sections 8.2.1 and 14.1).
const PACKET_BYTES_MIN: usize = 1_200;

/// For how long an end is seen to; three probe timeouts at most.
const END_TIME: Duration = Duration::from_secs(1);

/// A connection, without what its streams carry.
pub(crate) struct QuicLink {
    socket: Rc<QuicSocket>,
    handle: ConnectionHandle,
    connection: RefCell<Connection>,
    /// The task that serves it.
    waker: RefCell<Option<Waker>>,
    /// A packet that the socket had no room for.
    unsent: RefCell<Option<(Transmit, Vec<u8>)>>,
    paths: RefCell<PathGuard>,
    /// The client, if it had proven its address before the handshake.
    proven: Option<ClientKey>,
    is_handshaking: Cell<bool>,
    /// Whether the client has used an ID that only a packet to its address has told.
    is_reached: Cell<bool>,
    is_drained: Cell<bool>,
    /// Whether the client has been sent the end.
    is_told: Cell<bool>,
    /// Whether the client has ended it, or has not been heard of for too long.
    is_left: Cell<bool>,
    /// Whether a task of its own sees to its end.
    stays: Cell<bool>,
    /// Datagrams that have come since [`QuicLink::has_received_many`] was last true.
    received: Cell<u32>,
    /// Bytes of streams that were read, or that will not be.
    read_bytes: Cell<u64>,
    /// Its number among the connections of the worker.
    number: Cell<u64>,
    /// What an operator wants to be told of it.
    trace: RefCell<Option<Box<QuicTrace>>>,
    is_traced: Cell<bool>,
    /// Bytes that have come since [`QuicLink::set_arrived`], as far as they may be of streams.
    arrived: Cell<u32>,
}

impl QuicLink {
    pub(super) fn new(
        socket: Rc<QuicSocket>,
        handle: ConnectionHandle,
        connection: Connection,
        proven: Option<ClientKey>,
    ) -> Rc<Self> {
        socket.handshakes.borrow_mut().begin(proven);
        let paths = PathGuard::new(connection.remote_address(), clock::now());
        Rc::new(Self {
            socket,
            handle,
            connection: RefCell::new(connection),
            waker: RefCell::default(),
            unsent: RefCell::default(),
            paths: RefCell::new(paths),
            proven,
            is_handshaking: Cell::new(true),
            is_reached: Cell::new(proven.is_some()),
            is_drained: Cell::new(false),
            is_told: Cell::new(false),
            is_left: Cell::new(false),
            stays: Cell::new(false),
            received: Cell::new(0),
            read_bytes: Cell::new(0),
            number: Cell::new(0),
            trace: RefCell::default(),
            is_traced: Cell::new(false),
            arrived: Cell::new(0),
        })
    }

    /// The task of `cx` serves it from now on.
    pub(crate) fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Has its task take a turn.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// A datagram of so many bytes has come for it.
    pub(super) fn take(&self, event: ConnectionEvent, from: SocketAddr, bytes: usize) {
        let path = self.with(|connection| {
            connection.handle_event(event);
            connection.remote_address()
        });
        let has_moved = self.paths.borrow_mut().receive(from, bytes, path, clock::now);
        self.received.update(|count| count.saturating_add(1));
        self.arrived.update(|arrived| arrived.saturating_add(bytes.saturating_sub(OVERHEAD_BYTES) as u32));
        self.wake();
        if has_moved {
            self.validate_path();
        }
    }

    /// The client has moved: it is asked whether it is there before anything else happens. `quinn-proto` is not prepared for a packet of the path
    /// before to be overdue while none of the new one is under way.
    #[cold]
    fn validate_path(&self) {
        self.send(clock::now());
    }

    /// Whether so much has come since this was last so that it is worth a look.
    pub(crate) fn has_received_many(&self) -> bool {
        let is_many = self.received.get() >= LOOK_AFTER;
        if is_many {
            self.received.set(0);
        }
        is_many
    }

    /// Bytes that have come, without those of packets themselves.
    pub(crate) fn arrived(&self) -> u32 {
        self.arrived.get()
    }

    /// Counts on from so many.
    pub(crate) fn set_arrived(&self, bytes: u32) {
        self.arrived.set(bytes);
    }

    /// So many bytes of its streams were read, or will not be.
    pub(crate) fn note_read(&self, bytes: usize) {
        self.read_bytes.update(|read| read + bytes as u64);
    }

    /// The bytes of all that was said of them.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Its number among the connections of the worker.
    pub(crate) fn set_number(&self, number: u64) {
        self.number.set(number);
    }

    /// The same.
    pub(super) fn number(&self) -> u64 {
        self.number.get()
    }

    /// Writes down for a while what happens to it, as connection `name`, and gives that to `done`; not if it is written down already.
    pub(crate) fn begin_trace(&self, name: &str, length: Duration, done: oneshot::Sender<Vec<u8>>) {
        let mut trace = self.trace.borrow_mut();
        if trace.is_none() && !self.is_drained.get() {
            let local = self.local();
            *trace = Some(Box::new(QuicTrace::begin(&self.connection.borrow(), name, local, (length, done))));
            self.is_traced.set(true);
        }
    }

    /// Whether it is written down what happens to it.
    pub(crate) fn is_traced(&self) -> bool {
        self.is_traced.get()
    }

    /// A turn of the connection is over, which has these streams.
    #[cold]
    pub(crate) fn trace_turn(&self, streams: impl Iterator<Item = TracedStream>) {
        let goes_on = self
            .trace
            .borrow_mut()
            .as_mut()
            .is_some_and(|trace| trace.turn(&self.connection.borrow(), clock::now(), streams));
        if !goes_on {
            self.end_trace(None);
        }
    }

    /// That time is over.
    pub(crate) fn end_due_trace(&self) {
        if self.trace.borrow().as_ref().is_some_and(|trace| trace.until <= clock::now()) {
            self.end_trace(None);
        }
    }

    /// Gives what was written down to who has asked for it, with the end of the connection if it is over.
    #[cold]
    pub(crate) fn end_trace(&self, end: Option<TracedEnd<'_>>) {
        self.is_traced.set(false);
        let trace = self.trace.take();
        if let (Some(mut trace), Some(end)) = (trace, end) {
            trace.turn(&self.connection.borrow(), clock::now(), std::iter::empty());
            trace.end(end);
        }
    }

    /// The connection itself. Must not be held over anything that reaches it again.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Connection) -> R) -> R {
        act(&mut self.connection.borrow_mut())
    }

    /// Does what is due by now.
    pub(crate) fn advance(&self, now: Instant) {
        let connection = &mut *self.connection.borrow_mut();
        let at = clock::std(now);
        while connection.poll_timeout().is_some_and(|due| due <= at) {
            connection.handle_timeout(at);
        }
        self.tell(connection);
    }

    /// Takes the news of the connection to its endpoint, and back.
    fn tell(&self, connection: &mut Connection) {
        while let Some(event) = connection.poll_endpoint_events() {
            self.is_drained.set(self.is_drained.get() || event.is_drained());
            self.socket.at(connection.local_ip());
            if let Some(answer) = self.socket.hear(self.handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    /// What has happened to it.
    pub(crate) fn next_event(&self) -> Option<Event> {
        let event = self.connection.borrow_mut().poll();
        if matches!(event, Some(Event::Connected | Event::ConnectionLost { .. })) {
            self.end_handshake();
        }
        event
    }

    /// Whether the client may be one that repeats the packets of another: its handshake is not over.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.is_handshaking.get()
    }

    /// Whether the client is at its address, although its handshake may not be over. Otherwise that may be the address of another.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven.is_some() || !self.is_handshaking()
    }

    pub(super) fn note_reached(&self) {
        self.is_reached.set(true);
    }

    /// Whether packets to the address of the client have reached it: it has used an ID of ours since (RFC 9000 section 8.1).
    pub(crate) fn is_reached(&self) -> bool {
        self.is_reached.get()
    }

    /// Has the client send a packet, even if it has nothing to say.
    pub(crate) fn prompt(&self) {
        self.connection.borrow_mut().ping();
    }

    /// Whether requests of the client are read before its handshake is over (0-RTT).
    pub(crate) fn takes_early_data(&self) -> bool {
        self.is_handshaking() && self.connection.borrow().has_0rtt()
    }

    fn end_handshake(&self) {
        if self.is_handshaking.replace(false) {
            self.socket.handshakes.borrow_mut().end(self.proven);
        }
    }

    /// Sends what may leave now.
    pub(crate) fn send(&self, now: Instant) {
        let mut unsent = self.unsent.borrow_mut();
        if let Some((transmit, bytes)) = &*unsent {
            if !self.socket.send(transmit, bytes) {
                return self.wait_for_room();
            }
            *unsent = None;
        }
        let connection = &mut *self.connection.borrow_mut();
        let mut scratch = self.socket.scratch.borrow_mut();
        let segments_max = self.socket.segments_max(connection.current_mtu());
        for _ in 0..SENDS_MAX {
            scratch.clear();
            let Some(transmit) = connection.poll_transmit(clock::std(now), segments_max, &mut scratch) else {
                return self.tell(connection);
            };
            if !self.paths.borrow_mut().may_send(transmit.destination, transmit.size, now) {
                // It is lost, as packets may be.
                continue;
            }
            // The first packet of a connection that is over says so.
            self.is_told.set(connection.is_closed());
            if !self.socket.send(&transmit, &scratch) {
                *unsent = Some((transmit, std::mem::take(&mut *scratch)));
                self.wait_for_room();
                return self.tell(connection);
            }
            // Whatever had to go is in a datagram that is not full, once there are no other kinds of packets that are sent by themselves.
            let is_all = transmit.segment_size.is_none() && transmit.size < PACKET_BYTES_MIN;
            if is_all && segments_max > 1 && !connection.is_handshaking() {
                return self.tell(connection);
            }
        }
        self.tell(connection);
        self.wake();
    }

    fn wait_for_room(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            self.socket.wait_for_room(waker.clone());
        }
    }

    /// Whether a packet waits for room in the socket.
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent.borrow().is_some()
    }

    /// When it needs a turn although nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.connection.borrow_mut().poll_timeout().map(clock::from_std)
    }

    /// Ends it for its client, with a code of the protocol of its streams.
    pub(crate) fn close(&self, code: u64) {
        let now = clock::now();
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let connection = &mut *self.connection.borrow_mut();
        self.is_left.set(connection.is_closed());
        connection.close(clock::std(now), code, Bytes::new());
    }

    /// Sends the end that [`QuicLink::close`] has set: congestion control may hold it up for some time.
    pub(crate) async fn tell_end(&self, timers: &Rc<Timers>) {
        let until = clock::now() + END_TIME;
        let is_told = || self.is_left.get() || self.is_told.get() && !self.is_blocked();
        while !is_told() && self.is_ending_until(until) {
            self.turn(timers, until, |now| {
                self.send(now);
                is_told()
            })
            .await;
        }
    }

    /// Answers what the client has sent before it had the end by the end once more, ever more rarely (RFC 9000 section 10.2.1): as packets of an
    /// unknown connection they would be answered by a reset, which says no reason, and which some clients take for the end that came before it.
    pub(crate) fn stay_for_end(self: &Rc<Self>, timers: &Rc<Timers>) {
        let (link, timers) = (Rc::clone(self), Rc::clone(timers));
        let is_of_use = link.is_told.get() && !link.is_left.get() && !link.is_drained.get();
        if !is_of_use || !link.socket.begin_ending() {
            return;
        }
        link.stays.set(true);
        tokio::task::spawn_local(async move {
            let until = clock::now() + END_TIME;
            let mut answered_at = 1;
            link.received.set(0);
            while link.is_ending_until(until) {
                link.turn(&timers, until, |now| {
                    if link.received.get() >= answered_at {
                        answered_at *= 2;
                        link.send(now);
                    }
                    false
                })
                .await;
            }
            link.stays.set(false);
            link.socket.end_ending();
            link.forget();
        });
    }

    /// Whether the client may not know of the end yet.
    fn is_ending_until(&self, until: Instant) -> bool {
        !self.is_drained.get() && clock::now() < until
    }

    /// Advances with each packet that comes, until `act` says that this is enough, it is drained, or something else is due.
    async fn turn(&self, timers: &Rc<Timers>, until: Instant, mut act: impl FnMut(Instant) -> bool) {
        let length = self.due().unwrap_or(until).min(until).saturating_duration_since(clock::now());
        let mut sleep = pin!(timers.sleep(length));
        future::poll_fn(|cx| {
            let now = clock::now();
            self.watch(cx);
            self.advance(now);
            match act(now) || self.is_drained.get() {
                true => Poll::Ready(()),
                false => sleep.as_mut().poll(cx),
            }
        })
        .await;
    }

    /// The address that the client has connected to.
    pub(crate) fn local(&self) -> SocketAddr {
        let local = self.socket.udp.local();
        let ip = self.connection.borrow().local_ip();
        SocketAddr::new(ip.unwrap_or(local.ip()).to_canonical(), local.port())
    }

    /// Nothing is to be had of it any more.
    pub(crate) fn forget(&self) {
        if self.stays.get() {
            return;
        }
        self.end_handshake();
        self.waker.take();
        self.end_trace(None);
        if !self.is_drained.replace(true) {
            self.socket.hear(self.handle, EndpointEvent::drained());
        }
    }
}
