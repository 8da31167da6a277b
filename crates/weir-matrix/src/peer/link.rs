//! A connection, plain or with TLS, that records what passes through it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::{ClientConnection, ServerConnection, StreamOwned};
use socket2::SockRef;

use crate::array::Method;
use crate::clock::WATCHDOG;

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// In order.
    Closed,
    /// By a reset, or TLS without its own end.
    Broken,
    /// Nothing came before the watchdog.
    Silence,
    /// What came is not the protocol; the oracle says why.
    Malformed,
}

/// Which peer a connection belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Label {
    Client,
    /// By its name: `a`, `b`, `copies`, `judge`.
    Server(&'static str),
}

/// What is spoken on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
    /// The record is of pieces of streams (`weir_wire::http3::RecordedPiece`).
    Http3,
    Fastcgi,
}

/// A request that a client has begun on a connection.
#[derive(Debug, Clone)]
pub(crate) struct AskedRequest {
    pub(crate) id: &'static str,
    pub(crate) method: Method,
    /// 0 with HTTP/1.
    pub(crate) stream: u32,
}

/// What happened on a connection, seen from the peer of Weir.
#[derive(Debug, Clone)]
pub(crate) enum TapeEvent {
    Sent(Vec<u8>),
    Received(Vec<u8>),
    /// Weir ended its direction.
    Ended(LinkEnd),
    /// The peer ended its direction in order.
    Finished,
    /// The peer aborted the connection.
    Aborted,
    /// Nothing in bytes: what happened to the process or to a server.
    Event(&'static str),
}

/// Everything about one connection, once it is over.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionTape {
    pub(crate) label: Label,
    pub(crate) speaks: Speaks,
    pub(crate) has_tls: bool,
    pub(crate) events: Vec<TapeEvent>,
    pub(crate) asked: Vec<AskedRequest>,
}

impl ConnectionTape {
    /// All bytes that Weir wrote.
    pub(crate) fn received(&self) -> Vec<u8> {
        let chunks = self.events.iter().filter_map(|event| match event {
            TapeEvent::Received(bytes) => Some(&bytes[..]),
            _ => None,
        });
        chunks.collect::<Vec<_>>().concat()
    }

    /// How Weir ended its direction, if it did.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        self.events.iter().find_map(|event| if let TapeEvent::Ended(end) = event { Some(*end) } else { None })
    }

    /// Puts other bytes in the place of all that Weir wrote.
    pub(crate) fn replace_received(&mut self, bytes: Vec<u8>) {
        self.events.retain(|event| !matches!(event, TapeEvent::Received(_)));
        self.events.insert(0, TapeEvent::Received(bytes));
    }
}

/// A record that grows.
pub(crate) struct Tape(Mutex<ConnectionTape>);

impl Tape {
    pub(crate) fn record(&self) -> MutexGuard<'_, ConnectionTape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, event: TapeEvent) {
        self.record().events.push(event);
    }
}

/// All connections of a case, in the order in which they were opened.
#[derive(Default)]
pub(crate) struct Tapes(Mutex<Vec<Arc<Tape>>>);

impl Tapes {
    pub(super) fn start(&self, label: Label, speaks: Speaks, has_tls: bool) -> Arc<Tape> {
        let record = ConnectionTape { label, speaks, has_tls, events: Vec::new(), asked: Vec::new() };
        let tape = Arc::new(Tape(Mutex::new(record)));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&tape));
        tape
    }

    pub(crate) fn records(&self) -> Vec<ConnectionTape> {
        let tapes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tapes.iter().map(|tape| tape.record().clone()).collect()
    }
}

/// The bytes below.
pub(super) enum LinkStream {
    Tcp(TcpStream),
    TlsClient(Box<StreamOwned<ClientConnection, TcpStream>>),
    TlsServer(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// Spare handles of the open connections of a server, by which it can be killed.
#[derive(Clone, Default)]
pub(super) struct OpenSockets(Arc<Mutex<Vec<(u64, TcpStream)>>>);

impl OpenSockets {
    /// Keeps a handle until what it gives is dropped.
    pub(super) fn keep(&self, id: u64, handle: TcpStream) -> OpenSocket {
        self.all().push((id, handle));
        OpenSocket { sockets: self.clone(), id }
    }

    fn all(&self) -> MutexGuard<'_, Vec<(u64, TcpStream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets all of them.
    pub(super) fn reset(&self) {
        for (_, tcp) in self.all().iter() {
            // One that has ended meanwhile needs no reset.
            let _ = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
            let _ = tcp.shutdown(Shutdown::Both);
        }
    }
}

/// The place of a connection among the open ones: a spare handle would keep it open past its end.
pub(super) struct OpenSocket {
    sockets: OpenSockets,
    id: u64,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.sockets.all().retain(|(id, _)| *id != self.id);
    }
}

/// A recorded connection.
pub(crate) struct RecordedLink {
    /// Before the stream, so that no other handle is left when that is closed.
    _open: Option<OpenSocket>,
    stream: LinkStream,
    tape: Arc<Tape>,
    received: Vec<u8>,
}

/// Connects, with limits on every read and write.
pub(super) fn connect(to: SocketAddr) -> Result<TcpStream, LinkEnd> {
    let tcp = TcpStream::connect_timeout(&to, WATCHDOG).map_err(|_| LinkEnd::Broken)?;
    guarded(&tcp).map_err(|_| LinkEnd::Broken)?;
    Ok(tcp)
}

/// Sets the limits of a socket.
pub(super) fn guarded(tcp: &TcpStream) -> std::io::Result<()> {
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(WATCHDOG))?;
    tcp.set_write_timeout(Some(WATCHDOG))
}

impl RecordedLink {
    pub(super) fn new(stream: LinkStream, tapes: &Tapes, label: Label, speaks: Speaks) -> Self {
        let has_tls = !matches!(stream, LinkStream::Tcp(_));
        Self { _open: None, stream, tape: tapes.start(label, speaks, has_tls), received: Vec::new() }
    }

    /// The same, among the open connections of its server.
    pub(super) fn among(self, open: Option<OpenSocket>) -> Self {
        Self { _open: open, ..self }
    }

    pub(super) fn tape(&self) -> &Arc<Tape> {
        &self.tape
    }

    /// All that Weir wrote so far.
    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            LinkStream::Tcp(tcp) => tcp,
            LinkStream::TlsClient(tls) => &tls.sock,
            LinkStream::TlsServer(tls) => &tls.sock,
        }
    }

    /// A second handle of the socket, for whatever ends it from outside.
    pub(super) fn handle(&self) -> Option<TcpStream> {
        self.tcp().try_clone().ok()
    }

    /// Writes all of `bytes`.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), LinkEnd> {
        let written = match &mut self.stream {
            LinkStream::Tcp(tcp) => tcp.write_all(bytes),
            LinkStream::TlsClient(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
            LinkStream::TlsServer(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        };
        self.tape.note(TapeEvent::Sent(bytes.to_vec()));
        written.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => LinkEnd::Silence,
            _ => LinkEnd::Broken,
        })
    }

    /// Waits for more bytes.
    pub(super) fn receive(&mut self) -> Result<(), LinkEnd> {
        let mut buf = vec![0; 64 * 1024];
        let read = loop {
            let read = match &mut self.stream {
                LinkStream::Tcp(tcp) => tcp.read(&mut buf),
                LinkStream::TlsClient(tls) => tls.read(&mut buf),
                LinkStream::TlsServer(tls) => tls.read(&mut buf),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let end = match read {
            Ok(0) => LinkEnd::Closed,
            Ok(len) => {
                self.received.extend_from_slice(&buf[..len]);
                self.tape.note(TapeEvent::Received(buf[..len].to_vec()));
                return Ok(());
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                LinkEnd::Silence
            }
            Err(_) => LinkEnd::Broken,
        };
        self.tape.note(TapeEvent::Ended(end));
        Err(end)
    }

    /// Reads and records until Weir ends the connection, for no longer than `limit`.
    pub(super) fn drain(&mut self, limit: Duration) {
        // What is left when the limit has passed is left.
        let _ = self.tcp().set_read_timeout(Some(limit));
        while self.receive_quietly() {}
    }

    /// Like `receive`; a silence is not recorded as a fault.
    fn receive_quietly(&mut self) -> bool {
        let outcome = self.receive();
        if outcome == Err(LinkEnd::Silence) {
            let mut record = self.tape.record();
            record.events.pop();
        }
        outcome.is_ok()
    }

    /// Ends the direction towards Weir in order.
    pub(super) fn finish(&mut self) {
        self.tape.note(TapeEvent::Finished);
        // Weir may have ended the connection before.
        match &mut self.stream {
            LinkStream::Tcp(_) => {}
            LinkStream::TlsClient(tls) => {
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
            LinkStream::TlsServer(tls) => {
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        }
        let _ = self.tcp().shutdown(Shutdown::Write);
    }

    /// Ends the connection with RST.
    pub(super) fn abort(self) {
        self.tape.note(TapeEvent::Aborted);
        // Without it the end is in order, which some test would tell.
        let _ = SockRef::from(self.tcp()).set_linger(Some(Duration::ZERO));
    }
}
