//! A body from a file, or from parts of one, as a [`Source`].
//!
//! Bytes for a bare socket go there inside the kernel (sendfile(2)); others are read into a buffer. Either way only what is in memory
//! already: a thread of its own waits for the disk.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_http::ByteRange;

use super::ends::{FileSlice, RelayError, Source};
use crate::net::buffer::{Buffer, BufferStock};
use crate::net::files::file::{DiskFile, DiskWait};

/// Bytes that are moved inside the kernel at a time.
const CHUNK: u64 = 1024 * 1024;

/// What a body is made of.
#[derive(Debug)]
pub(crate) enum BodyPiece {
    /// Text between parts.
    Text(Vec<u8>),
    /// Bytes of the whole.
    Range(ByteRange),
}

/// What is left of a body from a file.
#[derive(Debug)]
pub(crate) struct FileBody<'a> {
    file: &'a DiskFile,
    stock: &'a Rc<BufferStock>,
    /// What is left, without what is in `buffer`.
    pieces: VecDeque<BodyPiece>,
    /// How much of the first piece was taken, if it is text.
    taken: usize,
    /// Bytes of the file that were read.
    buffer: Option<Buffer>,
    /// A thread that reads ahead.
    waiting: Option<DiskWait<io::Result<()>>>,
    /// Whether that has just happened.
    has_waited: bool,
    /// Up to where the file is known to be in memory.
    resident_to: u64,
}

impl<'a> FileBody<'a> {
    pub(crate) fn new(file: &'a DiskFile, stock: &'a Rc<BufferStock>, pieces: VecDeque<BodyPiece>) -> Self {
        let mut body = Self {
            file,
            stock,
            pieces,
            taken: 0,
            buffer: None,
            waiting: None,
            has_waited: false,
            resident_to: 0,
        };
        body.drop_empty();
        body
    }

    /// The part of the file that comes next, if nothing stands before it.
    fn next_of_file(&self) -> Option<ByteRange> {
        match self.pieces.front() {
            Some(BodyPiece::Range(range)) if self.buffer.is_none() => Some(*range),
            _ => None,
        }
    }

    fn drop_empty(&mut self) {
        while let Some(piece) = self.pieces.front() {
            let is_empty = match piece {
                BodyPiece::Text(text) => self.taken == text.len(),
                BodyPiece::Range(range) => range.is_empty(),
            };
            if !is_empty {
                break;
            }
            self.pieces.pop_front();
            self.taken = 0;
        }
    }

    /// Goes on in the file.
    fn advance(&mut self, len: u64) {
        if let Some(BodyPiece::Range(range)) = self.pieces.front_mut() {
            range.start += len;
        }
        self.drop_empty();
    }

    /// Waits for the thread that reads ahead, if there is one.
    fn poll_waited(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if let Some(waiting) = &mut self.waiting {
            let outcome = ready!(waiting.poll(cx));
            self.waiting = None;
            self.has_waited = true;
            outcome.and_then(|read| read).map_err(RelayError::Read)?;
        }
        Poll::Ready(Ok(()))
    }

    fn read_ahead(&mut self, range: ByteRange) {
        self.waiting = Some(self.file.read_ahead(range.start, range.len()));
        self.has_waited = false;
    }
}

impl Source for FileBody<'_> {
    fn data(&self) -> &[u8] {
        match (&self.buffer, self.pieces.front()) {
            (Some(buffer), _) => buffer.filled(),
            (None, Some(BodyPiece::Text(text))) => &text[self.taken..],
            (None, _) => &[],
        }
    }

    fn take(&mut self, len: usize) {
        match &mut self.buffer {
            Some(buffer) => {
                buffer.consume(len);
                if buffer.is_empty() {
                    self.buffer = None;
                }
            }
            None => {
                self.taken += len;
                self.drop_empty();
            }
        }
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.pieces.is_empty() && self.buffer.is_none()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        loop {
            ready!(self.poll_waited(cx))?;
            let Some(range) = self.next_of_file() else { return Poll::Ready(Ok(())) };
            if self.stock.is_exhausted_for(cx) {
                return Poll::Pending;
            }
            let mut buffer = if range.len() > self.stock.size() as u64 {
                self.stock.take_large()
            } else {
                self.stock.take()
            };
            let space = buffer.space();
            let len = usize::try_from(range.len()).unwrap_or(usize::MAX).min(space.len());
            let outcome = match std::mem::take(&mut self.has_waited) {
                true => self.file.read_after_wait(&mut space[..len], range.start),
                false => self.file.read_at_once(&mut space[..len], range.start),
            };
            match outcome {
                // The file has become shorter.
                Ok(0) => return Poll::Ready(Err(RelayError::Truncated)),
                Ok(len) => {
                    buffer.fill(len);
                    self.advance(len as u64);
                    self.buffer = Some(buffer);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.read_ahead(range),
                Err(error) => return Poll::Ready(Err(RelayError::Read(error))),
            }
        }
    }

    fn file(&self) -> Option<FileSlice<'_>> {
        let range = self.next_of_file()?;
        Some(FileSlice { fd: self.file.fd(), start: range.start, len: range.len().min(CHUNK) as usize })
    }

    fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        ready!(self.poll_waited(cx))?;
        let Some(range) = self.next_of_file() else { return Poll::Ready(Ok(())) };
        if range.start < self.resident_to {
            return Poll::Ready(Ok(()));
        }
        let end = range.end.min(range.start.saturating_add(CHUNK));
        if !std::mem::take(&mut self.has_waited) && !self.file.is_resident(range.start, end) {
            self.read_ahead(range);
            ready!(self.poll_waited(cx))?;
            self.has_waited = false;
        }
        self.resident_to = end;
        Poll::Ready(Ok(()))
    }

    fn skip(&mut self, len: usize) {
        self.advance(len as u64);
    }
}

#[cfg(test)]
mod tests;
