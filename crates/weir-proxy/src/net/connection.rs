//! A socket together with the bytes that were received on it and not yet consumed.
//!
//! Both sides of an exchange are connections. TLS is between socket and input here, where there is any; nothing above
//! may read or write the socket past this type.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::net::buffer::{Buffer, BufferStock};
use crate::net::socket::{Behind, PeerState, Socket};
use crate::net::tls::records::Records;

/// One side's connection: client or server.
#[derive(Debug)]
pub struct Connection {
    pub(crate) socket: Socket,
    /// What encrypts and decrypts, once there is TLS.
    pub(crate) tls: Option<Box<Records>>,
    /// Received and not consumed; absent when empty and nothing is arriving.
    pub(crate) input: Option<Buffer>,
}

impl Connection {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None, input: None }
    }

    /// The received bytes that wait to be consumed.
    pub fn received(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Buffer::filled)
    }

    /// The protocol that the TLS handshake agreed on (ALPN).
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.protocol()
    }

    /// Whether there is TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether received bytes wait to be consumed.
    pub(crate) fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.is_empty())
            || self.tls.as_ref().is_some_and(|tls| tls.has_received())
    }

    /// Whether written bytes wait for the kernel to take them.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// The socket, if what it carries may go on as it is and nothing of it waits to be consumed.
    pub(crate) fn bare_socket(&mut self) -> Option<&mut Socket> {
        (self.tls.is_none() && !self.has_input()).then_some(&mut self.socket)
    }

    /// The socket, if what is written to it leaves as it is.
    pub(crate) fn outlet(&mut self) -> Option<&mut Socket> {
        self.tls.is_none().then_some(&mut self.socket)
    }

    /// Drops the first `len` received bytes, and the buffer once it is empty.
    pub fn consume(&mut self, len: usize) {
        if let Some(input) = &mut self.input {
            input.consume(len);
            if input.is_empty() {
                self.input = None;
            }
        }
    }

    /// Reads once behind what is already there; `Ok(0)` is the end of the stream. Takes a buffer only when the
    /// socket is readable, and none while the stock is dry. The caller makes sure that the input is not full.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        if self.input.as_ref().is_none_or(Buffer::is_aside) && stock.is_exhausted_for(cx) {
            return Poll::Pending;
        }
        if let Some(tls) = &mut self.tls {
            ready!(tls.poll_decrypted(cx, &mut self.socket, stock))?;
            let input = self.input.get_or_insert_with(|| stock.take());
            debug_assert!(!input.is_full());
            let len = tls.read(input.space())?;
            input.fill(len);
            if input.is_empty() {
                self.input = None;
            }
            return Poll::Ready(Ok(len));
        }
        if let Some(input) = &mut self.input {
            debug_assert!(!input.is_full());
            let len = ready!(self.socket.poll_read(cx, input.space()))?;
            input.fill(len);
            return Poll::Ready(Ok(len));
        }
        let (mut taken, sends_much) = (None, self.socket.sends_much);
        let place = &mut taken;
        let take = || if sends_much { stock.take_large() } else { stock.take() };
        let len = ready!(self.socket.poll_read_when_ready(cx, || place.insert(take()).space()))?;
        self.socket.sends_much = len >= stock.size();
        self.input = taken.filter(|_| len > 0);
        if let Some(input) = &mut self.input {
            input.fill(len);
        }
        Poll::Ready(Ok(len))
    }

    /// What comes behind the received bytes, when they are passed on as they are: at once more of them, or the end, if the
    /// event loop has already reported that.
    pub(crate) fn behind_received(&self) -> Behind {
        if self.tls.is_none() && self.socket.is_ending() { Behind::More } else { Behind::Unknown }
    }

    /// Takes in what a new connection brought with it, without a turn of the event loop; whether there was anything. With
    /// TLS, that was the handshake.
    pub(crate) fn fill_at_once(&mut self, stock: &Rc<BufferStock>) -> bool {
        if self.tls.is_some() {
            return false;
        }
        let mut input = stock.take();
        let len = match self.socket.try_read(input.space()) {
            Ok(len) => len,
            // An end shows again when the event loop reports it, a reset does not.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.socket.give_up(&error);
                0
            }
            Err(_) => 0,
        };
        input.fill(len);
        self.input = (len > 0).then_some(input);
        len > 0
    }

    /// Waits until a read would find something; holds no buffer meanwhile.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.tls {
            Some(tls) if tls.has_news() => Poll::Ready(Ok(())),
            _ => self.socket.poll_readable(cx),
        }
    }

    /// The state of the peer since the last read; registers `cx` for the next event. TLS records are decrypted.
    pub(crate) fn poll_peer(&mut self, cx: &mut Context<'_>) -> PeerState {
        match &mut self.tls {
            None => self.socket.poll_peer(cx),
            Some(tls) => tls.poll_peer(cx, &mut self.socket),
        }
    }

    /// Whether the peer has neither sent nor closed anything: see [`Socket::is_quiet`].
    pub(crate) fn is_quiet(&mut self, thorough: bool) -> bool {
        match &mut self.tls {
            None => self.socket.is_quiet(thorough),
            Some(tls) => tls.is_quiet(&mut self.socket, thorough),
        }
    }

    /// Whether none of the last `written` bytes have reached the peer's system, as far as is known by now. Of TLS, whose records hold more
    /// bytes than were written, it is not known.
    pub(crate) fn has_delivered_none(&self, written: u64) -> bool {
        self.tls.is_none() && written > 0 && self.socket.unacknowledged() as u64 >= written
    }

    /// Whether the peer has reset the connection, as far as is known by now.
    pub(crate) fn is_reset(&self) -> bool {
        self.socket.is_reset()
    }

    /// Ends our direction of the stream behind all that was written, without `close_notify`, so that a peer with TLS detects the truncation.
    pub(crate) fn poll_cut_short(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.has_unsent() {
            if ready!(self.poll_write(cx, [&[], &[], &[]], Behind::More)).is_err() {
                break;
            }
        }
        self.socket.shutdown_write();
        Poll::Ready(())
    }

    /// Ends our direction of the stream, with `close_notify` where there is TLS; an error means that the peer is gone
    /// already.
    pub fn poll_shutdown_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_send_end(cx));
        self.socket.shutdown_write();
        Poll::Ready(())
    }

    /// The same for a connection that is closed next, which says the end where there is no TLS.
    pub(crate) fn poll_send_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(tls) = &mut self.tls {
            let _gone = ready!(tls.poll_close(cx, &mut self.socket));
        }
        Poll::Ready(())
    }

    /// The same without waiting, where it is optional.
    pub fn send_end_now(&mut self) {
        let _sent = self.poll_send_end(&mut Context::from_waker(std::task::Waker::noop()));
    }

    /// Writes as much of the slices as the kernel takes now, with one system call. With TLS it may take more, and
    /// [`Connection::has_unsent`] then.
    #[inline]
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: [&[u8]; 3],
        behind: Behind,
    ) -> Poll<io::Result<usize>> {
        if let Some(tls) = &mut self.tls {
            return tls.poll_write(cx, &mut self.socket, slices, behind);
        }
        match slices {
            [only, [], []] | [[], only, []] | [[], [], only] => self.socket.poll_write(cx, only, behind),
            slices => self.socket.poll_write_slices(cx, &slices.map(IoSlice::new), behind),
        }
    }
}
