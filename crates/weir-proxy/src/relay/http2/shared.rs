//! What the task of a connection and the tasks of its streams share, on the side of clients and on that of servers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_http::h2::{self, ConnectionFault, ErrorCode, HpackDecoder, HpackEncoder, Role};
use weir_http::{ChunkedLimits, HeadLimits, Priority};
use weir_observe::Cause;

use super::growth::Growth;
use super::inbox::{ReceivedHead, ReceivedTrailers};
use super::output::Output;
use super::schedule::Schedule;

/// The payload of the ping that measures a round trip.
pub(crate) const MEASURE: [u8; 8] = *b"measure!";

/// The side that a connection is on.
pub(crate) trait ConnectionSide: Sized + 'static {
    /// What Weir is on a connection of this side.
    const ROLE: Role;

    /// Why a stream ends whose task drops it.
    const DROPPED: ErrorCode;

    /// The head of a message that is received.
    type Head: Default;

    /// What is received on a stream beside the body and the trailers.
    type Inbox;

    /// What a connection keeps of its own.
    type State;

    /// What does not change as long as a connection lives.
    type Facts;

    /// The head of a message has come.
    ///
    /// # Errors
    /// The fault that ends the connection.
    fn head(
        state: &mut Http2State<Self>,
        stream: u32,
        block: &[u8],
        ends_stream: bool,
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault>;

    /// Part of a body has come, or its end.
    ///
    /// # Errors
    /// The fault that ends the connection.
    #[inline(always)]
    fn data(
        state: &mut Http2State<Self>,
        stream: u32,
        data: &[u8],
        ends_stream: bool,
    ) -> Result<(), ConnectionFault> {
        state.data(stream, data, ends_stream);
        Ok(())
    }

    /// The peer has reset a stream.
    fn reset(state: &mut Http2State<Self>, stream: u32, code: ErrorCode);

    /// A stream was refused, since the peer has as many as it may.
    fn refused(_state: &mut Http2State<Self>) {}

    /// The peer takes no streams beyond `last_stream`, for the reason that `code` states.
    fn go_away(_state: &mut Http2State<Self>, _last_stream: u32, _code: ErrorCode) {}

    /// The peer has answered a ping of this side.
    fn pong(_state: &mut Http2State<Self>, _payload: [u8; 8]) {}
}

/// The limits of messages that are received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageLimits<'a> {
    pub(crate) head: &'a HeadLimits,
    pub(crate) trailers: &'a ChunkedLimits,
}

/// One connection, as its streams see it.
pub(crate) struct SharedConnection<S: ConnectionSide> {
    pub(crate) state: RefCell<Http2State<S>>,
    pub(crate) facts: S::Facts,
}

/// The state of a connection.
pub(crate) struct Http2State<S: ConnectionSide> {
    pub(crate) codec: h2::ConnectionCodec,
    pub(crate) decoder: HpackDecoder,
    pub(crate) encoder: HpackEncoder,
    pub(super) output: Output,
    pub(super) schedule: Schedule,
    /// The streams whose exchange is not over, in the order of their numbers.
    pub(crate) streams: Vec<Rc<StreamShared<S>>>,
    /// Memory for heads, as long as the connection is busy.
    pub(crate) heads: Vec<Box<ReceivedHead<S::Head>>>,
    /// Bytes of bodies that all streams have appended to the output.
    pub(crate) body_bytes_sent: u64,
    /// What a stream has found out that ends the connection.
    pub(crate) fault: Option<ConnectionFault>,
    /// The time of the present turn since the beginning of the connection.
    pub(crate) now: Duration,
    pub(super) growth: Growth,
    /// Whether there is memory for larger windows.
    pub(crate) may_grow: bool,
    /// Whether nothing reaches the peer any more.
    pub(crate) is_closed: bool,
    /// What this side keeps.
    pub(crate) side: S::State,
    /// The task of the connection.
    task: Option<Waker>,
    is_woken: bool,
}

/// From the task of a connection to that of a stream.
pub(crate) struct Inbox<S: ConnectionSide> {
    /// Heads, as this side has them.
    pub(crate) side: S::Inbox,
    /// Bytes of the body.
    pub(crate) body: Vec<u8>,
    /// Whether nothing follows.
    pub(crate) has_ended: bool,
    pub(crate) trailers: Option<Box<ReceivedTrailers>>,
}

/// One stream, as its connection sees it.
pub(crate) struct StreamShared<S: ConnectionSide> {
    pub(crate) id: u32,
    pub(crate) inbox: RefCell<Inbox<S>>,
    pub(crate) priority: Cell<Priority>,
    /// Why the peer does not want any more of it, or cannot get it.
    pub(crate) gone: Cell<Option<Cause>>,
    /// Room in the output that is its own.
    pub(crate) given: Cell<usize>,
    /// Whether it waits for its window to open.
    pub(crate) awaits_window: Cell<bool>,
    /// Bytes of bodies that the connection had sent when the stream last waited for its turn, or for nothing.
    pub(crate) taken_by_turn: Cell<u64>,
    /// The task that has waited for it last: whatever polls the stream may be handed on to another one.
    task: RefCell<Option<Waker>>,
}

impl<S: ConnectionSide> StreamShared<S> {
    pub(crate) fn new(id: u32, side: S::Inbox, has_ended: bool, priority: Priority) -> Rc<Self> {
        let inbox = Inbox { side, body: Vec::new(), has_ended, trailers: None };
        Rc::new(Self {
            id,
            inbox: RefCell::new(inbox),
            priority: Cell::new(priority),
            gone: Cell::new(None),
            given: Cell::new(0),
            awaits_window: Cell::new(false),
            taken_by_turn: Cell::new(0),
            task: RefCell::default(),
        })
    }

    pub(crate) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// The task of `cx` is woken by news of the stream from now on, and no other.
    pub(crate) fn watch(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
    }

    /// What each poll of the stream gives that has to wait for news of it.
    pub(crate) fn pending<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.watch(cx);
        Poll::Pending
    }

    /// The peer does not want any more of it, or cannot get it. The first cause counts.
    pub(crate) fn leave(&self, cause: Cause) {
        if self.gone.get().is_none() {
            self.gone.set(Some(cause));
            self.wake();
        }
    }
}

impl<S: ConnectionSide> Http2State<S> {
    pub(crate) fn new(codec: h2::ConnectionCodec, output: Vec<u8>, side: S::State) -> Self {
        Self {
            codec,
            decoder: HpackDecoder::new(),
            encoder: HpackEncoder::default(),
            output: Output::holding(output),
            schedule: Schedule::default(),
            streams: Vec::new(),
            heads: Vec::new(),
            body_bytes_sent: 0,
            fault: None,
            now: Duration::ZERO,
            growth: Growth::new(),
            may_grow: true,
            is_closed: false,
            side,
            task: None,
            is_woken: false,
        }
    }

    /// A turn of the task of the connection begins.
    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>, now: Duration) {
        self.is_woken = false;
        self.now = now;
        if self.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
    }

    /// Wakes the task of the connection: there is something to write, or a stream is over.
    pub(crate) fn wake(&mut self) {
        if !std::mem::replace(&mut self.is_woken, true)
            && let Some(task) = &self.task
        {
            task.wake_by_ref();
        }
    }

    /// The time of the present turn in milliseconds.
    pub(crate) fn millis(&self) -> u64 {
        u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes of a body were passed on: the peer may send as many more.
    pub(crate) fn consumed(&mut self, id: u32, len: usize) {
        if self.is_closed {
            return;
        }
        let before = self.output.bytes.len();
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        if self.codec.consumed(id, len, &mut self.output.bytes) && self.may_grow {
            self.codec.grow_window(id, self.growth.window(), &mut self.output.bytes);
            if self.growth.begin(self.now) {
                self.codec.ping(MEASURE, &mut self.output.bytes);
            }
        }
        if self.output.bytes.len() > before {
            self.wake();
        }
    }

    /// A round trip is over that was measured.
    pub(crate) fn measured(&mut self) {
        if self.growth.end(self.now) && self.may_grow {
            self.codec.grow_connection_window(self.growth.connection_window(), &mut self.output.bytes);
        }
    }

    /// Opens the next stream, if the peer lets us.
    pub(crate) fn open_stream(&mut self, inbox: S::Inbox, priority: Priority) -> Option<Rc<StreamShared<S>>> {
        if self.is_closed || !self.codec.can_open() {
            return None;
        }
        let stream = StreamShared::new(self.codec.open_stream(), inbox, false, priority);
        self.streams.push(Rc::clone(&stream));
        Some(stream)
    }

    /// Takes the last stream back that was opened, of which nothing was sent.
    pub(super) fn abandon(&mut self, stream: &StreamShared<S>) {
        if let Some(at) = self.position(stream.id) {
            self.streams.remove(at);
            self.codec.abandon_stream(stream.id);
        }
        self.wake();
    }

    pub(crate) fn stream(&self, id: u32) -> Option<&Rc<StreamShared<S>>> {
        Some(&self.streams[self.position(id)?])
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// How many bytes of body a stream may append now.
    pub(crate) fn allowance(&self, stream: &StreamShared<S>) -> usize {
        match stream.given.get() {
            0 if self.schedule.is_empty() => self.room().saturating_sub(self.schedule.given()),
            0 => 0,
            given => given.min(self.room()),
        }
    }

    /// How many bytes of body all streams together may append now.
    fn room(&self) -> usize {
        self.output.room().min(self.codec.room())
    }

    /// A stream wants to append more than it may: it is woken when it may.
    pub(crate) fn wait_for_room(&mut self, stream: &StreamShared<S>) {
        self.settle(stream);
        let has_window = self.codec.stream_room(stream.id) > 0;
        stream.awaits_window.set(!has_window);
        if has_window {
            self.schedule.wait(stream.id, stream.priority.get());
        } else {
            self.schedule.leave(stream.id);
        }
    }

    /// A stream needs no more room for now.
    pub(crate) fn settle(&mut self, stream: &StreamShared<S>) {
        self.schedule.settle(stream.given.take());
    }

    /// Gives the room there is to the streams that wait for it.
    pub(crate) fn give_room(&mut self) {
        if self.schedule.is_empty() {
            return;
        }
        while let Some((id, given)) = self.schedule.give(self.room()) {
            match self.stream(id) {
                Some(stream) => {
                    stream.given.set(stream.given.get() + given);
                    stream.wake();
                }
                None => self.schedule.settle(given),
            }
        }
    }

    /// Resets a stream for a reason of our own.
    pub(crate) fn reset(&mut self, id: u32, code: ErrorCode, cause: Cause) {
        self.codec.reset(id, code, &mut self.output.bytes);
        self.leave(id, cause);
        self.wake();
    }

    /// The exchange of a stream is over: nothing of it stays.
    pub(crate) fn release(&mut self, stream: &StreamShared<S>, code: ErrorCode) {
        self.settle(stream);
        self.schedule.leave(stream.id);
        if !self.is_closed {
            let end = self.output.bytes.len();
            self.codec.release(stream.id, code, &mut self.output.bytes);
            // Clients must not discard a response because of this reset (RFC 9113 section 8.1), yet curl 7.88 does when it reads both at once.
            if code == ErrorCode::NO_ERROR && self.output.bytes.len() > end {
                self.output.put_boundary(end);
            }
        }
        if let Some(at) = self.position(stream.id) {
            self.streams.remove(at);
        }
        self.wake();
    }

    /// Nothing reaches the peer any more.
    pub(crate) fn close(&mut self, cause: Cause) {
        self.is_closed = true;
        self.output.discard();
        self.leave_all(cause);
    }

    /// All streams end here.
    pub(crate) fn leave_all(&self, cause: Cause) {
        for stream in &self.streams {
            stream.leave(cause);
        }
    }
}
