//! A stream with a memory: reads heads and bodies off one connection, and tells how the connection ended.
//!
//! Used by both sides of a test, the client and the origin. Every byte that ever arrived stays in `received`.

use std::io::{ErrorKind, Read, Write};

use super::message::{Fields, Framing, Head, latin1};
use super::record::{Record, Side};
use super::stream::Stream;
use super::watchdog::WATCHDOG;

/// Why nothing more can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer finished its direction in order (FIN).
    Closed,
    /// The peer aborted the connection (RST).
    Reset,
    /// The connection with TLS ended without `close_notify`.
    Truncated,
    /// Nothing came before the watchdog bit.
    Silence,
    /// What came is not HTTP/1.
    Malformed(String),
}

/// A decoded body.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) trailers: Fields,
    /// The chunk extensions, one entry for each chunk that had any.
    pub(crate) extensions: Vec<String>,
    /// Whether the end of the connection was the end of the body.
    pub(crate) until_close: bool,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", latin1(&self.bytes))?;
        if !self.trailers.0.is_empty() {
            write!(f, " trailers {:?}", self.trailers.0)?;
        }
        if !self.extensions.is_empty() {
            write!(f, " chunk extensions {:?}", self.extensions)?;
        }
        Ok(())
    }
}

/// One connection, from either side.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    received: Vec<u8>,
    consumed: usize,
    record: Record,
}

impl Wire {
    /// A client's end of a connected stream.
    pub(super) fn of_client(stream: Stream) -> Wire {
        Wire { stream, received: Vec::new(), consumed: 0, record: Record::new(Side::Client) }
    }

    /// A server's end.
    pub(super) fn of_server(stream: Stream) -> Wire {
        Wire { stream, received: Vec::new(), consumed: 0, record: Record::new(Side::Server) }
    }

    /// Leaves what Weir writes here unjudged, for this reason.
    pub(super) fn exempt(&self, reason: &'static str) {
        self.record.exempt(reason);
    }

    /// Takes note that the response on this stream has no body.
    pub(super) fn note_head(&mut self, stream: u32) {
        self.record.heads.insert(stream);
    }

    /// Panics when what Weir wrote so far is no sequence of messages.
    pub(super) fn judge(&self) {
        if let Some(fault) = self.record.fault(&self.received) {
            panic!("{fault}");
        }
    }

    /// The socket itself.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same, to be changed.
    pub(crate) fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// What arrived and was not yet asked for.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.received[self.consumed..]
    }

    /// Everything that arrived so far.
    pub(crate) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Writes all of `bytes`; an error says that the peer is gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.record.note_sent(bytes);
        self.stream.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => End::Silence,
            ErrorKind::BrokenPipe => End::Closed,
            _ => End::Reset,
        })
    }

    /// Writes `bytes` one by one, each its own segment.
    pub(crate) fn send_bytewise(&mut self, bytes: &[u8]) -> Result<(), End> {
        bytes.iter().try_for_each(|byte| self.send(std::slice::from_ref(byte)))
    }

    /// Waits for more bytes and returns those that came.
    pub(crate) fn receive(&mut self) -> Result<&[u8], End> {
        let mut buf = [0; 65536];
        loop {
            match self.stream.read(&mut buf) {
                Ok(0) => return Err(End::Closed),
                Ok(len) => {
                    let start = self.received.len();
                    self.received.extend_from_slice(&buf[..len]);
                    return Ok(&self.received[start..]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(End::Silence);
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(End::Truncated),
                Err(_) => return Err(End::Reset),
            }
        }
    }

    /// Reads and forgets up to `len` body bytes, without keeping them: for bodies larger than memory should hold.
    pub(crate) fn skim(&mut self, buf: &mut [u8]) -> Result<usize, End> {
        self.record.exempt("what is skimmed is not kept");
        let pending = self.pending().len().min(buf.len());
        if pending > 0 {
            buf[..pending].copy_from_slice(&self.received[self.consumed..][..pending]);
            self.consumed += pending;
            return Ok(pending);
        }
        match self.stream.read(buf) {
            Ok(0) => Err(End::Closed),
            Ok(len) => Ok(len),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(End::Silence)
            }
            Err(_) => Err(End::Reset),
        }
    }

    /// Takes `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<Vec<u8>, End> {
        while self.pending().len() < len {
            self.receive()?;
        }
        let taken = self.pending()[..len].to_vec();
        self.consumed += len;
        Ok(taken)
    }

    /// Takes the bytes up to and including the first `mark`.
    pub(crate) fn take_through(&mut self, mark: &[u8]) -> Result<Vec<u8>, End> {
        loop {
            if let Some(at) = self.pending().windows(mark.len()).position(|w| w == mark) {
                return self.take(at + mark.len());
            }
            self.receive()?;
        }
    }

    /// Reads everything until the peer ends the connection, and returns how.
    pub(crate) fn take_to_end(&mut self) -> (Vec<u8>, End) {
        let end = loop {
            if let Err(end) = self.receive() {
                break end;
            }
        };
        let rest = self.pending().to_vec();
        self.consumed = self.received.len();
        (rest, end)
    }

    /// Takes one head.
    pub(crate) fn head(&mut self) -> Result<Head, End> {
        loop {
            match Head::read(self.pending()).map_err(End::Malformed)? {
                Some((head, len)) => {
                    self.consumed += len;
                    return Ok(head);
                }
                None => self.receive()?,
            };
        }
    }

    /// Takes one body, framed as `framing` says.
    pub(crate) fn body(&mut self, framing: Framing) -> Result<Body, End> {
        match framing {
            Framing::Empty => Ok(Body::default()),
            Framing::Length(len) => Ok(Body { bytes: self.take(len)?, ..Body::default() }),
            Framing::Chunked => self.chunks(),
            Framing::UntilClose => match self.take_to_end() {
                (bytes, End::Closed) => Ok(Body { bytes, until_close: true, ..Body::default() }),
                (_, end) => Err(end),
            },
        }
    }

    fn chunks(&mut self) -> Result<Body, End> {
        let mut body = Body::default();
        loop {
            let line = self.line()?;
            let (size, extension) = line.split_at(line.find(';').unwrap_or(line.len()));
            if size.is_empty() || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(End::Malformed(format!("bad chunk size line {line:?}")));
            }
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| End::Malformed(format!("bad chunk size line {line:?}")))?;
            if !extension.is_empty() {
                body.extensions.push(extension.to_owned());
            }
            if size == 0 {
                body.trailers = self.trailers()?;
                return Ok(body);
            }
            body.bytes.extend(self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(End::Malformed("chunk data without its CR LF".to_owned()));
            }
        }
    }

    fn trailers(&mut self) -> Result<Fields, End> {
        let mut lines = String::from("trailers\r\n");
        loop {
            let line = self.line()?;
            lines += &line;
            lines += "\r\n";
            if line.is_empty() {
                let bytes: Vec<u8> = lines.chars().map(|c| c as u8).collect();
                let head = Head::read(&bytes).map_err(End::Malformed)?;
                return Ok(head.expect("the section ends with an empty line").0.fields);
            }
        }
    }

    fn line(&mut self) -> Result<String, End> {
        let mut line = self.take_through(b"\n")?;
        line.pop();
        if line.pop() != Some(b'\r') {
            return Err(End::Malformed(format!("a line ends with LF alone: {:?}", latin1(&line))));
        }
        Ok(latin1(&line))
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Closed => write!(f, "the peer closed"),
            End::Truncated => write!(f, "TLS was cut off"),
            End::Reset => write!(f, "the peer reset the connection"),
            End::Silence => write!(f, "nothing came for {WATCHDOG:?}"),
            End::Malformed(what) => write!(f, "not HTTP/1: {what}"),
        }
    }
}
