//! A connection of QUIC on a socket of its own, by calls that wait: what comes is read and recorded while they do.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamId, TransportConfig, VarInt, WriteError,
};
use weir_wire::http3::{NO_ERROR, RecordedPiece, StreamPiece};

use crate::clock::{WATCHDOG, now};
use crate::config::HOST;
use crate::peer::link::{Label, LinkEnd, Speaks, Tape, TapeEvent, Tapes};

/// What is given to Weir of a stream before it is read: as much as with HTTP/2.
const WINDOW: u32 = 65_535;
/// How long nothing has to come before a client has everything.
const QUIET: Duration = Duration::from_millis(15);
const DATAGRAM_MAX: usize = 65_536;

/// A recorded connection.
pub(crate) struct RecordedQuic {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    socket: UdpSocket,
    to: SocketAddr,
    tape: Arc<Tape>,
    /// All that Weir sent so far, as pieces.
    received: Vec<u8>,
    /// Streams that can be read, and whether they have ended.
    streams: BTreeMap<StreamId, bool>,
    has_news: bool,
    is_connected: bool,
    end: Option<LinkEnd>,
    is_cut: Arc<AtomicBool>,
}

/// What ends a connection from outside.
pub(crate) struct QuicCut {
    is_cut: Arc<AtomicBool>,
    socket: UdpSocket,
}

impl QuicCut {
    /// Ends it.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        // Wakes the client; it may have ended meanwhile.
        let _ = self.socket.local_addr().and_then(|addr| self.socket.send_to(&[], addr));
    }
}

impl RecordedQuic {
    /// Does the handshake.
    pub(super) fn connect(
        to: SocketAddr,
        mut tls: rustls::ClientConfig,
        tapes: &Tapes,
    ) -> Result<Self, LinkEnd> {
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = QuicClientConfig::try_from(tls).map_err(|_| LinkEnd::Malformed)?;
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(WINDOW.into());
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, connection) =
            endpoint.connect(now(), config, to, HOST).map_err(|_| LinkEnd::Malformed)?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|_| LinkEnd::Broken)?;
        let mut link = Self {
            endpoint,
            handle,
            connection,
            socket,
            to,
            tape: tapes.start(Label::Client, Speaks::Http3, true),
            received: Vec::new(),
            streams: BTreeMap::new(),
            has_news: false,
            is_connected: false,
            end: None,
            is_cut: Arc::default(),
        };
        while !link.is_connected {
            link.turn()?;
        }
        Ok(link)
    }

    pub(crate) fn tape(&self) -> &Arc<Tape> {
        &self.tape
    }

    /// What ends the connection from outside.
    pub(crate) fn cutter(&self) -> Option<QuicCut> {
        Some(QuicCut { is_cut: Arc::clone(&self.is_cut), socket: self.socket.try_clone().ok()? })
    }

    /// All that Weir sent so far, as pieces.
    pub(crate) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Whether Weir has ended its direction of a stream.
    pub(super) fn has_ended(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|has_ended| *has_ended)
    }

    /// Opens a stream.
    pub(crate) fn open(&mut self, dir: Dir) -> Result<StreamId, LinkEnd> {
        loop {
            if let Some(stream) = self.connection.streams().open(dir) {
                if dir == Dir::Bi {
                    self.streams.insert(stream, false);
                }
                return Ok(stream);
            }
            self.turn()?;
        }
    }

    fn sent(&self, stream: StreamId, what: StreamPiece) {
        self.tape.note(TapeEvent::Sent(RecordedPiece::new(stream.into(), what).write()));
    }

    /// Sends all of `bytes`, in packets of their own; what a stream that Weir does not want gets is lost.
    pub(super) fn send(&mut self, stream: StreamId, bytes: &[u8]) -> Result<(), LinkEnd> {
        self.sent(stream, StreamPiece::Bytes(bytes.to_vec()));
        let mut at = 0;
        while at < bytes.len() {
            match self.connection.send_stream(stream).write(&bytes[at..]) {
                Ok(len) => at += len,
                Err(WriteError::Blocked) => self.turn()?,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => break,
            }
        }
        self.transmit();
        self.end.map_or(Ok(()), Err)
    }

    /// Ends our direction of a stream, in a packet of its own.
    pub(super) fn end(&mut self, stream: StreamId) -> Result<(), LinkEnd> {
        self.sent(stream, StreamPiece::End);
        // Weir may not want it any more.
        let _ = self.connection.send_stream(stream).finish();
        self.transmit();
        self.end.map_or(Ok(()), Err)
    }

    /// Gives our direction of a stream up.
    pub(super) fn reset(&mut self, stream: StreamId, code: u32) -> Result<(), LinkEnd> {
        self.sent(stream, StreamPiece::Reset(code.into()));
        // It may be over.
        let _ = self.connection.send_stream(stream).reset(VarInt::from_u32(code));
        self.transmit();
        self.end.map_or(Ok(()), Err)
    }

    /// Wants nothing more of a stream.
    pub(super) fn stop(&mut self, stream: StreamId, code: u32) -> Result<(), LinkEnd> {
        self.sent(stream, StreamPiece::Stop(code.into()));
        // It may be over.
        let _ = self.connection.recv_stream(stream).stop(VarInt::from_u32(code));
        self.streams.insert(stream, true);
        self.transmit();
        self.end.map_or(Ok(()), Err)
    }

    /// Waits for news of any stream, and records it.
    pub(super) fn turn(&mut self) -> Result<(), LinkEnd> {
        self.turn_until(now() + WATCHDOG)
    }

    fn turn_until(&mut self, limit: Instant) -> Result<(), LinkEnd> {
        loop {
            self.transmit();
            if let Some(end) = self.end {
                return Err(end);
            }
            if self.is_cut.load(Ordering::Relaxed) {
                self.tape.note(TapeEvent::Aborted);
                return self.over(LinkEnd::Broken);
            }
            if std::mem::take(&mut self.has_news) {
                return Ok(());
            }
            let at = now();
            if at >= limit {
                self.tape.note(TapeEvent::Ended(LinkEnd::Silence));
                return Err(LinkEnd::Silence);
            }
            let due = self.connection.poll_timeout().map_or(limit, |due| due.min(limit));
            self.wait(due.saturating_duration_since(at))?;
            if self.connection.poll_timeout().is_some_and(|due| due <= now()) {
                self.connection.handle_timeout(now());
            }
            self.hear();
        }
    }

    /// Closes the connection from our side because of `end`.
    fn over(&mut self, end: LinkEnd) -> Result<(), LinkEnd> {
        self.close(NO_ERROR);
        self.end = Some(end);
        Err(end)
    }

    /// Waits for datagrams, and gives those that are here to the connection.
    fn wait(&mut self, limit: Duration) -> Result<(), LinkEnd> {
        let mut buf = vec![0; DATAGRAM_MAX];
        // No time at all would be no limit.
        let limit = limit.max(Duration::from_micros(100));
        self.socket.set_read_timeout(Some(limit)).map_err(|_| LinkEnd::Broken)?;
        let mut came = self.socket.recv_from(&mut buf);
        loop {
            match came {
                // Each by itself: a reset drops what was not read before it.
                Ok((len, from)) if from == self.to => {
                    self.datagram(&buf[..len]);
                    self.hear();
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                // The port of a process that has ended is unreachable.
                Err(_) => break,
            }
            self.socket.set_nonblocking(true).map_err(|_| LinkEnd::Broken)?;
            came = self.socket.recv_from(&mut buf);
        }
        self.socket.set_nonblocking(false).map_err(|_| LinkEnd::Broken)
    }

    fn datagram(&mut self, bytes: &[u8]) {
        let mut answer = Vec::new();
        let event = self.endpoint.handle(now(), self.to, None, None, BytesMut::from(bytes), &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Sends what is to be sent.
    fn transmit(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let mut buf = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(now(), 1, &mut buf) {
            // A datagram may be lost; the connection notices.
            let _ = self.socket.send_to(&buf[..transmit.size], transmit.destination);
            buf.clear();
        }
    }

    /// Takes what the connection says, and reads its streams.
    fn hear(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    self.has_news = true;
                }
                Event::ConnectionLost { reason } => self.lost(&reason),
                Event::Stream(_) => self.has_news = true,
                _ => {}
            }
        }
        while let Some(stream) = self.connection.streams().accept(Dir::Uni) {
            self.streams.insert(stream, false);
        }
        let open: Vec<StreamId> =
            self.streams.iter().filter(|(_, has_ended)| !**has_ended).map(|(stream, _)| *stream).collect();
        open.into_iter().for_each(|stream| self.read(stream));
    }

    fn lost(&mut self, reason: &ConnectionError) {
        if self.end.is_some() {
            return;
        }
        let end = match reason {
            ConnectionError::ApplicationClosed(close) => {
                let code = close.error_code.into_inner();
                self.note(&RecordedPiece::new(0, StreamPiece::Close(code)));
                if code == NO_ERROR { LinkEnd::Closed } else { LinkEnd::Broken }
            }
            _ => LinkEnd::Broken,
        };
        self.tape.note(TapeEvent::Ended(end));
        self.end = Some(end);
    }

    /// Reads a stream as far as it has come.
    fn read(&mut self, stream: StreamId) {
        let mut pieces = Vec::new();
        {
            let mut receiving = self.connection.recv_stream(stream);
            let Ok(mut chunks) = receiving.read(true) else {
                self.streams.insert(stream, true);
                return;
            };
            loop {
                match chunks.next(DATAGRAM_MAX) {
                    Ok(Some(chunk)) => pieces.push(StreamPiece::Bytes(chunk.bytes.to_vec())),
                    Ok(None) => pieces.push(StreamPiece::End),
                    Err(ReadError::Reset(code)) => pieces.push(StreamPiece::Reset(code.into_inner())),
                    Err(ReadError::Blocked) => break,
                }
                if !matches!(pieces.last(), Some(StreamPiece::Bytes(_))) {
                    break;
                }
            }
            // Whatever is to be sent for it is sent next.
            let _ = chunks.finalize();
        }
        for what in pieces {
            if !matches!(what, StreamPiece::Bytes(_)) {
                self.streams.insert(stream, true);
            }
            self.note(&RecordedPiece::new(stream.into(), what));
        }
    }

    fn note(&mut self, piece: &RecordedPiece) {
        let bytes = piece.write();
        self.received.extend_from_slice(&bytes);
        self.tape.note(TapeEvent::Received(bytes));
        self.has_news = true;
    }

    /// Reads what still comes, until nothing has for a moment.
    pub(super) fn drain(&mut self) {
        while self.end.is_none() {
            self.has_news = false;
            let silence = self.turn_until(now() + QUIET);
            if silence == Err(LinkEnd::Silence) {
                // It is no fault here.
                self.tape.record().events.pop();
            }
            if silence.is_err() {
                break;
            }
        }
    }

    /// Closes the connection, and says so.
    pub(super) fn close(&mut self, code: u64) {
        if self.end.is_none() {
            self.sent(StreamId::new(quinn_proto::Side::Client, Dir::Bi, 0), StreamPiece::Close(code));
            self.tape.note(TapeEvent::Finished);
        }
        self.connection.close(now(), VarInt::from_u64(code).unwrap_or(VarInt::MAX), bytes::Bytes::new());
        self.transmit();
    }
}

impl Drop for RecordedQuic {
    fn drop(&mut self) {
        self.close(NO_ERROR);
    }
}
