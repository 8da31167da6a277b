//! What the task of a connection and the tasks of its streams share.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use weir_http::Priority;
use weir_http::h2::{self, ConnectionFault, ErrorCode, HpackDecoder, HpackEncoder};
use weir_observe::Cause;

use super::growth::Growth;
use super::inbox::{Inbox, ReceivedHead};
use super::output::Output;
use super::schedule::Schedule;
use crate::net::tls::facts::OwnedTlsFacts;

/// The payload of the ping behind the first GOAWAY.
pub(super) const GOODBYE: [u8; 8] = *b"goodbye!";

/// The payload of the ping that measures a round trip.
pub(super) const MEASURE: [u8; 8] = *b"measure!";

/// One connection, as its streams see it.
pub(super) struct SharedConnection {
    pub(super) state: RefCell<Http2State>,
    pub(super) tls: Option<OwnedTlsFacts>,
    pub(super) local_address: Option<SocketAddr>,
}

/// The state of a connection.
pub(super) struct Http2State {
    pub(super) codec: h2::ConnectionCodec,
    pub(super) decoder: HpackDecoder,
    pub(super) encoder: HpackEncoder,
    pub(super) output: Output,
    pub(super) schedule: Schedule,
    /// The streams whose exchange is not over, in the order of their numbers.
    pub(super) streams: Vec<Rc<StreamShared>>,
    /// Memory for heads, as long as the connection is busy.
    #[expect(clippy::vec_box, reason = "they are handed over to streams, and come back")]
    pub(super) heads: Vec<Box<ReceivedHead>>,
    /// Bytes of bodies that all streams have appended to the output.
    pub(super) body_bytes_sent: u64,
    /// What a stream has found out that ends the connection.
    pub(super) fault: Option<ConnectionFault>,
    /// The time of the present turn since the beginning of the connection.
    pub(super) now: Duration,
    pub(super) growth: Growth,
    /// Whether there is memory for larger windows.
    pub(super) may_grow: bool,
    /// Whether the client was told that no further streams are taken.
    pub(super) is_ending: bool,
    /// Whether the client knows it.
    pub(super) is_told: bool,
    /// Whether nothing reaches the client any more.
    pub(super) is_closed: bool,
    /// Streams that the client has reset, and such that were refused, since that was last counted.
    pub(super) reset_count: u64,
    pub(super) refused_count: u64,
    /// The task of the connection.
    task: Option<Waker>,
    is_woken: bool,
}

/// One stream, as its connection sees it.
pub(super) struct StreamShared {
    pub(super) id: u32,
    pub(super) inbox: RefCell<Inbox>,
    pub(super) priority: Cell<Priority>,
    /// Why the client does not want the response any more, or cannot get it.
    pub(super) gone: Cell<Option<Cause>>,
    /// Room in the output that is its own.
    pub(super) given: Cell<usize>,
    /// Whether it waits for its window to open.
    pub(super) awaits_window: Cell<bool>,
    /// Bytes of bodies that the connection had sent when the stream last waited for its turn, or for nothing.
    pub(super) taken_by_turn: Cell<u64>,
    /// The task of the stream, once it runs.
    pub(super) task: OnceCell<Waker>,
}

impl StreamShared {
    pub(super) fn new(id: u32, inbox: Inbox, priority: Priority) -> Rc<Self> {
        Rc::new(Self {
            id,
            inbox: RefCell::new(inbox),
            priority: Cell::new(priority),
            gone: Cell::new(None),
            given: Cell::new(0),
            awaits_window: Cell::new(false),
            taken_by_turn: Cell::new(0),
            task: OnceCell::new(),
        })
    }

    pub(super) fn wake(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// The client does not want the response any more, or cannot get it. The first cause counts.
    pub(super) fn leave(&self, cause: Cause) {
        if self.gone.get().is_none() {
            self.gone.set(Some(cause));
            self.wake();
        }
    }
}

impl Http2State {
    pub(super) fn new(codec: h2::ConnectionCodec, output: Vec<u8>) -> Self {
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
            is_ending: false,
            is_told: false,
            is_closed: false,
            reset_count: 0,
            refused_count: 0,
            task: None,
            is_woken: false,
        }
    }

    /// A turn of the task of the connection begins.
    pub(super) fn begin_turn(&mut self, cx: &Context<'_>, now: Duration) {
        self.is_woken = false;
        self.now = now;
        if self.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
    }

    /// Wakes the task of the connection: there is something to write, or a stream is over.
    pub(super) fn wake(&mut self) {
        if !std::mem::replace(&mut self.is_woken, true)
            && let Some(task) = &self.task
        {
            task.wake_by_ref();
        }
    }

    /// The time of the present turn in milliseconds.
    pub(super) fn millis(&self) -> u64 {
        u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes of a body were passed on: the client may send as many more.
    pub(super) fn consumed(&mut self, id: u32, len: usize) {
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
    pub(super) fn measured(&mut self) {
        if self.growth.end(self.now) && self.may_grow {
            self.codec.grow_connection_window(self.growth.connection_window(), &mut self.output.bytes);
        }
    }

    pub(super) fn stream(&self, id: u32) -> Option<&Rc<StreamShared>> {
        Some(&self.streams[self.position(id)?])
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// How many bytes of body a stream may append now.
    pub(super) fn allowance(&self, stream: &StreamShared) -> usize {
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
    pub(super) fn wait_for_room(&mut self, stream: &StreamShared) {
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
    pub(super) fn settle(&mut self, stream: &StreamShared) {
        self.schedule.settle(stream.given.take());
    }

    /// Gives the room there is to the streams that wait for it.
    pub(super) fn give_room(&mut self) {
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

    /// The exchange of a stream is over: nothing of it stays.
    pub(super) fn release(&mut self, stream: &StreamShared, code: ErrorCode) {
        self.settle(stream);
        self.schedule.leave(stream.id);
        if !self.is_closed {
            self.codec.release(stream.id, code, &mut self.output.bytes);
        }
        if let Some(at) = self.position(stream.id) {
            self.streams.remove(at);
        }
        self.wake();
    }

    /// Nothing reaches the client any more.
    pub(super) fn close(&mut self, cause: Cause) {
        self.is_closed = true;
        self.output.discard();
        self.leave_all(cause);
    }

    /// No stream gets an answer any more.
    pub(super) fn leave_all(&self, cause: Cause) {
        for stream in &self.streams {
            stream.leave(cause);
        }
    }
}
