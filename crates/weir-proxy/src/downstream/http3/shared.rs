//! What a connection and its streams share.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::{ReadError, StreamId, VarInt, WriteError};
use weir_http::h3::{Http3Code, Http3Connection, Http3Fault};
use weir_http::{Priority, RequestHead};
use weir_observe::Cause;

use crate::downstream::transport::TransportFacts;
use crate::net::clock::{self, Instant};
use crate::net::quic::link::QuicLink;
use crate::relay::http2::inbox::ReceivedHead;

/// Bytes that are read of a stream at once at most.
const READ_MAX: usize = 64 * 1024;

/// What counts as read when a stream is given up: pieces of it may be there that nobody reads.
const STOPPED_BYTES: usize = 256;
/// How long a client has to read what was written before a stream is reset, beside a round trip; and how long that is taken for at most.
const CUT_TIME: Duration = Duration::from_millis(20);
const CUT_TIME_MAX: Duration = Duration::from_secs(1);

/// A connection, as its streams see it.
pub(super) struct Http3Shared {
    pub(super) link: Rc<QuicLink>,
    pub(super) facts: TransportFacts,
    pub(super) state: RefCell<Http3State>,
    pub(super) opened_at: Instant,
    /// When the connection had its last turn.
    pub(super) turn_at: Cell<Instant>,
    /// Whether no further streams are taken.
    pub(super) is_ending: Cell<bool>,
}

/// What changes with its streams.
pub(super) struct Http3State {
    pub(super) codec: Http3Connection,
    /// Streams whose exchange is not over.
    pub(super) streams: OpenStreams,
    /// What streams that are over have left unsent.
    pub(super) leavings: HashMap<StreamId, Vec<u8>>,
    /// Streams whose response has broken off, until they are reset.
    pub(super) cuts: Vec<CutStream>,
    /// Streams that were ended by us, and of which the client has not acknowledged everything.
    pub(super) unacknowledged: usize,
    /// Heads for the next requests.
    #[expect(clippy::vec_box, reason = "they are handed over, and come back")]
    pub(super) heads: Vec<Box<ReceivedHead<RequestHead>>>,
    /// A fault of the connection that a stream has found.
    pub(super) fault: Option<Http3Fault>,
    /// Streams that we have reset, or refused, since that was last counted.
    pub(super) resets_sent: u64,
}

/// Streams by their IDs, which clients count up: as hashes they differ where it matters.
pub(super) type OpenStreams = HashMap<StreamId, Rc<Http3StreamShared>, BuildHasherDefault<StreamIdHasher>>;

/// Spreads the ID of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamIdHasher(u64);

impl Hasher for StreamIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        // Of the golden ratio: neighbours come to lie far from one another, in the low bits and in the high ones.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A stream whose response has broken off.
pub(super) struct CutStream {
    pub(super) id: StreamId,
    /// When it is reset.
    pub(super) at: Instant,
    code: Http3Code,
}

/// What a stream and its connection share.
pub(super) struct Http3StreamShared {
    /// Why the client does not want the response any more, or cannot get it.
    pub(super) gone: Cell<Option<Cause>>,
    waker: RefCell<Option<Waker>>,
}

/// What was read of a stream.
pub(super) struct ReadChunk {
    pub(super) bytes: Bytes,
    /// Whether the stream ends behind it.
    pub(super) is_last: bool,
}

/// Reads a stream, one chunk ahead: so that the end is known with the last bytes.
#[derive(Debug, Default)]
pub(super) struct StreamReader {
    ahead: Option<Bytes>,
    has_ended: bool,
}

/// Why a stream gives nothing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// More is to come.
    Blocked,
    /// The client has given it up.
    Reset,
    /// Everything was read.
    Ended,
}

impl Http3StreamShared {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self { gone: Cell::new(None), waker: RefCell::default() })
    }

    /// The task of `cx` has the stream from now on.
    pub(super) fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Waits for news.
    pub(super) fn pending<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.watch(cx);
        Poll::Pending
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The client does not get the rest.
    pub(super) fn leave(&self, cause: Cause) {
        if self.gone.get().is_none() {
            self.gone.set(Some(cause));
            self.wake();
        }
    }
}

impl StreamReader {
    /// The next bytes. An empty chunk is the end alone.
    pub(super) fn read(&mut self, link: &QuicLink, id: StreamId) -> Result<ReadChunk, Unread> {
        if self.has_ended && self.ahead.is_none() {
            return Err(Unread::Ended);
        }
        let (read, has_news) = link.with(|connection| {
            let mut stream = connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else {
                return (Err(Unread::Reset), false);
            };
            let mut next = || chunks.next(READ_MAX).map(|chunk| chunk.map(|chunk| chunk.bytes));
            let first = match self.ahead.take() {
                Some(ahead) => Ok(Some(ahead)),
                None => next(),
            };
            let read = match first {
                Ok(Some(bytes)) => match next() {
                    Ok(Some(ahead)) => {
                        self.ahead = Some(ahead);
                        Ok(ReadChunk { bytes, is_last: false })
                    }
                    Ok(None) => Ok(ReadChunk { bytes, is_last: true }),
                    // What comes behind the bytes shows when they are taken.
                    Err(_) => Ok(ReadChunk { bytes, is_last: false }),
                },
                Ok(None) => Ok(ReadChunk { bytes: Bytes::new(), is_last: true }),
                Err(ReadError::Blocked) => Err(Unread::Blocked),
                Err(ReadError::Reset(_)) => Err(Unread::Reset),
            };
            (read, chunks.finalize().should_transmit())
        });
        if has_news {
            link.wake();
        }
        if let Ok(chunk) = &read {
            link.note_read(chunk.bytes.len());
            self.has_ended |= chunk.is_last;
        }
        read
    }

    /// Wants nothing more of the stream.
    pub(super) fn stop(&mut self, link: &QuicLink, id: StreamId, code: Http3Code) {
        if !self.has_ended {
            self.has_ended = true;
            self.ahead = None;
            link.note_read(STOPPED_BYTES);
            link.with(|connection| {
                let _over = connection.recv_stream(id).stop(var(code.0));
            });
        }
    }
}

impl Http3Shared {
    /// Milliseconds from the opening of the connection to its last turn.
    pub(super) fn turn_millis(&self) -> u64 {
        self.turn_at.get().nanos_since(self.opened_at) / 1_000_000
    }

    /// Milliseconds since the connection was opened.
    pub(super) fn millis(&self) -> u64 {
        clock::now().nanos_since(self.opened_at) / 1_000_000
    }

    /// Writes what a stream takes now; the rest stays. `None` when the stream takes nothing any more.
    pub(super) fn write(&self, id: StreamId, bytes: &[u8]) -> Option<usize> {
        let mut len = 0;
        let outcome = self.link.with(|connection| {
            let mut stream = connection.send_stream(id);
            // To the end, or until it is blocked: only then does the stream become writable again, should the connection have no room.
            while len < bytes.len() {
                len += stream.write(&bytes[len..])?;
            }
            Ok(())
        });
        if len > 0 {
            self.link.wake();
        }
        match outcome {
            Ok(()) | Err(WriteError::Blocked) => Some(len),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => None,
        }
    }

    /// Ends our direction of a stream.
    pub(super) fn end(&self, id: StreamId) {
        let ended = self.link.with(|connection| connection.send_stream(id).finish());
        if ended.is_ok() {
            self.state.borrow_mut().unacknowledged += 1;
            self.link.wake();
        }
    }

    /// Sends a stream before others, or behind them, as its client asks (RFC 9218): within one urgency by turns.
    pub(super) fn prefer(&self, id: StreamId, priority: Priority) {
        let urgency = i32::from(priority.urgency);
        self.link.with(|connection| {
            let _over = connection.send_stream(id).set_priority(-urgency);
        });
    }

    /// The client has sent a message that is malformed.
    pub(super) fn charge_fault(&self) {
        let (now, state) = (self.millis(), &mut *self.state.borrow_mut());
        state.fault = state.fault.or(state.codec.budgets.charge_fault(now).err());
    }

    /// Gives our direction of a stream up once the client has had time to read what was written: it may drop that with the reset, whatever came
    /// before (RFC 9000 section 3.2).
    pub(super) fn cut(&self, id: StreamId, code: Http3Code) {
        let rtt = self.link.with(|connection| connection.rtt());
        let at = clock::now() + rtt.min(CUT_TIME_MAX) + CUT_TIME;
        self.state.borrow_mut().cuts.push(CutStream { id, at, code });
        self.link.wake();
    }

    /// Resets the streams whose time has come.
    pub(super) fn reset_cut(&self) {
        if self.state.borrow().cuts.is_empty() {
            return;
        }
        let now = self.turn_at.get();
        let mut cuts = std::mem::take(&mut self.state.borrow_mut().cuts);
        cuts.retain(|cut| {
            let waits = cut.at > now;
            if !waits {
                self.reset(cut.id, cut.code);
            }
            waits
        });
        self.state.borrow_mut().cuts = cuts;
    }

    /// Gives our direction of a stream up.
    pub(super) fn reset(&self, id: StreamId, code: Http3Code) {
        let reset = self.link.with(|connection| connection.send_stream(id).reset(var(code.0)));
        if reset.is_ok() {
            self.state.borrow_mut().resets_sent += 1;
            self.link.wake();
        }
    }
}

impl Http3State {
    /// No stream gets anything any more.
    pub(super) fn leave_all(&self, cause: Cause) {
        self.streams.values().for_each(|stream| stream.leave(cause));
    }
}

pub(super) fn var(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}
