//! A body, or its end, that is in memory, as a [`Source`]; a [`Sink`] for bodies that go nowhere.

use std::task::{Context, Poll};

use weir_http::FieldWriter;

use super::ends::{RelayError, Sink, Source};

/// What is left of a body.
#[derive(Debug)]
pub(crate) struct MemoryBody<'a>(pub(crate) &'a [u8]);

impl Source for MemoryBody<'_> {
    fn data(&self) -> &[u8] {
        self.0
    }

    fn take(&mut self, len: usize) {
        self.0 = &self.0[len..];
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.0.is_empty()
    }

    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        Poll::Ready(Ok(()))
    }
}

/// A body whose bytes stay where they are: it can be taken once more.
#[derive(Debug)]
pub(crate) struct HeldBody<'a> {
    pub(crate) bytes: &'a [u8],
    /// How many were taken.
    pub(crate) taken: &'a mut usize,
}

impl Source for HeldBody<'_> {
    fn data(&self) -> &[u8] {
        &self.bytes[*self.taken..]
    }

    fn take(&mut self, len: usize) {
        *self.taken += len;
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        *self.taken == self.bytes.len()
    }

    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        Poll::Ready(Ok(()))
    }
}

/// The end of a body: its trailers.
#[derive(Debug)]
pub(crate) struct MemoryTrailers<'a>(pub(crate) &'a [(&'static [u8], Vec<u8>)]);

impl Source for MemoryTrailers<'_> {
    fn data(&self) -> &[u8] {
        &[]
    }

    fn take(&mut self, _len: usize) {}

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        true
    }

    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        Poll::Ready(Ok(()))
    }

    fn has_trailers(&self) -> bool {
        true
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        self.0.iter().for_each(|(name, value)| out.field(name, value));
    }
}

/// Takes everything and keeps nothing.
#[derive(Debug)]
pub(crate) struct NullSink;

impl Sink for NullSink {
    fn has_room(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Ok(0))
    }
}
