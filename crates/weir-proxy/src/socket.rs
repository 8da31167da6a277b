//! A connected stream socket (TCP or Unix) registered with the event loop of its worker.
//!
//! Reads and writes are tried at once and only then waited for; a short read tells the event loop that the socket
//! is drained, which saves the extra system call that would find it empty. Must not buffer, frame or time anything.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys;

/// A connected, non-blocking stream socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: AsyncFd<OwnedFd>,
}

/// What the event loop knows about the other side without a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// Nothing new.
    Quiet,
    /// Bytes (or a half-close) wait to be read.
    Readable,
    /// The connection was reset or closed in both directions.
    Gone,
}

impl Socket {
    /// Registers a connected, non-blocking descriptor with the current event loop.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`.
    pub(crate) fn register(fd: OwnedFd) -> io::Result<Self> {
        let fd = sys::watch(fd, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { fd })
    }

    /// Reads into `space`; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        debug_assert!(!space.is_empty());
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            match rustix::net::recv(&self.fd, &mut *space, RecvFlags::empty()) {
                Ok((len, _)) => {
                    if 0 < len && len < space.len() {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(len));
                }
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Waits until a read would find something; holds no buffer meanwhile.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_read_ready(cx).map_ok(|_guard| ())
    }

    /// Writes as much of `bytes` as the kernel takes now.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            // Tried before asking for readiness: a socket that was never full has no event to wait for.
            match rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(len) => return Poll::Ready(Ok(len)),
                Err(rustix::io::Errno::AGAIN) => ready!(self.poll_writable_again(cx))?,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Writes several slices with one system call.
    pub(crate) fn poll_write_slices(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            match rustix::net::sendmsg(&self.fd, slices, &mut Default::default(), SendFlags::NOSIGNAL) {
                Ok(len) => return Poll::Ready(Ok(len)),
                Err(rustix::io::Errno::AGAIN) => ready!(self.poll_writable_again(cx))?,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// After a write found the socket full: forgets the old readiness, then waits for the next.
    fn poll_writable_again(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ready = ready!(self.fd.poll_write_ready(cx))?;
        // A readiness that arrived between the failed write and this line is kept by its tick; one that was there
        // before is stale and must go, or the loop would spin.
        if ready.ready().is_write_closed() {
            return Poll::Ready(Ok(()));
        }
        ready.clear_ready();
        drop(ready);
        self.fd.poll_write_ready(cx).map_ok(|_guard| ())
    }

    /// Waits until the socket takes bytes again, as after `connect(2)`.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await.map(|_guard| ())
    }

    /// What the event loop has heard of the peer since the last read; registers `cx` for the next news.
    pub(crate) fn poll_peer(&self, cx: &mut Context<'_>) -> PeerState {
        loop {
            let mut guard = match self.fd.poll_read_ready(cx) {
                Poll::Pending => return PeerState::Quiet,
                Poll::Ready(Err(_)) => return PeerState::Gone,
                Poll::Ready(Ok(guard)) => guard,
            };
            match self.peek() {
                Ok(_) => return PeerState::Readable,
                // A closed stream stays ready: waiting for its next news would spin.
                Err(rustix::io::Errno::AGAIN) if guard.ready().is_read_closed() => {
                    return PeerState::Readable;
                }
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(_) => return PeerState::Gone,
            }
        }
    }

    /// Looks at the next byte without taking it; `Ok(0)` is the end of the stream.
    fn peek(&self) -> rustix::io::Result<usize> {
        let mut byte = [0_u8; 1];
        rustix::net::recv(&self.fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(len, _)| len)
    }

    /// Whether the peer has neither sent nor closed anything: the check before an idle connection is used again.
    ///
    /// Costs no system call unless the event loop reports something. `thorough` asks the kernel in any case, which
    /// also sees what arrived since the event loop last looked.
    pub(crate) fn is_quiet(&self, thorough: bool) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let guard = match self.fd.poll_read_ready(&mut cx) {
            Poll::Pending if !thorough => return true,
            Poll::Pending => None,
            Poll::Ready(Ok(guard)) => Some(guard),
            Poll::Ready(Err(_)) => return false,
        };
        match self.peek() {
            Err(rustix::io::Errno::AGAIN) => {
                if let Some(mut guard) = guard {
                    guard.clear_ready();
                }
                true
            }
            _ => false,
        }
    }

    /// The pending error of the socket, as after `connect(2)`.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        rustix::net::sockopt::socket_error(&self.fd)?.map_err(io::Error::from)
    }

    /// Ends our direction of the stream (FIN); errors mean that the peer is gone already.
    pub(crate) fn shutdown_write(&self) {
        let _gone = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    /// Makes the close that follows send RST, so that the peer cannot take what it has for the whole.
    pub(crate) fn abort_on_close(&self) {
        let _gone = rustix::net::sockopt::set_socket_linger(&self.fd, Some(std::time::Duration::ZERO));
    }

    /// Takes the descriptor back from the event loop, for another worker.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd.into_inner()
    }
}
