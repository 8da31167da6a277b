//! A request body that may have to be sent again: a [`Source`] that keeps what was taken from it, up to a bound.
//!
//! While it keeps, every byte is copied once; a body that exceeds the bound is discarded and cannot be sent again. Must not
//! know why it is sent again.

use std::rc::Rc;
use std::task::{Context, Poll};

use weir_http::FieldWriter;

use super::ends::{RelayError, Source};
use crate::net::buffer::BufferStock;
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
}

impl ReplayBuffer {
    /// Keeps up to `len_max` bytes from now on; with 0, nothing.
    pub(crate) fn begin(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Whether the body can be sent from its first byte.
    pub(crate) fn is_whole(&self) -> bool {
        !self.lost
    }

    /// Begins the body anew, which has to be whole.
    pub(crate) fn rewind(&mut self) {
        debug_assert!(self.is_whole());
        self.taken = 0;
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
    }

    fn ahead(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Takes in what was just taken from the connection.
    fn keep(&mut self, data: &[u8]) {
        if !self.lost && self.bytes.len() + data.len() <= self.len_max {
            self.bytes.extend_from_slice(data);
            self.taken = self.bytes.len();
        } else if !data.is_empty() {
            self.lost = true;
            self.bytes.clear();
            self.taken = 0;
        }
    }
}

/// A body that comes first from what was kept of it, then from its connection.
pub(crate) struct Replay<'a, S> {
    pub(crate) kept: &'a mut ReplayBuffer,
    pub(crate) body: S,
}

impl<S: Source> Source for Replay<'_, S> {
    #[inline]
    fn data(&self) -> &[u8] {
        match self.kept.ahead() {
            [] => self.body.data(),
            ahead => ahead,
        }
    }

    #[inline]
    fn take(&mut self, len: usize) {
        if !self.kept.ahead().is_empty() {
            self.kept.taken += len;
            return;
        }
        self.kept.keep(&self.body.data()[..len]);
        self.body.take(len);
    }

    #[inline]
    fn decode(&mut self) -> Result<usize, RelayError> {
        if self.kept.ahead().is_empty() { self.body.decode() } else { Ok(0) }
    }

    #[inline]
    fn is_finished(&self) -> bool {
        self.kept.ahead().is_empty() && self.body.is_finished()
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        self.body.poll_read(cx)
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
        if keeps || !self.kept.ahead().is_empty() { 0 } else { self.body.bulk_left() }
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
