//! Bulk bytes from socket to socket inside the kernel, through a pipe (splice(2)).
//!
//! A relay that copies spends most of its time copying: per GiB this costs a third of it or less. But it needs two system
//! calls for what may be few bytes, so it is for bodies that are long and for tunnels that are busy; and TLS has to see
//! its bytes. A pipe is taken when there is something to move and goes back to the worker when it is empty.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::buffer::BufferStock;
use crate::socket::Socket;

/// What is asked for at a time: all that a pipe of the usual size takes.
const CHUNK_MAX: usize = 64 * 1024;

/// The least that is worth a pipe.
pub(crate) const BULK_MIN: u64 = 64 * 1024;

/// The two ends of a pipe.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

impl Ends {
    /// A new pipe; `None` when the system has none to give.
    pub(crate) fn new() -> Option<Self> {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        Some(Self { read, write })
    }
}

/// A pipe on loan from the worker.
#[derive(Debug)]
pub(crate) struct Pipe {
    ends: Option<Ends>,
    /// Bytes in it.
    held: usize,
    stock: Weak<BufferStock>,
}

/// What one move came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes went into the pipe; none are the end of the stream.
    In(usize),
    /// So many bytes left it.
    Out(usize),
}

/// Whom a move waits for or failed on.
#[derive(Debug)]
pub(crate) enum Stopped {
    Reading(io::Error),
    Writing(io::Error),
}

impl Pipe {
    /// An empty pipe; `None` when the system has none to give.
    pub(crate) fn take(stock: &Rc<BufferStock>) -> Option<Self> {
        Some(Self { ends: Some(stock.take_pipe()?), held: 0, stock: Rc::downgrade(stock) })
    }

    /// Whether bytes are in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves bytes once: out of the pipe if there are any, else up to `len_max` into it.
    pub(crate) fn poll_move(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Socket,
        to: &mut Socket,
        len_max: u64,
    ) -> Poll<Result<Moved, Stopped>> {
        let ends = self.ends.as_ref().expect("present until it is dropped");
        if self.held > 0 {
            let len = ready!(to.poll_splice_from(cx, &ends.read, self.held)).map_err(Stopped::Writing)?;
            self.held -= len;
            return Poll::Ready(Ok(Moved::Out(len)));
        }
        let len_max = usize::try_from(len_max).unwrap_or(usize::MAX).min(CHUNK_MAX);
        let len = ready!(from.poll_splice_to(cx, &ends.write, len_max)).map_err(Stopped::Reading)?;
        self.held = len;
        Poll::Ready(Ok(Moved::In(len)))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // What is left in it belongs to nobody else.
        if self.held == 0
            && let (Some(stock), Some(ends)) = (self.stock.upgrade(), self.ends.take())
        {
            stock.put_pipe_back(ends);
        }
    }
}
