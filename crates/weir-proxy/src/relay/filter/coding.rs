//! Bodies that are compressed or decompressed on their way.
//!
//! The codec takes what is here in pieces, and its output goes on in pieces, so that neither a body that shrinks to little nor one that grows
//! to much holds more than one. Without more input what was taken is flushed: at once for events, else as often as costs little. A body that
//! is cut never gets the end of its coding.

use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::{Field, FieldRun, FieldWriter, Rule, depends_on_coding};

use crate::compression::{CodecError, CodecLease, Operation};
use crate::net::clock::{self, Instant};
use crate::net::timing::timers::{Sleep, Timers};
use crate::relay::ends::{RelayError, Source};

/// Output that is made at a time.
const MADE_MAX: usize = 16 * 1024;

/// Input that is taken at a time.
const INPUT_MAX: usize = 16 * 1024;

/// Least time between two flushes of a body that is no event stream: its sender may pause between any two packets.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// Nanoseconds of work that count as one byte of framing: so a turn has some 250 us of it.
const NANOS_PER_FRAMING_BYTE: u64 = 64;

/// When a body is flushed that has nothing more here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushMode {
    /// At once.
    EachPiece,
    /// At once for the first time, then after a while.
    Early,
    /// After a while: it is expected to be whole before that.
    Late,
}

/// A codec at work on one body.
#[derive(Debug)]
pub(crate) struct CodingFilter {
    lease: CodecLease,
    mode: FlushMode,
    /// What was asked for and is not done.
    pending: Option<Operation>,
    /// Whether something was taken since the last flush.
    is_unflushed: bool,
    /// Before this moment it is not flushed.
    flush_from: Instant,
    timers: Rc<Timers>,
    wait: Option<Sleep>,
}

impl CodingFilter {
    pub(crate) fn new(lease: CodecLease, mode: FlushMode, timers: &Rc<Timers>, now: Instant) -> Self {
        let flush_from = if mode == FlushMode::Late { now + FLUSH_INTERVAL } else { now };
        Self {
            lease,
            mode,
            pending: None,
            is_unflushed: false,
            flush_from,
            timers: Rc::clone(timers),
            wait: None,
        }
    }

    /// Fills `made` with what becomes of the next bytes of `source`. Gives the cost, as bytes of framing.
    pub(super) fn fill(
        &mut self,
        source: &mut impl Source,
        made: &mut Vec<u8>,
        consumed: &mut u64,
    ) -> Result<(usize, bool), RelayError> {
        let began = clock::now();
        let mut framing = 0;
        let mut input_left = INPUT_MAX;
        let mut has_ended = false;
        while made.len() < MADE_MAX && !has_ended {
            framing += source.decode()?;
            let Some(operation) = self.next_operation(source, input_left) else { break };
            let data = match operation {
                Operation::Write => &source.data()[..source.data().len().min(input_left)],
                Operation::Flush | Operation::Finish => &[],
            };
            let len = made.len();
            made.resize(MADE_MAX, 0);
            let progress = self.lease.step(data, operation, &mut made[len..]);
            let is_full = progress.is_ok_and(|progress| len + progress.produced == MADE_MAX);
            made.truncate(len + progress.map_or(0, |progress| progress.produced));
            let progress = progress.map_err(failure)?;
            if operation == Operation::Write {
                if progress.consumed == 0 && progress.produced == 0 {
                    return Err(failure(CodecError::Broken));
                }
                input_left -= progress.consumed;
                *consumed += progress.consumed as u64;
                source.take(progress.consumed);
                self.is_unflushed |= !self.lease.is_decoder();
                // A decoder may have more to give than there is room for.
                self.pending = (is_full && self.lease.is_decoder()).then_some(Operation::Flush);
                continue;
            }
            self.pending = (!progress.is_done).then_some(operation);
            self.is_unflushed &= !progress.is_done;
            has_ended = operation == Operation::Finish && progress.is_done;
        }
        let spent = clock::now().nanos_since(began);
        self.account(spent, INPUT_MAX - input_left, made.len());
        if has_ended {
            self.lease.end();
        }
        Ok((framing + (spent / NANOS_PER_FRAMING_BYTE) as usize, has_ended))
    }

    /// What comes next with what is here; `None` when more has to be read, or others have their turn.
    fn next_operation(&self, source: &impl Source, input_left: usize) -> Option<Operation> {
        if let Some(pending) = self.pending {
            return Some(pending);
        }
        if !source.data().is_empty() {
            return (input_left > 0).then_some(Operation::Write);
        }
        if source.is_finished() {
            return Some(Operation::Finish);
        }
        (self.is_unflushed && self.mode == FlushMode::EachPiece).then_some(Operation::Flush)
    }

    fn account(&self, nanos: u64, taken: usize, made: usize) {
        let stock = self.lease.stock();
        stock.charge(nanos);
        if !self.lease.is_decoder() {
            stock.counters().bytes_in.add(taken as u64);
            stock.counters().bytes_out.add(made as u64);
        }
    }

    /// Waits for more of `source`; ready as well when what was taken is to be flushed.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        if self.pending.is_some() || !source.data().is_empty() {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(read) = source.poll_read(cx) {
            self.wait = None;
            return Poll::Ready(read);
        }
        if !self.is_unflushed {
            return Poll::Pending;
        }
        let now = clock::now();
        if now < self.flush_from {
            let left = self.flush_from - now;
            let wait = self.wait.get_or_insert_with(|| self.timers.sleep(left));
            if Pin::new(wait).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.wait = None;
        self.flush_from = now + FLUSH_INTERVAL;
        self.pending = Some(Operation::Flush);
        Poll::Ready(Ok(()))
    }
}

/// A body that cannot be decoded is the fault of its sender.
fn failure(error: CodecError) -> RelayError {
    match error {
        CodecError::Broken => RelayError::Broken(Rule::BrokenCoding),
        CodecError::NoMemory => RelayError::Read(std::io::ErrorKind::OutOfMemory.into()),
    }
}

/// The trailers of a body that has changed: without those that hold for the body as it was.
pub(super) struct ChangedTrailers<'a, W>(pub(super) &'a mut W);

impl<W: FieldWriter> FieldWriter for ChangedTrailers<'_, W> {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        if passes(name) {
            self.0.field(name, value);
        }
    }

    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if passes(name) {
            self.0.field_with(name, write);
        }
    }

    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if passes(name) {
            self.0.field_unless_empty(name, write);
        }
    }

    fn decimal_field(&mut self, name: &[u8], value: u64) {
        if passes(name) {
            self.0.decimal_field(name, value);
        }
    }

    fn copy(&mut self, run: FieldRun<'_>) {
        for Field { name, value, .. } in run.fields {
            self.field(name.of(run.text), value.of(run.text));
        }
    }
}

fn passes(name: &[u8]) -> bool {
    !depends_on_coding(name) && !name.eq_ignore_ascii_case(b"etag")
}
