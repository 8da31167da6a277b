//! Bulk bytes from socket to socket inside the kernel, through a pipe (splice(2)).
//!
//! A relay that copies spends most of its time copying: per GiB this costs a third of it or less. But it needs two system
//! calls for what may be few bytes, so it is for bodies that are long and for tunnels that are busy; and TLS has to see
//! its bytes. A pipe is taken when there is something to move and goes back to the worker when it is empty.

use std::io;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use crate::net::buffer::BufferStock;
use crate::net::pipe::PipeEnds;
use crate::net::socket::Socket;

/// Maximum of bytes per move: the size of a usual pipe.
const CHUNK_MAX: usize = 64 * 1024;

/// The least that is worth a pipe.
pub(crate) const BULK_MIN: u64 = 64 * 1024;

/// The place of a pipe in a relay: one is on loan from the worker as long as there is something to move.
#[derive(Debug)]
pub(crate) struct Pipe {
    borrowed: Option<BorrowedPipe>,
    /// Bytes in it.
    held: usize,
}

/// A pipe and where it came from.
#[derive(Debug)]
struct BorrowedPipe {
    ends: PipeEnds,
    stock: Weak<BufferStock>,
}

/// What one move came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeMove {
    /// So many bytes went into the pipe; none are the end of the stream.
    In(usize),
    /// So many bytes left it.
    Out(usize),
    /// The system has no pipe to give.
    Nothing,
}

/// The side on which a move failed.
#[derive(Debug)]
pub(crate) enum PipeError {
    Reading(io::Error),
    Writing(io::Error),
}

impl Pipe {
    /// No pipe yet.
    pub(crate) const fn new() -> Self {
        Self { borrowed: None, held: 0 }
    }

    /// Whether nothing is on its way in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Whether there is one.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }

    /// Moves bytes once: out of the pipe if there are any, else up to `len_max` into it. Waiting for the sender, it gives the
    /// pipe back.
    pub(crate) fn poll_move(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Socket,
        to: &mut Socket,
        len_max: u64,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<PipeMove, PipeError>> {
        if self.borrowed.is_none() {
            self.borrowed = stock.take_pipe().map(|ends| BorrowedPipe { ends, stock: Rc::downgrade(stock) });
        }
        let Some(BorrowedPipe { ends, .. }) = &self.borrowed else {
            return Poll::Ready(Ok(PipeMove::Nothing));
        };
        if self.held > 0 {
            let len = ready!(to.poll_splice_from(cx, &ends.read, self.held)).map_err(PipeError::Writing)?;
            self.held -= len;
            return Poll::Ready(Ok(PipeMove::Out(len)));
        }
        let len_max = usize::try_from(len_max).unwrap_or(usize::MAX).min(CHUNK_MAX);
        let outcome = from.poll_splice_to(cx, &ends.write, len_max);
        if outcome.is_pending() {
            self.give_back();
        }
        self.held = ready!(outcome).map_err(PipeError::Reading)?;
        Poll::Ready(Ok(PipeMove::In(self.held)))
    }

    /// Gives the pipe back to the worker, if there is one; a pipe that still holds bytes is closed.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if let Some(borrowed) = self.borrowed.take() {
            borrowed.give_back(std::mem::take(&mut self.held) == 0);
        }
    }
}

impl BorrowedPipe {
    // Most relays are short and have none.
    #[cold]
    fn give_back(self, is_empty: bool) {
        if is_empty && let Some(stock) = self.stock.upgrade() {
            stock.put_pipe_back(self.ends);
        }
    }
}

impl Drop for Pipe {
    #[inline]
    fn drop(&mut self) {
        self.give_back();
    }
}
