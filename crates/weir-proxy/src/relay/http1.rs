//! HTTP/1 framing as [`Source`] and [`Sink`]: length, chunked, and until the connection closes.
//!
//! The state of each direction outlives a poll and lives in the exchange; the borrowing halves join it with a
//! connection for the time of one poll. Bodies are decoded and framed anew, so nothing a peer writes as framing
//! reaches the other side.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use weir_http::http1::{ChunkedDecoder, FieldLines};
use weir_http::{ChunkedLimits, FieldWriter, Framing, digits};

use super::ends::{RelayError, Sink, Source};
use super::message_end::BodyAllowance;
use crate::net::buffer::BufferStock;
use crate::net::connection::Connection;
use crate::net::socket::{Behind, Socket};
use crate::state::routes::stripped_fields::StrippedFields;

/// Data up to this length is copied behind the head, so that both leave in one write without a second slice.
const COPY_MAX: usize = 4 * 1024;

/// What is still to come of a body, as its framing says.
#[derive(Debug)]
enum BodyRemainder {
    Nothing,
    Length(u64),
    Chunks(ChunkedDecoder),
    UntilClose,
}

/// The state of a body on its way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    remainder: BodyRemainder,
    /// Decoded bytes at the front of the input.
    ready: usize,
    /// Framing bytes behind them.
    framing: usize,
    received: u64,
    size_max: u64,
    /// What has decoded a body with trailers.
    trailers: Option<Box<ChunkedDecoder>>,
    /// Trailers that stop here.
    stripped: Option<Arc<StrippedFields>>,
}

impl Incoming {
    /// No body.
    pub(crate) const fn nothing() -> Self {
        let remainder = BodyRemainder::Nothing;
        Self {
            remainder,
            ready: 0,
            framing: 0,
            received: 0,
            size_max: u64::MAX,
            trailers: None,
            stripped: None,
        }
    }

    /// No body from now on.
    #[inline]
    pub(crate) fn begin_nothing(&mut self) {
        self.begin(BodyRemainder::Nothing);
    }

    /// A body of `len` bytes comes next.
    #[inline]
    pub(crate) fn begin_length(&mut self, len: u64) {
        self.begin(if len == 0 { BodyRemainder::Nothing } else { BodyRemainder::Length(len) });
    }

    /// A chunked body comes next. Trailers named in `stripped` are not forwarded.
    pub(crate) fn begin_chunked(&mut self, limits: ChunkedLimits, stripped: Option<&Arc<StrippedFields>>) {
        self.begin(BodyRemainder::Chunks(ChunkedDecoder::new(limits)));
        self.stripped = stripped.map(Arc::clone);
    }

    /// Trailers that are not forwarded, of the body that has begun.
    pub(crate) fn strip_trailers(&mut self, stripped: &Arc<StrippedFields>) {
        self.stripped = Some(Arc::clone(stripped));
    }

    /// A body that the end of the connection ends comes next.
    pub(crate) fn begin_until_close(&mut self) {
        self.begin(BodyRemainder::UntilClose);
    }

    /// Field by field, which takes fewer instructions than replacing the whole.
    #[inline(always)]
    fn begin(&mut self, remainder: BodyRemainder) {
        self.remainder = remainder;
        (self.ready, self.framing, self.received, self.size_max) = (0, 0, 0, u64::MAX);
        (self.trailers, self.stripped) = (None, None);
    }

    /// The length of the body, when its head announced one.
    pub(crate) fn announced(&self) -> Option<u64> {
        match self.remainder {
            BodyRemainder::Length(len) => Some(len),
            _ => None,
        }
    }

    /// Whether nothing is to come behind `received`, by its length or its end. A server that ends a body by closing is expected to close.
    pub(crate) fn seems_whole(&self, received: &[u8]) -> bool {
        match self.remainder {
            BodyRemainder::Nothing | BodyRemainder::UntilClose => true,
            BodyRemainder::Length(len) => len <= received.len() as u64,
            BodyRemainder::Chunks(_) => received.ends_with(b"0\r\n\r\n"),
        }
    }

    /// Whether the whole rest of the body is in `received`, the input of its connection. Chunks that other bytes follow may go unnoticed.
    pub(crate) fn ends_within(&self, received: &[u8]) -> bool {
        let known = (self.ready + self.framing) as u64;
        match self.remainder {
            BodyRemainder::Nothing => true,
            BodyRemainder::Length(left) => known + left <= received.len() as u64,
            BodyRemainder::Chunks(_) => received.ends_with(b"0\r\n\r\n"),
            BodyRemainder::UntilClose => false,
        }
    }

    /// Whether something that is not of this body stands behind it in `received`, the input of its connection.
    pub(crate) fn is_followed_in(&self, received: &[u8]) -> bool {
        let known = self.ready + self.framing;
        match &self.remainder {
            BodyRemainder::Nothing => known < received.len(),
            BodyRemainder::Length(left) => known as u64 + left < received.len() as u64,
            BodyRemainder::Chunks(decoder) => {
                let mut rest = received.get(known..).unwrap_or_default().to_vec();
                let decoded = decoder.clone().decode(&mut rest);
                decoded.is_ok_and(|decoded| decoded.done && decoded.consumed < rest.len())
            }
            BodyRemainder::UntilClose => false,
        }
    }

    /// Refuses a body of more than `bytes_max` bytes as soon as it is noticed.
    pub(crate) fn limit(&mut self, bytes_max: u64) {
        self.size_max = bytes_max;
    }

    /// Whether the whole body was taken.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.remainder, BodyRemainder::Nothing) && self.ready == 0 && self.framing == 0
    }

    /// Body bytes decoded so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }
}

/// A body read from a connection.
pub(crate) struct Reader<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) incoming: &'a mut Incoming,
    pub(crate) stock: &'a Rc<BufferStock>,
}

impl Source for Reader<'_> {
    fn data(&self) -> &[u8] {
        &self.connection.received()[..self.incoming.ready]
    }

    fn take(&mut self, len: usize) {
        self.incoming.ready -= len;
        let mut consumed = len;
        if self.incoming.ready == 0 {
            consumed += std::mem::take(&mut self.incoming.framing);
        }
        self.connection.consume(consumed);
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        let incoming = &mut *self.incoming;
        if incoming.ready > 0 {
            return Ok(0);
        }
        let Some(input) = &mut self.connection.input else { return Ok(0) };
        let mut framing = 0;
        match &mut incoming.remainder {
            BodyRemainder::Nothing => return Ok(0),
            BodyRemainder::Length(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                incoming.ready = len;
                *left -= len as u64;
                if *left == 0 {
                    incoming.remainder = BodyRemainder::Nothing;
                }
            }
            BodyRemainder::UntilClose => incoming.ready = input.len(),
            BodyRemainder::Chunks(decoder) => {
                let decoded = decoder.decode(input.filled_mut()).map_err(RelayError::Broken)?;
                incoming.ready = decoded.data.len();
                framing = decoded.consumed - decoded.data.len();
                incoming.framing = decoded.consumed - decoded.data.end;
                let skipped = if decoded.data.is_empty() {
                    incoming.framing = 0;
                    decoded.consumed
                } else {
                    decoded.data.start
                };
                if decoded.done
                    && let BodyRemainder::Chunks(decoder) =
                        std::mem::replace(&mut incoming.remainder, BodyRemainder::Nothing)
                    && decoder.trailers().next().is_some()
                {
                    incoming.trailers = Some(Box::new(decoder));
                }
                self.connection.consume(skipped);
            }
        }
        incoming.received += incoming.ready as u64;
        if incoming.received > incoming.size_max {
            return Err(RelayError::TooLarge);
        }
        Ok(framing)
    }

    fn is_finished(&self) -> bool {
        self.incoming.is_finished()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        let len = ready!(self.connection.poll_fill(cx, self.stock)).map_err(RelayError::Read)?;
        if len > 0 {
            return Poll::Ready(Ok(()));
        }
        match self.incoming.remainder {
            BodyRemainder::UntilClose => self.incoming.remainder = BodyRemainder::Nothing,
            _ => return Poll::Ready(Err(RelayError::Truncated)),
        }
        Poll::Ready(Ok(()))
    }

    fn bulk_left(&self) -> u64 {
        match self.incoming.remainder {
            BodyRemainder::Length(left) if self.incoming.ready == 0 => left,
            _ => 0,
        }
    }

    fn bulk(&mut self) -> Option<(&mut Socket, &Rc<BufferStock>)> {
        Some((self.connection.bare_socket()?, self.stock))
    }

    fn skip(&mut self, len: usize) {
        if let BodyRemainder::Length(left) = &mut self.incoming.remainder {
            *left -= len as u64;
            self.incoming.received += len as u64;
            if *left == 0 {
                self.incoming.remainder = BodyRemainder::Nothing;
            }
        }
    }

    fn has_trailers(&self) -> bool {
        self.incoming.trailers.is_some()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        if let Some(decoder) = &self.incoming.trailers {
            for (name, value) in decoder.trailers() {
                if self.incoming.stripped.as_ref().is_none_or(|stripped| !stripped.covers(name)) {
                    out.field(name, value);
                }
            }
        }
    }
}

/// How a body is coded for its transfer (RFC 9112 section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferCoding {
    /// Bytes as they are: their end is given by `Content-Length` or by the close, or there is no body.
    None,
    Chunked,
}

/// In the place of the length of direct data: what was given is not allowed, and nothing more is written.
const NEVER: usize = usize::MAX;

/// What waits to be written on one side: first a head, then a framed body.
#[derive(Debug)]
pub(crate) struct Outgoing {
    coding: TransferCoding,
    /// What the head allows behind it.
    allowance: BodyAllowance,
    /// Copied bytes: the head, chunk sizes, short data.
    pub(crate) staged: Vec<u8>,
    written: usize,
    /// How much of the data that was accepted without copying is still to be written.
    direct: usize,
    /// Framing behind the direct data.
    tail: Vec<u8>,
    /// Bytes written in all, framing included.
    pub(crate) sent: u64,
    /// Whether our direction of the connection ends behind the body.
    pub(crate) closes: bool,
    /// Whether nothing will be added any more.
    ended: bool,
}

impl Outgoing {
    pub(crate) const fn new() -> Self {
        Self {
            coding: TransferCoding::None,
            allowance: BodyAllowance::unbegun(),
            staged: Vec::new(),
            written: 0,
            direct: 0,
            tail: Vec::new(),
            sent: 0,
            closes: false,
            ended: false,
        }
    }

    /// Forgets everything but the memory; memory beyond `kept_max` goes too.
    pub(crate) fn reset(&mut self, kept_max: usize) {
        self.coding = TransferCoding::None;
        self.allowance = BodyAllowance::unbegun();
        self.staged.clear();
        self.staged.shrink_to(kept_max);
        self.written = 0;
        self.direct = 0;
        self.tail.clear();
        self.tail.shrink_to(kept_max);
        self.sent = 0;
        self.closes = false;
        self.ended = false;
    }

    /// A head is staged, behind which the body comes: as the head says it, in this coding.
    #[inline]
    pub(crate) fn begin(&mut self, framing: Framing, coding: TransferCoding) {
        self.coding = coding;
        self.allowance.begin(framing);
    }

    /// Whether the body is in chunks.
    pub(crate) fn is_chunked(&self) -> bool {
        self.coding == TransferCoding::Chunked
    }

    /// Whether nothing waits to be written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.written == self.staged.len() && self.direct == 0 && self.tail.is_empty()
    }

    /// What comes behind the bytes that wait.
    #[inline]
    fn behind(&self) -> Behind {
        if self.ended && self.closes { Behind::Close } else { Behind::Unknown }
    }

    /// Counts `len` bytes as written, where nothing but copied ones waits.
    #[inline]
    fn advance_staged(&mut self, len: usize) {
        self.sent += len as u64;
        self.written += len;
        if self.written == self.staged.len() {
            self.staged.clear();
            self.written = 0;
        }
    }

    /// Counts `len` bytes as written; returns how many of them were direct data.
    fn advance(&mut self, len: usize) -> usize {
        self.sent += len as u64;
        let staged = len.min(self.staged.len() - self.written);
        self.written += staged;
        let direct = (len - staged).min(self.direct);
        self.direct -= direct;
        let tail = len - staged - direct;
        if self.direct == 0 && self.written == self.staged.len() {
            // All copied bytes left: what remains of the tail is the new start.
            self.staged.clear();
            self.staged.extend_from_slice(&self.tail[tail..]);
            self.tail.clear();
            self.written = 0;
        }
        direct
    }
}

/// A body written to a connection.
pub(crate) struct Writer<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) outgoing: &'a mut Outgoing,
}

impl Sink for Writer<'_> {
    fn has_room(&self) -> bool {
        self.outgoing.direct == 0
            && self.outgoing.tail.is_empty()
            && self.outgoing.staged.len() < 2 * COPY_MAX
    }

    fn is_waiting(&self) -> bool {
        !self.outgoing.is_flushed() || self.connection.has_unsent()
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        let outgoing = &mut *self.outgoing;
        if !outgoing.allowance.check(data.len()) {
            outgoing.direct = NEVER;
            return 0;
        }
        outgoing.allowance.count(data.len());
        if outgoing.is_chunked() {
            digits::hexadecimal(&mut outgoing.staged, data.len() as u64);
            outgoing.staged.extend_from_slice(b"\r\n");
        }
        let copied = if data.len() <= COPY_MAX {
            outgoing.staged.extend_from_slice(data);
            data.len()
        } else {
            outgoing.direct = data.len();
            0
        };
        if outgoing.is_chunked() {
            let behind = if copied == 0 { &mut outgoing.tail } else { &mut outgoing.staged };
            behind.extend_from_slice(b"\r\n");
        }
        copied
    }

    fn finish(&mut self, source: &impl Source) {
        let outgoing = &mut *self.outgoing;
        if !outgoing.allowance.end() {
            outgoing.direct = NEVER;
            return;
        }
        if outgoing.is_chunked() {
            let mut out = FieldLines(std::mem::take(&mut outgoing.staged));
            out.lines(b"0\r\n");
            source.write_trailers(&mut out);
            out.lines(b"\r\n");
            outgoing.staged = out.0;
        }
        outgoing.ended = true;
    }

    fn left(&self) -> u64 {
        self.outgoing.allowance.left()
    }

    fn bulk(&mut self) -> Option<&mut Socket> {
        let as_it_is = !self.outgoing.is_chunked() && self.outgoing.is_flushed();
        if as_it_is { self.connection.outlet() } else { None }
    }

    fn count(&mut self, len: usize) {
        self.outgoing.sent += len as u64;
        self.outgoing.allowance.count(len);
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        let outgoing = &mut *self.outgoing;
        if outgoing.allowance.is_violated() {
            return Poll::Ready(Err(RelayError::Framing));
        }
        let (staged, behind) = (&outgoing.staged[outgoing.written..], outgoing.behind());
        // A head, or one with a short body: nearly every write.
        if outgoing.direct == 0
            && outgoing.tail.is_empty()
            && let Some(socket) = self.connection.outlet()
        {
            let written = ready!(socket.poll_write(cx, staged, behind)).map_err(RelayError::Write)?;
            outgoing.advance_staged(written);
            return Poll::Ready(Ok(0));
        }
        let slices = [staged, &data[..outgoing.direct], &outgoing.tail[..]];
        let len = ready!(self.connection.poll_write(cx, slices, behind)).map_err(RelayError::Write)?;
        Poll::Ready(Ok(outgoing.advance(len)))
    }
}
