//! A connection in memory for `hyper`: what it reads is given, what it writes is dropped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hyper::rt::{Read, ReadBufCursor, Write};

/// One end of a connection whose other end has said everything already.
pub(super) struct MemoryIo<'a> {
    left: &'a [u8],
    /// Whether something was written.
    asked: bool,
    /// Whether reads wait until it is flushed: an answer is not there before the request.
    gate: Option<Option<Waker>>,
}

impl<'a> MemoryIo<'a> {
    /// What a server reads.
    pub(super) fn of_client(bytes: &'a [u8]) -> Self {
        Self { left: bytes, asked: false, gate: None }
    }

    /// What a client reads once it has asked.
    pub(super) fn of_server(bytes: &'a [u8]) -> Self {
        Self { left: bytes, asked: false, gate: Some(None) }
    }

    /// What was not read.
    pub(super) fn left(&self) -> &'a [u8] {
        self.left
    }
}

impl Read for MemoryIo<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(waker) = &mut self.gate {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let (now, later) = self.left.split_at(self.left.len().min(buf.remaining()));
        buf.put_slice(now);
        self.left = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for MemoryIo<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.asked
            && let Some(waker) = self.gate.take().flatten()
        {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
