//! Bytes in memory: what a side sends as it arrives, and what a side takes as it has room.
//!
//! What is sent has the form of HTTP/1, so that what was received can be judged as a record of a connection.

use std::cell::{Cell, RefCell};
use std::io::{self, Write as _};
use std::task::{Context, Poll, Waker};

use weir_http::Framing;

use crate::relay::ends::{RelayError, Sink, Source};

/// More is taken directly from the source instead of being copied.
const COPY_MAX: usize = 1024;

/// A body on its way in, of which a part has arrived.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    pub(super) bytes: Vec<u8>,
    arrived: Cell<usize>,
    /// Whether the sender is gone: what has not arrived never will.
    is_cut: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Arriving {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(super) fn arrived(&self) -> usize {
        self.arrived.get()
    }

    pub(super) fn arrive(&self, count: usize) {
        if !self.is_cut.get() {
            self.arrived.set((self.arrived.get() + count).min(self.bytes.len()));
        }
        self.wake();
    }

    pub(super) fn cut(&self) {
        self.is_cut.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// How far a body has been read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    taken: usize,
    decoded: usize,
    bytes_max: Option<u64>,
}

impl Reading {
    pub(super) fn decoded(&self) -> u64 {
        self.decoded as u64
    }

    pub(super) fn limit(&mut self, bytes_max: u64) {
        self.bytes_max = Some(bytes_max);
    }
}

/// Reads a body.
pub(super) struct Reader<'a> {
    pub(super) arriving: &'a Arriving,
    pub(super) reading: &'a mut Reading,
}

impl Source for Reader<'_> {
    fn data(&self) -> &[u8] {
        &self.arriving.bytes[self.reading.taken..self.reading.decoded]
    }

    fn take(&mut self, len: usize) {
        self.reading.taken += len;
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        self.reading.decoded = self.arriving.arrived.get();
        match self.reading.bytes_max {
            Some(max) if self.reading.decoded as u64 > max => Err(RelayError::TooLarge),
            _ => Ok(0),
        }
    }

    fn is_finished(&self) -> bool {
        self.reading.taken == self.arriving.bytes.len()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if self.arriving.arrived.get() > self.reading.decoded {
            return Poll::Ready(Ok(()));
        }
        if self.arriving.is_cut.get() {
            return Poll::Ready(Err(RelayError::Truncated));
        }
        self.arriving.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

/// The side that receives: how much it takes, and what it has got.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// Every byte, heads and framing included.
    pub(super) got: RefCell<Vec<u8>>,
    room: Cell<usize>,
    is_gone: Cell<bool>,
    /// Whether the end of the message has arrived.
    is_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Receiving {
    pub(super) fn make_room(&self, count: usize) {
        self.room.set(self.room.get().saturating_add(count));
        self.wake();
    }

    pub(super) fn leave(&self) {
        self.is_gone.set(true);
        self.wake();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.get()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What waits to be sent.
#[derive(Debug, Default)]
pub(super) struct Sending {
    staged: Vec<u8>,
    direct: usize,
    is_chunked: bool,
    is_ended: bool,
    pub(super) sent: u64,
}

impl Sending {
    /// Adds a head; those of interim responses come before that of the message.
    pub(super) fn stage(&mut self, head: &[u8]) {
        self.staged.extend_from_slice(head);
    }

    /// The head is staged, and says this of what follows.
    pub(super) fn begin_body(&mut self, framing: Framing) {
        self.is_chunked = framing.length().is_none();
    }

    /// A tunnel follows the head.
    pub(super) fn begin_tunnel(&mut self) {
        self.is_chunked = false;
    }

    fn end_chunk(&mut self) {
        if self.is_chunked {
            self.staged.extend_from_slice(b"\r\n");
        }
    }

    /// Forgets what is staged, if nothing was sent.
    pub(super) fn take_back(&mut self) -> bool {
        let is_untouched = self.sent == 0;
        if is_untouched {
            *self = Self::default();
        }
        is_untouched
    }
}

/// Sends a message.
pub(super) struct Writer<'a> {
    pub(super) receiving: &'a Receiving,
    pub(super) sending: &'a mut Sending,
}

impl Writer<'_> {
    fn note_end(&self) {
        if self.sending.is_ended && !self.is_waiting() {
            self.receiving.is_ended.set(true);
        }
    }
}

impl Sink for Writer<'_> {
    fn has_room(&self) -> bool {
        self.sending.direct == 0 && self.sending.staged.len() < 2 * COPY_MAX
    }

    fn is_waiting(&self) -> bool {
        !self.sending.staged.is_empty() || self.sending.direct > 0
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.sending.is_chunked {
            write!(self.sending.staged, "{:x}\r\n", data.len()).expect("memory takes everything");
        }
        if data.len() <= COPY_MAX {
            self.sending.staged.extend_from_slice(data);
            self.sending.end_chunk();
            return data.len();
        }
        self.sending.direct = data.len();
        0
    }

    fn finish(&mut self, _source: &impl Source) {
        if self.sending.is_chunked {
            self.sending.staged.extend_from_slice(b"0\r\n\r\n");
        }
        self.sending.is_ended = true;
        self.note_end();
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        if self.receiving.is_gone.get() {
            return Poll::Ready(Err(RelayError::Write(io::ErrorKind::ConnectionReset.into())));
        }
        let room = self.receiving.room.get();
        if room == 0 {
            self.receiving.waker.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let staged = room.min(self.sending.staged.len());
        let mut got = self.receiving.got.borrow_mut();
        got.extend(self.sending.staged.drain(..staged));
        let direct = (room - staged).min(self.sending.direct);
        got.extend_from_slice(&data[..direct]);
        drop(got);
        self.sending.direct -= direct;
        if direct > 0 && self.sending.direct == 0 {
            self.sending.end_chunk();
        }
        self.receiving.room.set(room - staged - direct);
        self.sending.sent += (staged + direct) as u64;
        self.note_end();
        Poll::Ready(Ok(direct))
    }
}
