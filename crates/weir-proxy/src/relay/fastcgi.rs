//! FastCGI framing as [`Source`] and [`Sink`]: bodies in records of one request.
//!
//! What the server writes to its error stream is kept apart, as far as there is room for it. Must not know what becomes of it.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_http::Rule;
use weir_http::fastcgi::{
    ProtocolStatus, RECORD_CONTENT_MAX, RecordDecoder, RecordStep, end_of_stdin, stdin_header,
};

use super::ends::{RelayError, Sink, Source};
use super::message_end::BodyAllowance;
use crate::net::buffer::BufferStock;
use crate::net::connection::Connection;
use crate::net::socket::Behind;

/// Bytes of requests that are gathered before they are written.
const STAGED_MAX: usize = 16 * 1024;

/// Bytes of the error stream that are kept of one response.
pub(crate) const ERRORS_MAX: usize = 4 * 1024;

/// What a server writes to its error stream during one response.
#[derive(Debug, Default)]
pub(crate) struct ErrorOutput {
    pub(crate) bytes: Vec<u8>,
    /// Bytes for which there was no room.
    pub(crate) lost: usize,
}

impl ErrorOutput {
    pub(crate) fn take_in(&mut self, data: &[u8]) {
        let room = ERRORS_MAX - self.bytes.len();
        let kept = data.len().min(room);
        self.bytes.extend_from_slice(&data[..kept]);
        self.lost += data.len() - kept;
    }
}

/// What is still to come of the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLeft {
    /// Whatever comes, up to the end of the request.
    Open,
    /// This many bytes; more are dropped.
    Length(u64),
}

/// How a request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestEnd {
    pub(crate) status: ProtocolStatus,
}

/// The state of a response on its way in.
#[derive(Debug)]
pub(crate) struct RecordInput {
    decoder: RecordDecoder,
    pub(crate) left: OutputLeft,
    /// Body bytes at the front of the input.
    ready: usize,
    pub(crate) errors: ErrorOutput,
    pub(crate) end: Option<RequestEnd>,
    /// What is wrong with what comes next.
    fault: Option<RelayFault>,
}

/// What ends a body before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayFault {
    Truncated,
    Broken(Rule),
}

/// What was found at the front of the input.
pub(crate) enum FoundRecord {
    /// Nothing without more bytes.
    More,
    /// This many bytes of output.
    Output(usize),
    End(RequestEnd),
}

impl RecordInput {
    pub(crate) fn new() -> Self {
        Self {
            decoder: RecordDecoder::new(),
            left: OutputLeft::Open,
            ready: 0,
            errors: ErrorOutput::default(),
            end: None,
            fault: None,
        }
    }

    /// Forgets the response, and what was kept of errors.
    pub(crate) fn reset(&mut self) {
        (self.decoder, self.left, self.ready, self.end) = (RecordDecoder::new(), OutputLeft::Open, 0, None);
        self.errors.bytes.clear();
        (self.errors.lost, self.fault) = (0, None);
    }

    /// Goes to the next output in what was received; drops everything before it. Gives how many bytes that were, too.
    pub(crate) fn find(&mut self, connection: &mut Connection) -> Result<(usize, FoundRecord), Rule> {
        let mut framing = 0;
        loop {
            let (dropped, step) = self.decoder.step(connection.received())?;
            connection.consume(dropped);
            framing += dropped;
            match step {
                RecordStep::More => return Ok((framing, FoundRecord::More)),
                RecordStep::Stdout(range) => return Ok((framing, FoundRecord::Output(range.len()))),
                RecordStep::Stderr(range) => {
                    let len = range.len();
                    self.errors.take_in(&connection.received()[range]);
                    connection.consume(len);
                    framing += len;
                }
                RecordStep::End { protocol_status, .. } => {
                    let end = RequestEnd { status: protocol_status };
                    self.end = Some(end);
                    return Ok((framing, FoundRecord::End(end)));
                }
            }
        }
    }

    /// The last `len` bytes of output that were found are not of what was looked for: they are found again.
    pub(crate) fn give_back(&mut self, len: usize) {
        self.decoder.give_back(len);
    }

    /// Whether everything that was sent for the request was read, and nothing else came.
    pub(crate) fn is_over(&self, connection: &Connection) -> bool {
        let is_complete = self.end.is_some_and(|end| end.status == ProtocolStatus::Complete);
        is_complete
            && self.fault.is_none()
            && self.ready == 0
            && self.decoder.is_between_records(connection.received())
    }
}

/// A body read from a connection.
pub(crate) struct RecordReader<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) input: &'a mut RecordInput,
    pub(crate) stock: &'a Rc<BufferStock>,
}

impl Source for RecordReader<'_> {
    fn data(&self) -> &[u8] {
        &self.connection.received()[..self.input.ready]
    }

    fn take(&mut self, len: usize) {
        self.input.ready -= len;
        self.connection.consume(len);
    }

    /// What is wrong is told by [`Source::poll_read`], when everything before it has been delivered.
    fn decode(&mut self) -> Result<usize, RelayError> {
        let mut framing = 0;
        while self.input.ready == 0 && self.input.end.is_none() && self.input.fault.is_none() {
            let (dropped, found) = match self.input.find(self.connection) {
                Ok(found) => found,
                Err(rule) => {
                    self.input.fault = Some(RelayFault::Broken(rule));
                    break;
                }
            };
            framing += dropped;
            match (found, self.input.left) {
                (FoundRecord::More, _) => break,
                (FoundRecord::End(_), OutputLeft::Length(1..)) => {
                    self.input.fault = Some(RelayFault::Truncated);
                }
                (FoundRecord::End(end), _) if end.status != ProtocolStatus::Complete => {
                    self.input.fault = Some(RelayFault::Truncated);
                }
                (FoundRecord::End(_), _) => {}
                (FoundRecord::Output(len), OutputLeft::Open) => self.input.ready = len,
                (FoundRecord::Output(len), OutputLeft::Length(left)) => {
                    let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(len);
                    self.input.left = OutputLeft::Length(left - wanted as u64);
                    if wanted == 0 {
                        // Beyond what the script has announced.
                        self.connection.consume(len);
                        framing += len;
                    } else {
                        self.input.ready = wanted;
                        self.input.give_back(len - wanted);
                    }
                }
            }
        }
        Ok(framing)
    }

    fn is_finished(&self) -> bool {
        self.input.end.is_some() && self.input.ready == 0 && self.input.fault.is_none()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        match self.input.fault {
            Some(RelayFault::Truncated) => return Poll::Ready(Err(RelayError::Truncated)),
            Some(RelayFault::Broken(rule)) => return Poll::Ready(Err(RelayError::Broken(rule))),
            None => {}
        }
        match ready!(self.connection.poll_fill(cx, self.stock)).map_err(RelayError::Read)? {
            0 => Poll::Ready(Err(RelayError::Truncated)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// What waits to be written: the parameters of the request, then its body in records.
#[derive(Debug)]
pub(crate) struct RecordOutput {
    pub(crate) staged: Vec<u8>,
    /// What the parameters allow behind them.
    pub(crate) allowance: BodyAllowance,
    written: usize,
    /// Bytes written in all, framing included.
    pub(crate) sent: u64,
}

impl RecordOutput {
    pub(crate) const fn new() -> Self {
        Self { staged: Vec::new(), allowance: BodyAllowance::unbegun(), written: 0, sent: 0 }
    }

    /// Forgets everything but the memory; memory beyond `kept_max` goes too.
    pub(crate) fn reset(&mut self, kept_max: usize) {
        self.staged.clear();
        self.staged.shrink_to(kept_max);
        (self.allowance, self.written, self.sent) = (BodyAllowance::unbegun(), 0, 0);
    }
}

/// A body written to a connection.
pub(crate) struct RecordWriter<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) output: &'a mut RecordOutput,
}

impl Sink for RecordWriter<'_> {
    fn has_room(&self) -> bool {
        self.output.staged.len() < STAGED_MAX && !self.output.allowance.is_violated()
    }

    fn is_waiting(&self) -> bool {
        self.output.written < self.output.staged.len()
            || self.connection.has_unsent()
            || self.output.allowance.is_violated()
    }

    /// Always copies: what a script does with a byte costs far more.
    fn accept(&mut self, data: &[u8]) -> usize {
        if !self.output.allowance.check(data.len()) {
            return 0;
        }
        let len = data.len().min(RECORD_CONTENT_MAX);
        self.output.allowance.count(len);
        self.output.staged.extend_from_slice(&stdin_header(len));
        self.output.staged.extend_from_slice(&data[..len]);
        len
    }

    fn finish(&mut self, _source: &impl Source) {
        if self.output.allowance.end() {
            self.output.staged.extend_from_slice(&end_of_stdin());
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        let output = &mut *self.output;
        if output.allowance.is_violated() {
            return Poll::Ready(Err(RelayError::Framing));
        }
        let slices = [&output.staged[output.written..], &[], &[]];
        let len =
            ready!(self.connection.poll_write(cx, slices, Behind::Unknown)).map_err(RelayError::Write)?;
        output.written += len;
        output.sent += len as u64;
        if output.written == output.staged.len() {
            output.staged.clear();
            output.written = 0;
        }
        Poll::Ready(Ok(0))
    }
}
