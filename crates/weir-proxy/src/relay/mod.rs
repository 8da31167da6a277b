//! Moving body bytes from one connection to the other, one bounded buffer at a time.
//!
//! A relay pulls from a [`Source`] (framing removed) and pushes into a [`Sink`] (framing added), so that any two
//! protocols and framings can be joined. It reads the next bytes only when the last ones are written: a slow reader
//! holds one buffer, whatever the size of the body. Must not decide what a failure means.

pub(crate) mod failure;
pub(crate) mod filter;
pub(crate) mod pace;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod fastcgi;
pub(crate) mod replay;
pub(crate) mod spool;
pub(crate) mod spill;
pub(crate) mod stored;
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod tunnel;
pub(crate) mod pipe;
pub(crate) mod throttle;
pub(crate) mod message_end;
pub(crate) mod ends;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use self::ends::{RelayError, Sink, Source};
use self::filter::{BodyFilter, Filtered, RunningFilter};
use self::pace::{BodyPace, Paced};
use self::pipe::{BULK_MIN, Pipe, PipeError, PipeMove};
use super::state::limits::limit::LimitPlan;
use crate::net::clock::Instant;
use crate::net::quantum::Quantum;

/// So many bytes of a file, whose pages go to the socket as they are, take the time of one byte that is copied.
const FILE_BYTES_PER_COPIED: usize = 16;

/// The side that a pending relay waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    Source,
    Sink,
    /// The time at which the next bytes may be sent: [`Relay::turn`].
    Turn,
}

/// The progress of one body.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) waiting: WaitingFor,
    /// Body bytes that were moved, without framing.
    pub(crate) moved: u64,
    ended: bool,
    done: bool,
    /// The pipe for bytes that are moved inside the kernel.
    pipe: Pipe,
    /// What changes the body: the last of a chain.
    filter: Option<Box<RunningFilter>>,
    /// What slows it down.
    pace: Option<Box<BodyPace>>,
    /// Whether there is either of them: one branch for bodies that pass as they are, which are most.
    is_altered: bool,
}

impl Relay {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: WaitingFor::Source,
            moved: 0,
            ended: false,
            done: false,
            pipe: Pipe::new(),
            filter: None,
            pace: None,
            is_altered: false,
        }
    }

    /// Changes the body on its way, which has not begun, behind what changes it already.
    pub(crate) fn add_filter(&mut self, filter: BodyFilter) {
        self.filter = Some(RunningFilter::behind(self.filter.take(), filter));
        self.is_altered = true;
    }

    /// Has a filter take the body as it comes, before it is changed.
    pub(crate) fn observe(&mut self, filter: BodyFilter) {
        RunningFilter::put_first(&mut self.filter, filter);
        self.is_altered = true;
    }

    /// Has the body wait for its turns.
    pub(crate) fn set_pace(&mut self, pace: Box<BodyPace>) {
        self.pace = Some(pace);
        self.is_altered = true;
    }

    /// Has the body go on no faster than so many bytes per second, beside what limits allow.
    pub(crate) fn limit_rate(&mut self, bytes_per_second: u64) {
        self.pace.get_or_insert_with(|| BodyPace::new(Vec::new())).limit_rate(bytes_per_second);
        self.is_altered = true;
    }

    /// Forgets the body, for that of another message.
    #[inline]
    pub(crate) fn reset(&mut self) {
        // Most have none of what would have to be dropped.
        if self.is_altered || self.pipe.is_borrowed() {
            return self.replace();
        }
        (self.waiting, self.moved, self.ended, self.done) = (WaitingFor::Source, 0, false, false);
    }

    #[cold]
    fn replace(&mut self) {
        *self = Self::new();
    }

    /// Begins with another body, at the same pace.
    pub(crate) fn restart(&mut self) {
        let pace = self.pace.take();
        *self = Self::new();
        self.is_altered = pace.is_some();
        self.pace = pace;
    }

    /// While it waits for its turn: when that is, and the limit that has it wait, if it is not a rate of its own.
    pub(crate) fn turn(&self) -> Option<(Instant, Option<&Arc<LimitPlan>>)> {
        self.pace.as_ref()?.turn()
    }

    /// The length and the digest of the body as it came, if that is made.
    pub(crate) fn digest(&self) -> Option<(u64, u128)> {
        self.filter.as_ref()?.digest()
    }

    /// The digest of the body without its content coding, if one was asked for and could be made.
    pub(crate) fn decoded_digest(&self) -> Option<(u64, u128)> {
        self.filter.as_ref()?.decoded_digest()
    }

    /// Whether the body changes on its way.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Whether trailers may follow what was taken of the body, although its sender has not ended it: not inside a message of gRPC-Web.
    pub(crate) fn may_end(&self) -> bool {
        self.filter.as_ref().is_none_or(|running| running.may_end())
    }

    /// Bytes of the body as it came, before it was changed: what shows that its sender goes on.
    pub(crate) fn taken(&self) -> u64 {
        self.filter.as_ref().map_or(self.moved, |running| running.consumed())
    }

    /// Whether the last byte, with its framing, was written.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Moves bytes until one side has to wait or the body is over.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
        sink: &mut impl Sink,
    ) -> Poll<Result<(), RelayError>> {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        if self.is_altered { self.poll_altered(cx, source, sink) } else { self.poll_bytes(cx, source, sink) }
    }

    #[cold]
    fn poll_altered(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
        sink: &mut impl Sink,
    ) -> Poll<Result<(), RelayError>> {
        let (mut running, mut pace) = (self.filter.take(), self.pace.take());
        let mut filtered = Filtered { source, running: running.as_deref_mut() };
        let polled =
            self.poll_bytes(cx, &mut Paced { source: &mut filtered, pace: pace.as_deref_mut() }, sink);
        let has_turn = pace.as_ref().is_some_and(|pace| pace.turn().is_some());
        if polled.is_pending() && self.waiting == WaitingFor::Source && has_turn {
            self.waiting = WaitingFor::Turn;
        }
        (self.filter, self.pace) = (running, pace);
        polled
    }

    fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
        sink: &mut impl Sink,
    ) -> Poll<Result<(), RelayError>> {
        let mut quantum = Quantum::new();
        loop {
            if !self.pipe.is_empty() {
                ready!(self.poll_bulk(cx, source, sink, &mut quantum))?;
                continue;
            }
            // First gather what is here already, so that a head and a short body leave in one packet.
            if !self.ended && sink.has_room() && !quantum.is_spent() {
                quantum.take_framing(source.decode()?);
                if !source.data().is_empty() {
                    quantum.take(source.data().len());
                    let copied = sink.accept(source.data());
                    self.take(source, copied);
                    if !source.is_finished() || !sink.has_room() {
                        continue;
                    }
                }
                if source.is_finished() {
                    sink.finish(source);
                    self.ended = true;
                }
            }
            if sink.is_waiting() {
                self.waiting = WaitingFor::Sink;
                match sink.poll_write(cx, source.data()) {
                    Poll::Ready(Ok(0)) => {}
                    Poll::Ready(Ok(taken)) => self.take(source, taken),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
                if !self.ended || sink.is_waiting() {
                    continue;
                }
            }
            if self.ended {
                self.pipe.give_back();
                self.done = true;
                return Poll::Ready(Ok(()));
            }
            ready!(quantum.poll_left(cx));
            if source.file().is_some() && ready!(self.poll_file(cx, source, sink, &mut quantum))? {
                continue;
            }
            let is_bulk = source.bulk_left() >= if self.pipe.is_borrowed() { 1 } else { BULK_MIN };
            if is_bulk && ready!(self.poll_bulk(cx, source, sink, &mut quantum))? {
                continue;
            }
            self.pipe.give_back();
            self.waiting = WaitingFor::Source;
            match source.poll_read(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Moves bytes inside the kernel until one side has to wait or no such bytes are left; `false` when that
    /// cannot be done.
    fn poll_bulk(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
        sink: &mut impl Sink,
        quantum: &mut Quantum,
    ) -> Poll<Result<bool, RelayError>> {
        ready!(quantum.poll_left(cx));
        let left = source.bulk_left().min(sink.left());
        if left == 0 && self.pipe.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let (Some((from, stock)), Some(to)) = (source.bulk(), sink.bulk()) else {
            return Poll::Ready(Ok(false));
        };
        self.waiting = if self.pipe.is_empty() { WaitingFor::Source } else { WaitingFor::Sink };
        match ready!(self.pipe.poll_move(cx, from, to, left, stock)) {
            Ok(PipeMove::Nothing) => return Poll::Ready(Ok(false)),
            Ok(PipeMove::In(0)) => return Poll::Ready(Err(RelayError::Truncated)),
            Ok(PipeMove::In(len)) => source.skip(len),
            Ok(PipeMove::Out(len)) => {
                sink.count(len);
                quantum.take(len);
                self.moved += len as u64;
            }
            Err(PipeError::Reading(error)) => return Poll::Ready(Err(RelayError::Read(error))),
            Err(PipeError::Writing(error)) => return Poll::Ready(Err(RelayError::Write(error))),
        }
        Poll::Ready(Ok(true))
    }

    /// Moves bytes of a file to a socket inside the kernel; `false` when that cannot be done.
    fn poll_file(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
        sink: &mut impl Sink,
        quantum: &mut Quantum,
    ) -> Poll<Result<bool, RelayError>> {
        if sink.bulk().is_none() {
            return Poll::Ready(Ok(false));
        }
        self.waiting = WaitingFor::Source;
        ready!(source.poll_resident(cx))?;
        let allowed = usize::try_from(sink.left()).unwrap_or(usize::MAX);
        let (Some(slice), Some(to)) = (source.file(), sink.bulk()) else { return Poll::Ready(Ok(false)) };
        if allowed == 0 {
            return Poll::Ready(Ok(false));
        }
        self.waiting = WaitingFor::Sink;
        match ready!(to.poll_send_file(cx, slice.fd, slice.start, slice.len.min(allowed))) {
            // The file has become shorter.
            Ok(0) => return Poll::Ready(Err(RelayError::Truncated)),
            Ok(len) => {
                source.skip(len);
                sink.count(len);
                quantum.take(len / FILE_BYTES_PER_COPIED);
                self.moved += len as u64;
            }
            // The file system has no such operation.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                return Poll::Ready(Ok(false));
            }
            Err(error) => return Poll::Ready(Err(RelayError::Write(error))),
        }
        Poll::Ready(Ok(true))
    }

    fn take(&mut self, source: &mut impl Source, len: usize) {
        source.take(len);
        self.moved += len as u64;
    }
}

#[cfg(test)]
mod framing_tests;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A source that always has more, and a sink that always takes it.
    struct Endless {
        /// Bytes that are still to come.
        left: u64,
        /// What is decoded at a time, and the framing around it.
        data: &'static [u8],
        framing: usize,
        is_ready: bool,
    }

    impl Endless {
        fn new(data: &'static [u8], framing: usize) -> Self {
            Self { left: 1 << 30, data, framing, is_ready: false }
        }
    }

    impl Source for Endless {
        fn data(&self) -> &[u8] {
            if self.is_ready { self.data } else { &[] }
        }

        fn take(&mut self, len: usize) {
            self.left -= len as u64;
            self.is_ready = false;
        }

        fn decode(&mut self) -> Result<usize, RelayError> {
            Ok(if self.is_ready { self.framing } else { 0 })
        }

        fn is_finished(&self) -> bool {
            self.left == 0
        }

        fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
            self.is_ready = true;
            Poll::Ready(Ok(()))
        }
    }

    struct NullSink {
        waiting: bool,
    }

    impl Sink for NullSink {
        fn has_room(&self) -> bool {
            !self.waiting
        }

        fn is_waiting(&self) -> bool {
            self.waiting
        }

        fn accept(&mut self, data: &[u8]) -> usize {
            self.waiting = true;
            data.len()
        }

        fn finish(&mut self, _source: &impl Source) {}

        fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
            self.waiting = false;
            Poll::Ready(Ok(0))
        }
    }

    #[test]
    fn a_body_without_end_has_a_bounded_part_of_each_turn() {
        // Whole buffers; the chunks of one byte of a whole buffer.
        for (data, framing, least, most) in
            [(&[0; 16_384][..], 0, 64 * 1024, 256 * 1024), (&[0; 2_730][..], 13_650, 2_730, 16 * 1024)]
        {
            let mut relay = Relay::new();
            let (mut source, mut sink) = (Endless::new(data, framing), NullSink { waiting: false });
            let mut cx = Context::from_waker(Waker::noop());
            for turn in 1..=3 {
                assert!(relay.poll(&mut cx, &mut source, &mut sink).is_pending());
                assert!((turn * least..=turn * most).contains(&relay.moved), "{} in {turn}", relay.moved);
                assert!(!sink.waiting, "what was taken is passed on before others have their turn");
            }
        }
    }
}
