//! A request body that may have to be sent again, or is to be whole before it is sent: a [`Source`] that keeps what was taken from it, up
//! to a bound, in memory first and then in a file.
//!
//! While it keeps, every byte is copied once; a body that exceeds the bound is discarded and cannot be sent again. Must not
//! know why it is sent again.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_http::FieldWriter;

use super::ends::{RelayError, Source};
use super::spill::Spill;
use crate::net::buffer::BufferStock;
use crate::net::quantum::Quantum;
use crate::net::socket::Socket;

/// The part of a body that was taken from its connection.
#[derive(Debug, Default)]
pub(crate) struct ReplayBuffer {
    bytes: Vec<u8>,
    /// How much of `bytes` was taken since the body began anew.
    taken: usize,
    /// The most that is kept; more makes it all worthless.
    len_max: usize,
    /// Whether bytes were taken that are not kept.
    lost: bool,
    /// What comes behind `bytes`.
    spill: Option<Box<Spill>>,
}

/// How far a body was gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gathered {
    Memory,
    File,
    /// There is more of it than may be kept.
    Partly,
}

impl ReplayBuffer {
    /// Keeps up to `len_max` bytes from now on, or more if so many are to be kept already.
    pub(crate) fn begin(&mut self, len_max: usize) {
        self.len_max = self.len_max.max(len_max);
    }

    /// All that was taken, if that was kept and is in memory.
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        (!self.lost && self.spill.is_none()).then_some(&self.bytes)
    }

    /// Whether the body can be sent from its first byte.
    pub(crate) fn is_whole(&self) -> bool {
        !self.lost
    }

    /// How many bytes it keeps.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.spill.as_ref().map_or(0, |spill| spill.len())
    }

    /// Begins the body anew, which has to be whole.
    pub(crate) fn rewind(&mut self) {
        debug_assert!(self.is_whole());
        self.taken = 0;
        if let Some(spill) = &mut self.spill {
            spill.rewind();
        }
    }

    /// Keeps no more: the body will not be sent again. What is kept and not taken yet still will.
    pub(crate) fn end(&mut self) {
        self.len_max = 0;
    }

    /// Forgets everything but the memory; memory beyond `kept_max` goes too.
    pub(crate) fn reset(&mut self, kept_max: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept_max);
        (self.taken, self.len_max, self.lost) = (0, 0, false);
        self.spill = None;
    }

    fn ahead(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Takes in what was just taken from the connection.
    #[inline(always)]
    fn keep(&mut self, data: &[u8]) {
        if !self.lost && self.spill.is_none() && self.bytes.len() + data.len() <= self.len_max {
            self.bytes.extend_from_slice(data);
            self.taken = self.bytes.len();
        } else if !data.is_empty() {
            self.lost = true;
            self.bytes.clear();
            self.taken = 0;
            self.spill = None;
        }
    }

    /// Whether something is kept that was not taken yet.
    #[inline]
    fn has_ahead(&self) -> bool {
        !self.ahead().is_empty() || self.spill.as_ref().is_some_and(|spill| !spill.is_finished())
    }

    /// Takes a body in before any of it is sent: up to `memory_max` bytes in memory and `file_max` in a file.
    pub(crate) fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut impl Source,
        (memory_max, file_max): (usize, u64),
    ) -> Poll<Result<Gathered, RelayError>> {
        let mut quantum = Quantum::new();
        loop {
            if let Some(spill) = &mut self.spill {
                ready!(spill.poll_written(cx, false)).map_err(RelayError::Write)?;
            }
            quantum.take_framing(body.decode()?);
            let data = body.data();
            let len = data.len();
            if len > 0 && self.spill.is_none() && self.bytes.len() + len <= memory_max {
                self.bytes.extend_from_slice(data);
            } else if len > 0 {
                if !self.spill(data, file_max) {
                    ready!(self.poll_spilled(cx))?;
                    return Poll::Ready(Ok(Gathered::Partly));
                }
            } else if body.is_finished() {
                ready!(self.poll_spilled(cx))?;
                return Poll::Ready(Ok(if self.spill.is_some() { Gathered::File } else { Gathered::Memory }));
            } else {
                ready!(body.poll_read(cx))?;
                continue;
            }
            body.take(len);
            quantum.take(len);
            ready!(quantum.poll_left(cx));
        }
    }

    /// Puts `data` into the file; `false` when it has no room.
    fn spill(&mut self, data: &[u8], file_max: u64) -> bool {
        if file_max == 0 {
            return false;
        }
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => match Spill::new() {
                Ok(spill) => none.insert(Box::new(spill)),
                // Without a file the body goes on as it comes.
                Err(_) => return false,
            },
        };
        spill.len() + data.len() as u64 <= file_max && spill.push(data)
    }

    /// Waits until the file has everything.
    fn poll_spilled(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        match &mut self.spill {
            Some(spill) => spill.poll_written(cx, true).map_err(RelayError::Write),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Bytes that were gathered.
    pub(crate) fn gathered_len(&self) -> u64 {
        self.bytes.len() as u64 + self.spill.as_ref().map_or(0, |spill| spill.len())
    }

    /// Begins with what was gathered.
    pub(crate) fn begin_gathered(&mut self) {
        self.taken = 0;
        if let Some(spill) = &mut self.spill {
            spill.rewind();
        }
    }
}

/// What comes next from a file; `None` when it was all taken.
#[cold]
fn spilled(spill: &Spill) -> Option<&[u8]> {
    (!spill.is_finished()).then(|| spill.data())
}

/// A body that comes first from what was kept of it, then from its connection.
pub(crate) struct Replay<'a, S> {
    pub(crate) kept: &'a mut ReplayBuffer,
    pub(crate) body: S,
}

impl<S: Source> Source for Replay<'_, S> {
    #[inline(always)]
    fn data(&self) -> &[u8] {
        match (self.kept.ahead(), &self.kept.spill) {
            ([], None) => self.body.data(),
            ([], Some(spill)) => spilled(spill).unwrap_or(self.body.data()),
            (ahead, _) => ahead,
        }
    }

    #[inline]
    fn take(&mut self, len: usize) {
        if !self.kept.ahead().is_empty() {
            self.kept.taken += len;
            return;
        }
        if let Some(spill) = &mut self.kept.spill
            && !spill.is_finished()
        {
            spill.take(len);
            return;
        }
        self.kept.keep(&self.body.data()[..len]);
        self.body.take(len);
    }

    #[inline]
    fn decode(&mut self) -> Result<usize, RelayError> {
        if self.kept.has_ahead() { Ok(0) } else { self.body.decode() }
    }

    #[inline]
    fn is_finished(&self) -> bool {
        !self.kept.has_ahead() && self.body.is_finished()
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        match &mut self.kept.spill {
            Some(spill) if !spill.is_finished() => spill.poll_read(cx).map_err(RelayError::Read),
            _ => self.body.poll_read(cx),
        }
    }

    fn has_trailers(&self) -> bool {
        self.body.has_trailers()
    }

    #[inline]
    fn write_trailers(&self, out: &mut impl FieldWriter) {
        self.body.write_trailers(out);
    }

    /// Nothing as long as it may still be kept.
    #[inline]
    fn bulk_left(&self) -> u64 {
        let keeps = self.kept.len_max > 0 && !self.kept.lost;
        if keeps || self.kept.has_ahead() { 0 } else { self.body.bulk_left() }
    }

    fn bulk(&mut self) -> Option<(&mut Socket, &Rc<BufferStock>)> {
        self.body.bulk()
    }

    fn skip(&mut self, len: usize) {
        self.kept.lost = true;
        self.body.skip(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_and_comes_again() {
        let mut kept = ReplayBuffer::default();
        kept.begin(8);
        kept.keep(b"abc");
        kept.keep(b"defgh");
        assert!(kept.is_whole() && kept.ahead().is_empty());
        kept.rewind();
        assert_eq!(kept.ahead(), b"abcdefgh");
        kept.taken += 8;
        kept.keep(b"i");
        assert!(!kept.is_whole() && kept.ahead().is_empty());
        kept.keep(b"j");
        assert!(!kept.is_whole(), "what is lost stays lost");
        kept.reset(4);
        assert!(kept.is_whole());
    }

    #[test]
    fn nothing_is_kept_unless_asked_for() {
        let mut kept = ReplayBuffer::default();
        kept.keep(b"");
        assert!(kept.is_whole(), "nothing was lost");
        kept.keep(b"a");
        assert!(!kept.is_whole());
    }

    #[test]
    fn what_is_ahead_survives_the_end() {
        let mut kept = ReplayBuffer::default();
        kept.begin(8);
        kept.keep(b"abcd");
        kept.rewind();
        kept.taken += 1;
        kept.end();
        assert_eq!(kept.ahead(), b"bcd");
        kept.taken += 3;
        kept.keep(b"e");
        assert!(kept.ahead().is_empty());
    }
}
