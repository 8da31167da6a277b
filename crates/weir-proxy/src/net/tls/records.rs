//! TLS records over a socket: what the peer sent, decrypted; what goes to the peer, encrypted and sent in one system call.
//!
//! Bytes count as written once they are encrypted; what the kernel does not take then waits here and goes first. Holds no
//! buffer of its own while nothing moves. Must not wait for a handshake: see `handshake`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::CertificateDer;
use rustls::{Error, HandshakeKind, InvalidMessage, ProtocolVersion};

use super::certificates;
use super::client_certificates::ClientCertificate;
use super::early_data::Skips;
use super::facts::TlsFacts;
use super::server_config::suite_name;
use super::session::{SessionProgress, TlsSession};
use crate::net::buffer::{Buffer, BufferStock};
use crate::net::socket::{Behind, PeerState, Socket};

/// Bytes that are encrypted at once: four records. More waits for the next call.
const PLAIN_MAX: usize = 64 * 1024;

/// What a record may take besides its bytes: header, nonce, type, tag, and room to spare (RFC 8446 section 5.2, RFC 5288 section 3).
const RECORD_OVERHEAD: usize = 64;

/// The bytes of one record, unless the peer asks for shorter ones.
const RECORD: usize = 16 * 1024;

/// Bytes of an incomplete message that are kept: what rustls allows for those of a handshake. Other records are shorter.
const WIRE_MAX: usize = 64 * 1024;

/// An incomplete record of up to so many bytes is kept in as many while its rest is waited for, and not in a whole buffer.
const FRAGMENT_MAX: usize = 4 * 1024;

/// Reads after which a peer that still sends something is not quiet: two tickets of 250 bytes each are usual.
const QUIET_READS_MAX: usize = 4;

thread_local! {
    /// What the worker encrypts in. Empty between two calls, so that all its connections share it.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { gathered: Vec::new(), sealed: Vec::new() }) };
}

struct Scratch {
    /// Slices that share records, one behind the other.
    gathered: Vec<u8>,
    /// Records as they go to the peer.
    sealed: Vec<u8>,
}

/// One TLS connection without its socket.
#[derive(Debug)]
pub(crate) struct Records {
    session: TlsSession,
    /// Whether refused early data may still come.
    skips: Skips,
    /// Received and not yet taken in; absent when empty, as it is unless decrypted bytes wait to be read or a record is incomplete.
    wire: Option<Buffer>,
    /// Whether all that is whole in `wire` has been taken in.
    exhausted: bool,
    /// Decrypted bytes that wait in the session: one record.
    record: usize,
    /// Decrypted bytes before them, which had to make way or had no room where the record was read into.
    decrypted: Option<Buffer>,
    /// What broke the protocol behind the bytes that wait to be read.
    broken: Option<Box<Error>>,
    /// Whether something has broken the protocol: the session is not moved on any more.
    is_over: bool,
    /// Encrypted, not yet taken by the kernel, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether the peer has said that it sends no more.
    peer_closed: bool,
    /// Whether the kernel took less than was encrypted.
    congested: bool,
    /// Whether `close_notify` has been sent.
    notified: bool,
    /// How long the handshake took, in microseconds, if the peer is a client.
    pub(crate) handshake_micros: u32,
    /// The certificate that a client has shown.
    pub(crate) client_certificate: Option<Box<ClientCertificate>>,
    /// The SNI of a client.
    server_name: Option<Box<str>>,
}

impl Records {
    /// The records of `session`, of which `received` has arrived already.
    pub(crate) fn new(session: TlsSession, received: Option<Buffer>) -> Self {
        // Only clients send early data.
        let skips = if matches!(session, TlsSession::Server(_)) { Skips::May } else { Skips::Never };
        Self {
            session,
            skips,
            wire: received,
            exhausted: false,
            record: 0,
            decrypted: None,
            broken: None,
            is_over: false,
            unsent: Vec::new(),
            sent: 0,
            peer_closed: false,
            congested: false,
            notified: false,
            handshake_micros: 0,
            client_certificate: None,
            server_name: None,
        }
    }

    /// What the handshake agreed on.
    pub(crate) fn facts(&self) -> TlsFacts<'_> {
        let suite = self.session.negotiated_cipher_suite().map(|suite| suite.suite());
        TlsFacts {
            is_early: false,
            round_trip_micros: None,
            handshake_micros: self.handshake_micros,
            is_version_13: self.is_version_13(),
            is_resumed: self.is_resumed(),
            cipher_suite: suite.map_or("", suite_name),
            server_name: self.server_name.as_deref().unwrap_or_default(),
            client_certificate: self.client_certificate.as_deref(),
        }
    }

    /// The certificate that the peer has shown, in this handshake or in the one whose session goes on, followed by its intermediates.
    pub(crate) fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.session.peer_certificates()
    }

    /// Whether the handshake agreed on TLS 1.3.
    pub(crate) fn is_version_13(&self) -> bool {
        self.session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// The protocol that was agreed on (ALPN).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    /// Whether the handshake went on with an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether bytes of the peer wait to be read, decrypted or not.
    pub(crate) fn has_received(&self) -> bool {
        self.has_decrypted() || self.broken.is_some() || (self.wire.is_some() && !self.exhausted)
    }

    fn has_decrypted(&self) -> bool {
        self.record > 0 || self.decrypted.is_some()
    }

    /// Whether a read can return bytes or the end without the socket.
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
    /// `UnexpectedEof` when the connection ended without `close_notify` of the peer, `InvalidData` with the
    /// error of rustls when the peer broke the protocol, and those of `recv(2)`.
    pub(crate) fn poll_decrypted(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        stock: &Rc<BufferStock>,
    ) -> Poll<io::Result<()>> {
        loop {
            self.take_in(cx, socket)?;
            if self.has_decrypted() || self.peer_closed {
                return Poll::Ready(Ok(()));
            }
            let mut flushed = Poll::Pending;
            if !self.unsent.is_empty() {
                // An answer to a change of keys, say. A socket that takes nothing now gets it with the next write.
                flushed = self.poll_flush(cx, socket, Behind::Unknown);
            }
            let received = ready!(self.poll_receive(cx, socket, stock));
            // A peer that has closed may have answered before: only where nothing is left of that, it is the error of the connection.
            match flushed {
                Poll::Ready(Err(error)) if received.is_err() => return Poll::Ready(Err(error)),
                _ => received?,
            }
        }
    }

    /// Reads decrypted bytes that [`Records::poll_decrypted`] has found, of as many records as have arrived and have room; 0 is the end.
    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while self.has_decrypted() && len < space.len() {
            len += self.read_decrypted(&mut space[len..]);
            if self.has_decrypted() || self.wire.is_none() || self.exhausted || self.peer_closed {
                continue;
            }
            // An error behind valid bytes is reported when these have been read.
            self.broken = self.advance().err().map(Box::new);
        }
        Ok(len)
    }

    fn read_decrypted(&mut self, space: &mut [u8]) -> usize {
        if let Some(decrypted) = &mut self.decrypted {
            let len = decrypted.len().min(space.len());
            space[..len].copy_from_slice(&decrypted.filled()[..len]);
            decrypted.consume(len);
            if decrypted.is_empty() {
                self.decrypted = None;
            }
            return len;
        }
        self.record = 0;
        let rest = &mut self.decrypted;
        self.session.take_record(space, |bytes| *rest = Some(Buffer::holding(bytes)))
    }

    /// Moves the handshake on until it is over; `behind` is what follows our last message in it.
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
                return if self.has_decrypted() {
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

    /// The state of the peer; registers `cx` for the next event. Only its records show whether it has sent data or ended its
    /// direction, so they are decrypted until one of the two is known.
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
        // Bytes after `close_notify` of the peer are ignored.
        if self.peer_closed {
            return Ok(());
        }
        let received = self.wire.as_ref().map_or(&[][..], Buffer::filled);
        if received.len() >= WIRE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.wire = Some(Buffer::holding(&[received, &space[..len]].concat()));
        self.exhausted = false;
        self.advance().map_err(io::Error::other)
    }

    /// What another worker needs to go on; `None` when something is under way.
    pub(crate) fn into_session(self) -> Option<TlsSession> {
        let is_idle = !self.has_news() && self.wire.is_none() && self.unsent.is_empty() && !self.notified;
        is_idle.then_some(self.session)
    }

    /// Receives once from the socket, behind what there is of an incomplete record.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        stock: &Rc<BufferStock>,
    ) -> Poll<io::Result<()>> {
        debug_assert!(self.wire.is_none() || self.exhausted, "what was received is taken in first");
        if socket.poll_readable(cx)?.is_pending() {
            self.keep_fragment();
            return Poll::Pending;
        }
        let mut wire = match self.wire.take() {
            Some(wire) if wire.is_full() => larger(&wire, stock)?,
            Some(wire) => wire,
            None => stock.take(),
        };
        let received = socket.poll_read(cx, wire.space());
        if let Poll::Ready(Ok(len)) = received {
            wire.fill(len);
        }
        self.wire = (!wire.is_empty()).then_some(wire);
        match ready!(received)? {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => {
                self.exhausted = false;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Gives a buffer back that holds little of a record whose rest may be long in coming.
    fn keep_fragment(&mut self) {
        if let Some(wire) = &mut self.wire
            && wire.len() <= FRAGMENT_MAX
            && !wire.is_full()
        {
            *wire = Buffer::holding(wire.filled());
        }
    }

    /// Decrypts what was received, up to the next bytes that are to be read; writes the replies that the protocol requires.
    fn take_in(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> io::Result<()> {
        if self.has_decrypted() || self.peer_closed {
            return Ok(());
        }
        let is_new = self.wire.is_some() && !self.exhausted;
        let outcome = match self.broken.take() {
            Some(broken) => Err(*broken),
            None if is_new || self.session.is_handshaking() => self.advance(),
            None => Ok(()),
        };
        outcome.map_err(|error| {
            // The alert is sent if the socket takes it now.
            let _gone = self.poll_flush(cx, socket, Behind::Close);
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }

    /// Has the session take in what was received, up to the next bytes that are to be read.
    fn advance(&mut self) -> Result<(), Error> {
        if self.is_over {
            return Err(Error::General("the protocol was broken before".to_owned()));
        }
        let mut nothing = [];
        let is_handshaking = self.session.is_handshaking();
        let wire = self.wire.as_mut().map_or(&mut nothing[..], Buffer::filled_mut);
        let (taken, progress) = self.session.advance(wire, &mut self.unsent, &mut self.skips);
        if progress.is_err() {
            self.session.queue_alert(&mut wire[taken..], &mut self.unsent);
            self.is_over = true;
        }
        if let Some(wire) = &mut self.wire {
            wire.consume(taken);
            if wire.is_empty() {
                self.wire = None;
            }
        }
        if is_handshaking && let Some(name) = certificates::take_asked_name() {
            self.server_name = Some(name);
        }
        match progress? {
            SessionProgress::Received(len) => self.record = len,
            SessionProgress::PeerClosed => {
                self.peer_closed = true;
                self.wire = None;
            }
            SessionProgress::Incomplete => self.exhausted = true,
        }
        Ok(())
    }

    /// Collects all pending output of the session, which it gives only when it has nothing to read: received data is moved aside.
    fn settle(&mut self) -> Result<(), Error> {
        loop {
            let was_closed = self.peer_closed;
            self.advance()?;
            if self.record > 0 {
                self.record = 0;
                let mut bytes =
                    self.decrypted.take().map_or_else(Vec::new, |before| before.filled().to_vec());
                self.session.take_record(&mut [], |record| bytes.extend_from_slice(record));
                self.decrypted = Some(Buffer::holding(&bytes));
            } else if was_closed || !self.peer_closed {
                return Ok(());
            }
        }
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
        let is_last = behind == Behind::Close && whole <= PLAIN_MAX;
        self.settle().map_err(io::Error::other)?;
        Poll::Ready(SCRATCH.with_borrow_mut(|Scratch { gathered, sealed }| {
            let plain = match slices {
                [only, [], []] | [[], only, []] | [[], [], only] if !is_copied_slowly(only) => {
                    &only[..only.len().min(PLAIN_MAX)]
                }
                slices => gather(gathered, slices),
            };
            let end = self.seal(plain, is_last, sealed).map_err(io::Error::other)?;
            self.send(cx, socket, &sealed[..end], behind)?;
            Ok(plain.len())
        }))
    }

    /// Puts into `sealed` what has not been sent, then the records of `plain`, then `close_notify`, if it is the last.
    fn seal(&mut self, plain: &[u8], is_last: bool, sealed: &mut Vec<u8>) -> Result<usize, Error> {
        let ahead = std::mem::take(&mut self.unsent);
        let ahead = &ahead[std::mem::take(&mut self.sent)..];
        let room = ahead.len() + plain.len() + (plain.len() / RECORD + 2) * RECORD_OVERHEAD;
        if sealed.len() < room {
            sealed.resize(room, 0);
        }
        sealed[..ahead.len()].copy_from_slice(ahead);
        let mut end = ahead.len();
        if !plain.is_empty() {
            let mut nothing = [];
            let wire = self.wire.as_mut().map_or(&mut nothing[..], Buffer::filled_mut);
            end += self.session.encrypt(wire, plain, &mut sealed[end..])?;
        }
        if is_last {
            self.notify();
            let word = std::mem::take(&mut self.unsent);
            if sealed.len() < end + word.len() {
                sealed.resize(end + word.len(), 0);
            }
            sealed[end..end + word.len()].copy_from_slice(&word);
            end += word.len();
        }
        Ok(end)
    }

    /// Sends these bytes; what the kernel does not take now waits.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        mut bytes: &[u8],
        behind: Behind,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match socket.poll_write(cx, bytes, behind) {
                Poll::Ready(Ok(len)) => bytes = &bytes[len..],
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.unsent = bytes.to_vec();
                    self.congested = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends `close_notify`, and waits until the kernel has taken it.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<io::Result<()>> {
        if !self.notified {
            // A peer that broke the protocol gets an alert if possible; otherwise the connection just ends.
            let _broken = self.settle();
            self.notify();
        }
        self.poll_flush(cx, socket, Behind::Close)
    }

    /// Appends `close_notify` to what is unsent; [`Records::settle`] has to be called before.
    fn notify(&mut self) {
        if !std::mem::replace(&mut self.notified, true) && !self.is_over {
            let mut nothing = [];
            let wire = self.wire.as_mut().map_or(&mut nothing[..], Buffer::filled_mut);
            self.session.close_notify(wire, &mut self.unsent);
        }
    }

    /// Sends the encrypted bytes that wait.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        behind: Behind,
    ) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            self.congested = true;
            self.sent += ready!(socket.poll_write(cx, &self.unsent[self.sent..], behind))?;
        }
        (self.unsent, self.sent, self.congested) = (Vec::new(), 0, false);
        Poll::Ready(Ok(()))
    }
}

/// Bytes in front of gathered ones: with them they begin elsewhere in a page than memory from the allocator does.
const LEAD: usize = 64;

/// As much of the slices, one behind the other, as is encrypted at once.
fn gather<'a>(gathered: &'a mut Vec<u8>, slices: [&[u8]; 3]) -> &'a [u8] {
    gathered.clear();
    gathered.resize(LEAD, 0);
    for slice in slices {
        gathered.extend_from_slice(&slice[..slice.len().min(LEAD + PLAIN_MAX - gathered.len())]);
    }
    &gathered[LEAD..]
}

/// Whether rustls would take long to copy these bytes behind the five of a record's header, in memory that begins with a page.
///
/// Before glibc 2.39, `memcpy` of 8 KiB and more is `rep movsb`. On AMD Zen 3 and 4 that takes twenty times as long where the copy
/// begins, within its page, 1 to 15 bytes behind the original (glibc bug 30994): 4.7 us instead of 0.2 for 16 KiB on an EPYC. So a
/// buffer that begins with a page is copied once more, to another place in a page.
fn is_copied_slowly(bytes: &[u8]) -> bool {
    const PAGE: usize = 4096;
    bytes.len() >= PAGE && bytes.as_ptr().addr() % PAGE < 16
}

/// A buffer with the bytes of `full` and room for more of their message.
fn larger(full: &Buffer, stock: &Rc<BufferStock>) -> io::Result<Buffer> {
    if full.len() >= WIRE_MAX {
        let error = Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    let mut wire = stock.take();
    wire.grow((2 * full.len()).min(WIRE_MAX));
    wire.space()[..full.len()].copy_from_slice(full.filled());
    wire.fill(full.len());
    Ok(wire)
}
