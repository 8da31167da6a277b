//! The body of a stored response, as a [`Source`] for those who get it, and as a [`Sink`] for the server that it comes from.
//!
//! Parts that are kept in pages of a file go to a bare socket inside the kernel (sendfile(2)); to all others they are memory as the rest.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use weir_cache::store::{BodyReader, BodyWriter, READ_WINDOW_BYTES, StoredResponse};
use weir_http::ByteRange;

use super::ends::{FileSlice, RelayError, Sink, Source};
use super::file::BodyPiece;

/// Less than so many bytes are copied: that takes less time than a system call of their own.
const SENT_FROM_FILE_MIN: usize = 16 * 1024;

/// The whole of a body, which may still be growing.
#[derive(Debug)]
pub(crate) struct StoredBody<'a> {
    reader: &'a mut BodyReader,
    /// Whether it goes where the kernel cannot send it from a file.
    is_copied: bool,
}

impl<'a> StoredBody<'a> {
    pub(crate) fn new(reader: &'a mut BodyReader) -> Self {
        Self { reader, is_copied: false }
    }
}

impl Source for StoredBody<'_> {
    fn data(&self) -> &[u8] {
        if self.file().is_some() { &[] } else { self.reader.available() }
    }

    fn take(&mut self, len: usize) {
        self.reader.consume(len);
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.reader.is_finished()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        // A sink that can send from a file has done so before.
        self.is_copied |= self.file().is_some();
        // The server behind it has failed: no client gets more than there is.
        ready!(self.reader.poll_more(cx)).map_err(|_| RelayError::Truncated)?;
        Poll::Ready(Ok(()))
    }

    fn file(&self) -> Option<FileSlice<'_>> {
        if self.is_copied { None } else { slice_of(self.reader, u64::MAX) }
    }

    fn skip(&mut self, len: usize) {
        self.reader.consume(len);
    }
}

/// What the kernel can send of the next bytes of a body, of which `left` are wanted.
fn slice_of(reader: &BodyReader, left: u64) -> Option<FileSlice<'_>> {
    let len = reader.available().len().min(usize::try_from(left).unwrap_or(usize::MAX));
    if len < SENT_FROM_FILE_MIN {
        return None;
    }
    reader.file().map(|(fd, start)| FileSlice { fd, start, len })
}

/// Parts of a complete body, with text between them, or one of a body that still grows.
#[derive(Debug)]
pub(crate) struct StoredParts<'a> {
    response: &'a StoredResponse,
    pieces: VecDeque<BodyPiece>,
    /// How much of the first piece was taken, if it is text.
    taken: usize,
    /// Reads the first piece, if it is part of the body.
    reader: Option<BodyReader>,
    /// Whether it goes where the kernel cannot send it from a file.
    is_copied: bool,
}

impl<'a> StoredParts<'a> {
    pub(crate) fn new(response: &'a StoredResponse, pieces: VecDeque<BodyPiece>) -> Self {
        let mut parts = Self { response, pieces, taken: 0, reader: None, is_copied: false };
        parts.begin_piece();
        parts
    }

    /// A single part, whose beginning `reader` waits for.
    pub(crate) fn one(response: &'a StoredResponse, range: ByteRange, reader: BodyReader) -> Self {
        let pieces = [BodyPiece::Range(range)].into();
        Self { response, pieces, taken: 0, reader: Some(reader), is_copied: false }
    }

    /// Goes to the beginning of the next piece that has bytes.
    fn begin_piece(&mut self) {
        (self.taken, self.reader) = (0, None);
        while let Some(piece) = self.pieces.front() {
            match piece {
                BodyPiece::Text(text) if text.is_empty() => {}
                BodyPiece::Range(range) if range.is_empty() => {}
                BodyPiece::Text(_) => break,
                BodyPiece::Range(range) => {
                    self.reader = self.response.read_from(range.start);
                    break;
                }
            }
            self.pieces.pop_front();
        }
    }
}

impl Source for StoredParts<'_> {
    fn data(&self) -> &[u8] {
        if self.file().is_some() {
            return &[];
        }
        match (self.pieces.front(), &self.reader) {
            (Some(BodyPiece::Text(text)), _) => &text[self.taken..],
            (Some(BodyPiece::Range(range)), Some(reader)) => {
                let left = usize::try_from(range.end - reader.position()).unwrap_or(usize::MAX);
                let data = reader.available();
                &data[..data.len().min(left)]
            }
            _ => &[],
        }
    }

    fn take(&mut self, len: usize) {
        let is_over = match (self.pieces.front(), &mut self.reader) {
            (Some(BodyPiece::Text(text)), _) => {
                self.taken += len;
                self.taken == text.len()
            }
            (Some(BodyPiece::Range(range)), Some(reader)) => {
                reader.consume(len);
                reader.position() == range.end
            }
            _ => false,
        };
        if is_over {
            self.pieces.pop_front();
            self.begin_piece();
        }
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.pieces.is_empty()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if self.file().is_some() {
            // A sink that can send from a file has done so before.
            self.is_copied = true;
            return Poll::Ready(Ok(()));
        }
        let Some(reader) = &mut self.reader else { return Poll::Ready(Err(RelayError::Truncated)) };
        match ready!(reader.poll_more(cx)) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) | Err(_) => Poll::Ready(Err(RelayError::Truncated)),
        }
    }

    fn file(&self) -> Option<FileSlice<'_>> {
        match (self.pieces.front(), &self.reader) {
            (Some(BodyPiece::Range(range)), Some(reader)) if !self.is_copied => {
                slice_of(reader, range.end - reader.position())
            }
            _ => None,
        }
    }

    fn skip(&mut self, len: usize) {
        self.take(len);
    }
}

/// So much of a body is looked at before its response is stored and begins for its client.
const BEGINNING_BYTES: usize = 16 * 1024;

/// The beginning of a body that is to be stored, until it is known that the server has not broken it off at once.
#[derive(Debug, Default)]
pub(crate) struct BodyBeginning {
    bytes: Vec<u8>,
}

impl Sink for BodyBeginning {
    fn has_room(&self) -> bool {
        self.bytes.len() < BEGINNING_BYTES
    }

    fn is_waiting(&self) -> bool {
        !self.has_room()
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        self.bytes.extend_from_slice(data);
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    /// Takes no more: the sink that takes its bytes is asked next.
    fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Pending
    }
}

/// Where the body of a response goes that is stored.
#[derive(Debug)]
pub(crate) struct StoringSink {
    writer: BodyWriter,
    /// Bytes that were accepted since the writer last said that it takes more.
    ahead: u64,
    is_stopped: bool,
}

impl StoringSink {
    pub(crate) const fn new(writer: BodyWriter) -> Self {
        Self { writer, ahead: 0, is_stopped: false }
    }

    /// For a body that has begun.
    pub(crate) fn begun(writer: BodyWriter, beginning: &BodyBeginning) -> Self {
        let mut sink = Self::new(writer);
        sink.accept(&beginning.bytes);
        sink
    }

    /// The body is whole.
    pub(crate) fn complete(self) {
        self.writer.finish();
    }
}

impl Sink for StoringSink {
    fn has_room(&self) -> bool {
        !self.is_stopped && self.ahead < READ_WINDOW_BYTES
    }

    fn is_waiting(&self) -> bool {
        !self.has_room()
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        self.ahead += data.len() as u64;
        self.is_stopped |= self.writer.append(data).is_err();
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {
        // What was accepted is written.
        self.ahead = 0;
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        let stopped = || RelayError::Write(io::ErrorKind::BrokenPipe.into());
        if self.is_stopped {
            return Poll::Ready(Err(stopped()));
        }
        ready!(self.writer.poll_ready(cx)).map_err(|_| stopped())?;
        self.ahead = 0;
        Poll::Ready(Ok(0))
    }
}
