//! A connected stream socket (TCP or Unix), known to the event loop of its worker from the first wait on.
//!
//! Reads and writes are tried at once and only then waited for; a short read tells the event loop that the socket
//! is drained, which saves the extra system call that would find it empty. Must not buffer, frame or time anything.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustix::pipe::SpliceFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::net::{memory, sys};

/// Pages change hands where that is possible, and nothing waits.
const SPLICE: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// A connected, non-blocking stream socket.
#[derive(Debug)]
pub(crate) struct Socket {
    watch: Watch,
    /// Whether the event loop watches for room to write as well: from the first write that found none, for nearly every
    /// socket always has some.
    watches_writes: bool,
    /// Whether the event loop had reported the end of the stream at the last read.
    is_ending: bool,
    /// Whether the last read of its connection filled an ordinary buffer: the next may take a large one. It is here for its size.
    pub(super) sends_much: bool,
    /// What [`Socket::poll_readable`] has found, for the read that follows it: whether the end of the stream was reported, too.
    found_readable: Option<bool>,
}

/// The error of a socket that the event loop refused.
const REFUSED: io::ErrorKind = io::ErrorKind::NotConnected;

/// Whether the event loop watches a socket.
#[derive(Debug)]
enum Watch {
    /// Not yet, since there was no wait. A short connection can come and go without two system calls and a wake-up.
    NotYet(OwnedFd),
    /// For something to read, at least.
    Watched(AsyncFd<OwnedFd>),
    /// Not any more, since the event loop refused it or it has failed: the descriptor is closed, and every call returns this error.
    Closed(io::ErrorKind),
}

/// What comes behind the bytes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Unknown: they are sent at once.
    Unknown,
    /// More of them, or the end, at once: they wait for it and leave in the same packet.
    More,
    /// The end of our direction, at once: the last of them wait for it and leave in the same packet, which spares both
    /// sides the work of another.
    Close,
}

impl Behind {
    fn flags(self) -> SendFlags {
        match self {
            Behind::Unknown => SendFlags::NOSIGNAL,
            Behind::More | Behind::Close => SendFlags::NOSIGNAL.union(SendFlags::MORE),
        }
    }
}

/// The state of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// Nothing new.
    Quiet,
    /// Bytes wait to be read.
    Readable,
    /// The peer has ended its direction, and every byte before that was read.
    Ended,
    /// The connection was reset or closed in both directions.
    Gone,
}

impl Socket {
    /// Takes a connected, non-blocking descriptor; registered with the event loop at the first wait.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            watch: Watch::NotYet(fd),
            watches_writes: false,
            is_ending: false,
            sends_much: false,
            found_readable: None,
        }
    }

    /// Takes a descriptor that is still connecting: room to write will say that it has connected.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`.
    pub(crate) fn connecting(fd: OwnedFd) -> io::Result<Self> {
        let fd = sys::watch(fd, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            watch: Watch::Watched(fd),
            watches_writes: true,
            is_ending: false,
            sends_much: false,
            found_readable: None,
        })
    }

    /// Bounds what the kernel holds of it that was not sent yet. There is no such bound where the socket is not one of TCP.
    pub(crate) fn limit_unsent(&self, bytes: u32) {
        let bytes = memory::unsent_max().map_or(bytes, |max| max.min(bytes));
        let _unsupported = self.fd().and_then(|fd| sys::set_unsent_max(fd, bytes));
    }

    /// Whether the event loop reports when there is something to read.
    pub(crate) fn is_watched(&self) -> bool {
        !matches!(self.watch, Watch::NotYet(_))
    }

    /// Whether the end of the stream comes right behind what was last read.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Closes it, for an error that the kernel reports only once: every later call returns it too.
    #[cold]
    pub(crate) fn give_up(&mut self, error: &io::Error) {
        self.watch = Watch::Closed(error.kind());
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.watch {
            Watch::NotYet(fd) => Ok(fd.as_fd()),
            Watch::Watched(fd) => Ok(fd.as_fd()),
            Watch::Closed(kind) => Err((*kind).into()),
        }
    }

    /// The descriptor as the event loop sees it, registered for reading by now.
    #[inline]
    fn watched(&mut self) -> io::Result<&AsyncFd<OwnedFd>> {
        if let Watch::NotYet(_) = self.watch {
            self.watch_reads()?;
        }
        match &self.watch {
            Watch::Watched(fd) => Ok(fd),
            Watch::NotYet(_) => Err(REFUSED.into()),
            Watch::Closed(kind) => Err((*kind).into()),
        }
    }

    /// Has the event loop watch for something to read.
    #[cold]
    fn watch_reads(&mut self) -> io::Result<()> {
        if let Watch::NotYet(fd) = std::mem::replace(&mut self.watch, Watch::Closed(REFUSED)) {
            self.watch = Watch::Watched(sys::watch(fd, Interest::READABLE)?);
        }
        Ok(())
    }

    /// The descriptor as the event loop sees it, registered for writing as well; what is readable is then reported again, but not to
    /// tasks that waited before.
    fn watched_for_writes(&mut self) -> io::Result<&AsyncFd<OwnedFd>> {
        if !self.watches_writes {
            let fd = match std::mem::replace(&mut self.watch, Watch::Closed(REFUSED)) {
                Watch::NotYet(fd) => fd,
                Watch::Watched(fd) => fd.into_inner(),
                Watch::Closed(kind) => {
                    self.watch = Watch::Closed(kind);
                    return Err(kind.into());
                }
            };
            self.watch = Watch::Watched(sys::watch(fd, Interest::READABLE | Interest::WRITABLE)?);
            self.watches_writes = true;
        }
        self.watched()
    }

    /// Reads into `space`; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.is_watched() {
            match self.try_read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
        self.poll_read_when_ready(cx, || space)
    }

    /// Reads into the space that `take` makes when there is something to read; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read_when_ready<'a>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce() -> &'a mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(is_ending) = self.found_readable.take() else { return self.poll_read_reported(cx, take) };
        let (fd, space) = (self.watched()?, take());
        let mut read = None;
        let outcome = fd.try_io(Interest::READABLE, |fd| {
            let received =
                rustix::io::retry_on_intr(|| rustix::net::recv(fd, &mut *space, RecvFlags::empty()));
            let len = received?.0;
            read = Some(len);
            // Drained by a short read: the event loop is to report what comes next, as after a read that finds nothing.
            if 0 < len && len < space.len() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match (read, outcome) {
            (Some(len), _) => {
                self.is_ending = is_ending;
                Poll::Ready(Ok(len))
            }
            (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Poll::Ready(Err(error)),
            (None, _) => self.poll_read_reported(cx, move || space),
        }
    }

    /// The same once the event loop says that there is something.
    fn poll_read_reported<'a>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce() -> &'a mut [u8],
    ) -> Poll<io::Result<usize>> {
        let fd = self.watched()?;
        let mut ready = ready!(fd.poll_read_ready(cx))?;
        let space = take();
        debug_assert!(!space.is_empty());
        loop {
            match rustix::net::recv(fd, &mut *space, RecvFlags::empty()) {
                Ok((len, _)) => {
                    let is_ending = ready.ready().is_read_closed();
                    if 0 < len && len < space.len() {
                        ready.clear_ready();
                    }
                    self.is_ending = is_ending;
                    return Poll::Ready(Ok(len));
                }
                Err(rustix::io::Errno::AGAIN) => {
                    ready.clear_ready();
                    ready = ready!(fd.poll_read_ready(cx))?;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Reads once, without waiting for the event loop.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, and those of `recv(2)`.
    pub(crate) fn try_read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let fd = self.fd()?;
        let (len, _) = rustix::io::retry_on_intr(|| rustix::net::recv(fd, &mut *space, RecvFlags::empty()))?;
        Ok(len)
    }

    /// Waits until a read would find something; holds no buffer meanwhile.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_ending = ready!(self.watched()?.poll_read_ready(cx))?.ready().is_read_closed();
        self.found_readable = Some(is_ending);
        Poll::Ready(Ok(()))
    }

    /// Writes as much of `bytes` as the kernel takes now.
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        behind: Behind,
    ) -> Poll<io::Result<usize>> {
        loop {
            // Tried before asking for readiness: a socket that was never full has no event to wait for.
            match rustix::net::send(self.fd()?, bytes, behind.flags()) {
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
        behind: Behind,
    ) -> Poll<io::Result<usize>> {
        loop {
            match rustix::net::sendmsg(self.fd()?, slices, &mut Default::default(), behind.flags()) {
                Ok(len) => return Poll::Ready(Ok(len)),
                Err(rustix::io::Errno::AGAIN) => ready!(self.poll_writable_again(cx))?,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Moves up to `len` received bytes into an empty pipe; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_splice_to(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &OwnedFd,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        let fd = self.watched()?;
        loop {
            let mut ready = ready!(fd.poll_read_ready(cx))?;
            match rustix::pipe::splice(fd, None, pipe, None, len, SPLICE) {
                Ok(len) => return Poll::Ready(Ok(len)),
                // The pipe has room, so it is the socket that has nothing.
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Sends up to `len` bytes that are in a pipe.
    pub(crate) fn poll_splice_from(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &OwnedFd,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            match rustix::pipe::splice(pipe, None, self.fd()?, None, len, SPLICE) {
                Ok(len) => return Poll::Ready(Ok(len)),
                Err(rustix::io::Errno::AGAIN) => ready!(self.poll_writable_again(cx))?,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Sends bytes of a file, as many as the kernel takes now; `Ok(0)` is the end of the file.
    pub(crate) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        start: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut offset = start;
            match rustix::fs::sendfile(self.fd()?, file, Some(&mut offset), len) {
                Ok(len) => return Poll::Ready(Ok(len)),
                Err(rustix::io::Errno::AGAIN) => ready!(self.poll_writable_again(cx))?,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// After a write found the socket full: forgets the old readiness, then waits for the next.
    fn poll_writable_again(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_new = !self.watches_writes;
        let fd = self.watched_for_writes()?;
        // A task that waited to read lost its waker with the old registration: it is woken to register again.
        if is_new && fd.poll_read_ready(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        let mut ready = ready!(fd.poll_write_ready(cx))?;
        // A readiness that arrived between the failed write and this line is kept by its tick; one that was there
        // before is stale and must go, or the loop would spin.
        if ready.ready().is_write_closed() {
            return Poll::Ready(Ok(()));
        }
        ready.clear_ready();
        drop(ready);
        fd.poll_write_ready(cx).map_ok(|_guard| ())
    }

    /// Waits until the socket takes bytes again, as after `connect(2)`.
    pub(crate) async fn writable(&mut self) -> io::Result<()> {
        self.watched_for_writes()?.writable().await.map(|_guard| ())
    }

    /// The state of the peer since the last read, as the event loop reports it; registers `cx` for the next event.
    pub(crate) fn poll_peer(&mut self, cx: &mut Context<'_>) -> PeerState {
        let Ok(fd) = self.watched() else { return PeerState::Gone };
        loop {
            let mut guard = match fd.poll_read_ready(cx) {
                Poll::Pending => return PeerState::Quiet,
                Poll::Ready(Err(_)) => return PeerState::Gone,
                Poll::Ready(Ok(guard)) => guard,
            };
            match peek(fd) {
                Ok(0) => return PeerState::Ended,
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

    /// Whether the connection was reset or closed in both directions. Asks the kernel: as long as something waits to be
    /// read, the event loop does not report it.
    pub(crate) fn is_gone(&self) -> bool {
        let Ok(fd) = self.fd() else { return true };
        // Errors and hang-ups are reported without being requested.
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        let answered = rustix::event::poll(&mut polled, Some(&Timespec::default()));
        answered.is_ok() && !polled[0].revents().is_empty()
    }

    /// Whether the peer has ended its direction, whatever waits to be read before that. Asks the kernel.
    pub(crate) fn is_read_closed(&self) -> bool {
        let Ok(fd) = self.fd() else { return true };
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
        let answered = rustix::event::poll(&mut polled, Some(&Timespec::default()));
        answered.is_ok() && !polled[0].revents().is_empty()
    }

    /// Copies what waits to be read without taking it.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, and those of `recv(2)`.
    pub(crate) fn peek(&self, space: &mut [u8]) -> io::Result<usize> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        Ok(rustix::net::recv(self.fd()?, space, flags).map(|(len, _)| len)?)
    }

    /// Whether the peer has neither sent nor closed anything: the check before an idle connection is used again.
    ///
    /// Costs no system call unless the event loop reports something. `thorough` asks the kernel in any case, which
    /// also sees what arrived since the event loop last looked.
    pub(crate) fn is_quiet(&mut self, thorough: bool) -> bool {
        let Ok(fd) = self.watched() else { return false };
        // Without a waker, since nothing waits here: what the event loop has reported is only looked at.
        let mut is_reported = false;
        let peeked = fd.try_io(Interest::READABLE, |fd| {
            is_reported = true;
            peek(fd).map_err(io::Error::from)
        });
        match peeked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                is_reported || !thorough || peek(fd) == Err(rustix::io::Errno::AGAIN)
            }
            _ => false,
        }
    }

    /// The address at our end; none on a Unix socket. IPv4 addresses are never mapped into IPv6.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        let addr = SocketAddr::try_from(rustix::net::getsockname(self.fd().ok()?).ok()?).ok()?;
        Some(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
    }

    /// The pending error of the socket, as after `connect(2)`.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        rustix::net::sockopt::socket_error(self.fd()?)?.map_err(io::Error::from)
    }

    /// Sends what a write has left to wait for more.
    pub(crate) fn push(&self) {
        if let Ok(fd) = self.fd() {
            // Set anew, it sends what waits (tcp(7)); a Unix socket has nothing that waits, and refuses.
            let _unix = rustix::net::sockopt::set_tcp_nodelay(fd, true);
        }
    }

    /// How many bytes that were written have not reached the peer's system: a reset would take them back. On a Unix socket it
    /// would not, and there are none.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.fd().map_or(0, |fd| sys::unacknowledged(fd).unwrap_or(0))
    }

    /// Whether the peer has reset the connection, as far as the kernel knows by now. A Unix socket has no such state.
    pub(crate) fn is_reset(&self) -> bool {
        self.fd().is_ok_and(|fd| sys::is_reset(fd).unwrap_or(false))
    }

    /// Ends our direction of the stream (FIN); errors mean that the peer is gone already.
    pub(crate) fn shutdown_write(&self) {
        if let Ok(fd) = self.fd() {
            let _gone = rustix::net::shutdown(fd, Shutdown::Write);
        }
    }

    /// Makes the close that follows send RST, so that the peer cannot take what it has for the whole.
    pub(crate) fn abort_on_close(&self) {
        if let Ok(fd) = self.fd() {
            let _gone = rustix::net::sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO));
        }
    }

    /// Takes the descriptor back from the event loop, for another worker.
    pub(crate) fn into_fd(self) -> Option<OwnedFd> {
        match self.watch {
            Watch::NotYet(fd) => Some(fd),
            Watch::Watched(fd) => Some(fd.into_inner()),
            Watch::Closed(_) => None,
        }
    }
}

/// Looks at the next byte without taking it; `Ok(0)` is the end of the stream.
fn peek(fd: impl AsFd) -> rustix::io::Result<usize> {
    let mut byte = [0_u8; 1];
    rustix::net::recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(len, _)| len)
}
