//! TLS records over a socket: what the peer sent, decrypted; what goes to the peer, encrypted and sent in one system call.
//!
//! Bytes count as written once they are encrypted; what the kernel does not take then waits here and goes first. Holds no
//! buffer of its own while nothing moves. Must not wait for a handshake: see `handshake`.

use std::io::{self, IoSlice, Read as _, Write};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ProtocolVersion};
use weir_observe::access_log::TlsRecord;

use super::clients::ClientCertificate;
use super::terms::suite_name;
use crate::buffer::{Buffer, BufferStock};
use crate::socket::{Behind, PeerState, Socket};

/// Decrypted bytes beyond which no further record is taken in before they are read: what rustls allows.
const DECRYPTED_MAX: usize = 16 * 1024;

/// Reads after which a peer that still sends something is not quiet: two tickets of 250 bytes each are usual.
const QUIET_READS_MAX: usize = 4;

/// One TLS connection without its socket.
#[derive(Debug)]
pub(crate) struct Records {
    session: rustls::Connection,
    /// Received and not yet taken in; absent when empty, as it is unless decrypted bytes wait to be read.
    wire: Option<Buffer>,
    /// Decrypted bytes that wait to be read.
    decrypted: usize,
    /// Whether the peer has said that it sends no more.
    peer_closed: bool,
    /// Whether the kernel took less than was encrypted.
    congested: bool,
    /// Whether the peer has been told that nothing more comes.
    notified: bool,
    /// How long the handshake took, in microseconds, if the peer is a client.
    pub(crate) handshake_micros: u32,
    /// The certificate that a client has shown.
    pub(crate) client_certificate: Option<Box<ClientCertificate>>,
}

impl Records {
    /// The records of `session`, of which `received` has arrived already.
    pub(crate) fn new(session: rustls::Connection, received: Option<Buffer>) -> Self {
        Self {
            session,
            wire: received,
            decrypted: 0,
            peer_closed: false,
            congested: false,
            notified: false,
            handshake_micros: 0,
            client_certificate: None,
        }
    }

    /// What the handshake agreed on, for the log.
    pub(crate) fn record(&self) -> TlsRecord<'_> {
        let suite = self.session.negotiated_cipher_suite().map(|suite| suite.suite());
        let server_name = match &self.session {
            rustls::Connection::Server(session) => session.server_name(),
            rustls::Connection::Client(_) => None,
        };
        TlsRecord {
            version: if self.is_version_13() { "1.3" } else { "1.2" },
            cipher_suite: suite.map_or("", suite_name),
            server_name: server_name.unwrap_or_default(),
            resumed: self.is_resumed(),
            client_subject: "",
            client_fingerprint: "",
        }
    }

    /// The certificate that the peer has shown, in this handshake or in the one whose session goes on.
    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.session.peer_certificates()?.first()
    }

    /// Whether the handshake agreed on TLS 1.3.
    pub(crate) fn is_version_13(&self) -> bool {
        self.session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// Whether the handshake went on with an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether bytes of the peer wait to be read, decrypted or not.
    pub(crate) fn has_received(&self) -> bool {
        self.decrypted > 0 || self.wire.is_some()
    }

    /// Whether a read has something to tell without the socket: bytes or the end.
    pub(crate) fn has_news(&self) -> bool {
        self.has_received() || self.peer_closed
    }

    /// Whether encrypted bytes wait for the kernel.
    pub(crate) fn has_unsent(&self) -> bool {
        self.congested
    }

    /// Waits until decrypted bytes or the end can be read; takes a buffer only when the socket is readable.
    ///
    /// # Errors
    /// `UnexpectedEof` when the connection ended without the word of the peer that this is the end, `InvalidData` with the
    /// error of rustls when the peer broke the protocol, and those of `recv(2)`.
    pub(crate) fn poll_decrypted(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        stock: &Rc<BufferStock>,
    ) -> Poll<io::Result<()>> {
        loop {
            self.take_in(cx, socket)?;
            if self.decrypted > 0 || self.peer_closed {
                return Poll::Ready(Ok(()));
            }
            if self.session.wants_write() {
                // An answer to a change of keys, say. A socket that takes nothing now gets it with the next write.
                let _later = self.poll_flush(cx, socket, Behind::Unknown)?;
            }
            ready!(self.poll_receive(cx, socket, stock))?;
        }
    }

    /// Reads decrypted bytes that [`Records::poll_decrypted`] has found; 0 is the end.
    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if self.decrypted == 0 {
            return Ok(0);
        }
        let len = self.session.reader().read(space)?;
        self.decrypted -= len;
        Ok(len)
    }

    /// Moves the handshake on until it is over; `behind` is what comes after our last word in it.
    ///
    /// # Errors
    /// As [`Records::poll_decrypted`].
    pub(crate) fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        stock: &Rc<BufferStock>,
        behind: Behind,
    ) -> Poll<io::Result<()>> {
        loop {
            self.take_in(cx, socket)?;
            if !self.session.is_handshaking() {
                // Tickets for the client leave with the first response, if the first request has come already.
                return if self.decrypted > 0 {
                    Poll::Ready(Ok(()))
                } else {
                    self.poll_flush(cx, socket, behind)
                };
            }
            ready!(self.poll_flush(cx, socket, Behind::Unknown))?;
            ready!(self.poll_receive(cx, socket, stock))?;
        }
    }

    /// Whether the peer has neither sent nor closed anything that matters above: see [`Socket::is_quiet`]. Tickets and new
    /// keys are taken in here, so that a server that sends some late does not lose its connection.
    pub(crate) fn is_quiet(&mut self, socket: &mut Socket, thorough: bool) -> bool {
        for _ in 0..QUIET_READS_MAX {
            if self.has_news() {
                return false;
            }
            if socket.is_quiet(thorough) {
                return true;
            }
            if self.take_in_at_once(socket).is_err() {
                return false;
            }
        }
        false
    }

    /// What is known of the peer; registers `cx` for the next news. Only its records tell whether it has sent something or ended its
    /// direction, so they are taken in until one of the two shows.
    pub(crate) fn poll_peer(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> PeerState {
        for _ in 0..QUIET_READS_MAX {
            if self.has_received() {
                return PeerState::Readable;
            }
            if self.peer_closed {
                return PeerState::Ended;
            }
            match socket.poll_peer(cx) {
                PeerState::Readable => {}
                state => return state,
            }
            if self.take_in_at_once(socket).is_err() {
                return PeerState::Gone;
            }
        }
        cx.waker().wake_by_ref();
        PeerState::Quiet
    }

    /// Receives and decrypts what is there, at most a kilobyte.
    fn take_in_at_once(&mut self, socket: &mut Socket) -> io::Result<()> {
        let mut space = [0; 1024];
        let len = socket.try_read(&mut space)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = &space[..len];
        // What stands behind the peer's last word is nothing.
        while !rest.is_empty() && !self.peer_closed {
            self.session.read_tls(&mut rest)?;
            let state = self.session.process_new_packets().map_err(io::Error::other)?;
            self.decrypted = state.plaintext_bytes_to_read();
            self.peer_closed = state.peer_has_closed();
        }
        Ok(())
    }

    /// What another worker needs to go on; `None` when something is under way.
    pub(crate) fn into_session(self) -> Option<rustls::Connection> {
        let is_idle = !self.has_news() && !self.congested && !self.notified;
        is_idle.then_some(self.session)
    }

    /// Receives once from the socket.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        stock: &Rc<BufferStock>,
    ) -> Poll<io::Result<()>> {
        debug_assert!(self.wire.is_none(), "what was received is taken in first");
        ready!(socket.poll_readable(cx))?;
        let mut wire = stock.take();
        let len = ready!(socket.poll_read(cx, wire.space()))?;
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        wire.fill(len);
        self.wire = Some(wire);
        Poll::Ready(Ok(()))
    }

    /// Decrypts what was received, as far as decrypted bytes have room; answers what the protocol wants answered.
    fn take_in(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> io::Result<()> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        while !wire.is_empty() && self.decrypted <= DECRYPTED_MAX && !self.peer_closed {
            let mut rest = wire.filled();
            let taken = self.session.read_tls(&mut rest)?;
            wire.consume(taken);
            let state = match self.session.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The peer shall know why, if it can be told at once.
                    let _gone = self.poll_flush(cx, socket, Behind::Close);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            self.decrypted = state.plaintext_bytes_to_read();
            self.peer_closed = state.peer_has_closed();
        }
        if wire.is_empty() || self.peer_closed {
            self.wire = None;
        }
        Ok(())
    }

    /// Encrypts as much of the slices as has room and sends it with one system call; counts what was encrypted.
    ///
    /// To be called again, with whatever there is, as long as [`Records::has_unsent`].
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        slices: [&[u8]; 3],
        behind: Behind,
    ) -> Poll<io::Result<usize>> {
        if self.congested {
            ready!(self.poll_flush(cx, socket, behind))?;
        }
        let whole = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let len = match slices {
            [[], [], []] => 0,
            [only, [], []] | [[], only, []] | [[], [], only] => self.session.writer().write(only)?,
            slices => self.session.writer().write_vectored(&slices.map(IoSlice::new))?,
        };
        if behind == Behind::Close && len == whole {
            self.notify();
        }
        match self.poll_flush(cx, socket, behind) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(len)),
        }
    }

    /// Tells the peer that nothing more comes, and waits until the kernel has that.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<io::Result<()>> {
        self.notify();
        self.poll_flush(cx, socket, Behind::Close)
    }

    fn notify(&mut self) {
        if !std::mem::replace(&mut self.notified, true) {
            self.session.send_close_notify();
        }
    }

    /// Sends what is encrypted.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        behind: Behind,
    ) -> Poll<io::Result<()>> {
        let mut outlet = Outlet { cx, socket, behind };
        while self.session.wants_write() {
            self.congested = true;
            match self.session.write_tls(&mut outlet) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.congested = false;
        Poll::Ready(Ok(()))
    }
}

/// A socket as rustls writes to it: `WouldBlock` when the task will be woken.
struct Outlet<'a, 'b> {
    cx: &'a mut Context<'b>,
    socket: &'a mut Socket,
    behind: Behind,
}

impl Write for Outlet<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_would_block(self.socket.poll_write(self.cx, bytes, self.behind))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        or_would_block(match slices {
            [only] => self.socket.poll_write(self.cx, only, self.behind),
            slices => self.socket.poll_write_slices(self.cx, slices, self.behind),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn or_would_block(outcome: Poll<io::Result<usize>>) -> io::Result<usize> {
    match outcome {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
