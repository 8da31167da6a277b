//! The two ends of a relay, whatever their protocol and framing.

use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_http::{FieldWriter, Rule};

use crate::net::buffer::BufferStock;
use crate::net::socket::Socket;

/// Where body bytes come from, with the framing of the wire removed.
pub(crate) trait Source {
    /// The body bytes that are decoded and not yet taken.
    fn data(&self) -> &[u8];

    /// Takes the first `len` bytes of [`Source::data`].
    fn take(&mut self, len: usize);

    /// Decodes what was received already, without reading; afterwards `data` is empty only if more must be read
    /// or the body has ended. Gives how many bytes of framing it has gone through.
    ///
    /// # Errors
    /// A broken rule of the framing.
    fn decode(&mut self) -> Result<usize, RelayError>;

    /// Whether the body has ended and everything was taken.
    fn is_finished(&self) -> bool;

    /// Reads more; to be called when there is no data and the body has not ended.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>>;

    /// Whether there are trailers.
    fn has_trailers(&self) -> bool {
        false
    }

    /// Adds the trailers, for a sink that can carry some.
    fn write_trailers(&self, _out: &mut impl FieldWriter) {}

    /// How many of the next bytes on the wire are plain body and need not be copied to user space; 0 when that is unknown.
    fn bulk_left(&self) -> u64 {
        0
    }

    /// The socket that [`Source::bulk_left`] bytes can be moved from, and the stock of its worker.
    fn bulk(&mut self) -> Option<(&mut Socket, &Rc<BufferStock>)> {
        None
    }

    /// The part of a file that the next bytes are, when they can be moved from there inside the kernel.
    fn file(&self) -> Option<FileSlice<'_>> {
        None
    }

    /// Waits until the bytes of [`Source::file`] are in memory.
    fn poll_resident(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        Poll::Ready(Ok(()))
    }

    /// Counts bytes that were moved from the socket or the file.
    fn skip(&mut self, _len: usize) {}
}

/// Some bytes of an open file.
#[derive(Debug)]
pub(crate) struct FileSlice<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) start: u64,
    pub(crate) len: usize,
}

/// Where body bytes go, with the framing of the wire added.
pub(crate) trait Sink {
    /// Whether bytes can be added before what waits is written.
    fn has_room(&self) -> bool;

    /// Whether bytes wait to be written.
    fn is_waiting(&self) -> bool;

    /// Accepts `data`, framed: copies it and returns its length when it is short, else returns 0 and wants it again
    /// at every [`Sink::poll_write`] until that has taken all of it. What the head of the message does not allow is not accepted: the next
    /// [`Sink::poll_write`] fails.
    fn accept(&mut self, data: &[u8]) -> usize;

    /// Accepts the end of the body; one that the head of the message does not allow fails the same way.
    fn finish(&mut self, source: &impl Source);

    /// How many bytes may still follow; more than there are where the head of the message does not tell.
    fn left(&self) -> u64 {
        u64::MAX
    }

    /// The socket, if the body goes out as it is.
    fn bulk(&mut self) -> Option<&mut Socket> {
        None
    }

    /// Counts bytes that were moved to the socket.
    fn count(&mut self, _len: usize) {}

    /// Writes what waits; returns how much of `data` (accepted, not copied) was taken.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>>;
}

/// Why a relay stopped before the end of the body.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The source failed.
    Read(io::Error),
    /// The source ended before its framing said so.
    Truncated,
    /// The source broke its framing.
    Broken(Rule),
    /// The body is longer than the limit.
    TooLarge,
    /// The sink failed.
    Write(io::Error),
    /// The body is not what the head of the message that the sink writes allows.
    Framing,
}
