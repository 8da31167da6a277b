//! One end of a tunnel: where raw bytes come from, and where those of the other end go.
//!
//! It is a connection of its own, or a stream of a connection that others share, whose bytes wait in memory. Must not know what the
//! bytes mean, nor whether the peer is a client or a server.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::net::buffer::{Buffer, BufferStock};
use crate::net::connection::Connection;
use crate::net::socket::{Behind, Socket};

/// One end of a tunnel. The two directions are independent of each other: each ends by itself.
pub(crate) trait TunnelEnd {
    /// The received bytes that wait to be consumed.
    fn received(&self) -> &[u8];

    /// Drops the first `len` received bytes.
    fn consume(&mut self, len: usize);

    /// Reads once, when everything received is consumed; `Ok(0)` means that the peer has ended its direction. An error, as when the
    /// peer has aborted the tunnel, comes behind the bytes that were received before.
    fn poll_fill(&mut self, cx: &mut Context<'_>, stock: &Rc<BufferStock>) -> Poll<io::Result<usize>>;

    /// What comes behind the received bytes, as far as it is known.
    fn behind_received(&self) -> Behind {
        Behind::Unknown
    }

    /// Takes as much of `bytes` as there is room for now.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], behind: Behind) -> Poll<io::Result<usize>>;

    /// Waits until the bytes that were taken have left, as far as they have to before others are taken.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends our direction behind everything that was written. May be called again; an error means that the peer is gone already.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The same for an end that is dropped next, where both directions are over. Where dropping it says the end, nothing else has to.
    fn poll_last_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_end(cx)
    }

    /// The error with which the peer has aborted both directions, if that shows without a read or a write; registers `cx` for it.
    fn poll_aborted(&mut self, _cx: &mut Context<'_>) -> Option<io::Error> {
        None
    }

    /// Has the drop of this end tell the peer that the tunnel is incomplete.
    fn abort(&mut self);

    /// Has everything that was written leave without waiting for more.
    fn push(&self) {}

    /// How many of the written bytes an abort would take back, as far as that is known; 0 when the peer is gone.
    fn undelivered(&self) -> usize {
        0
    }

    /// Whether the last read has filled a whole buffer.
    fn has_filled_buffer(&self) -> bool {
        false
    }

    /// The socket, if it is a plain one from which bytes may go on as they are, and nothing received waits to be consumed.
    fn bare_socket(&mut self) -> Option<&mut Socket> {
        None
    }

    /// The socket, if it is a plain one and what is written to it leaves as it is.
    fn outlet(&mut self) -> Option<&mut Socket> {
        None
    }
}

impl TunnelEnd for Connection {
    #[inline]
    fn received(&self) -> &[u8] {
        Connection::received(self)
    }

    #[inline]
    fn consume(&mut self, len: usize) {
        Connection::consume(self, len);
    }

    #[inline]
    fn poll_fill(&mut self, cx: &mut Context<'_>, stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        Connection::poll_fill(self, cx, stock)
    }

    #[inline]
    fn behind_received(&self) -> Behind {
        Connection::behind_received(self)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], behind: Behind) -> Poll<io::Result<usize>> {
        Connection::poll_write(self, cx, [bytes, &[], &[]], behind)
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.has_unsent() {
            ready!(Connection::poll_write(self, cx, [&[], &[], &[]], Behind::Unknown))?;
        }
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_shutdown_write(cx)
    }

    #[inline]
    fn poll_last_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_send_end(cx)
    }

    fn abort(&mut self) {
        self.socket.abort_on_close();
    }

    fn push(&self) {
        self.socket.push();
    }

    fn undelivered(&self) -> usize {
        match self.socket.unacknowledged() {
            0 => 0,
            _ if self.socket.is_gone() => 0,
            len => len,
        }
    }

    #[inline]
    fn has_filled_buffer(&self) -> bool {
        self.input.as_ref().is_some_and(Buffer::is_full)
    }

    #[inline]
    fn bare_socket(&mut self) -> Option<&mut Socket> {
        Connection::bare_socket(self)
    }

    #[inline]
    fn outlet(&mut self) -> Option<&mut Socket> {
        Connection::outlet(self)
    }
}
