//! One connection of a client: sends GETs on streams and checks every answer, as `response` does for HTTP/1.1.
//!
//! Reads what is there and never waits, except for `ask`. When requests begin is the business of the driver.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;

use crate::clock;
use crate::load::fault::LoadFault;
use crate::load::probe;
use crate::wire::http2::{self, FrameStart, kind};
use crate::wire::pattern;

/// Bytes of bodies after which the connection's window is opened again: a quarter of what it has at first.
const CREDIT: u32 = 16 * 1024;

/// How long a target may take no bytes of a request.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamResult {
    /// The answer is complete and correct.
    Answered,
    /// The target says that it did not process the request, which may be sent again.
    Unprocessed,
    /// It went wrong.
    Failed(LoadFault),
}

/// A request whose answer is not complete.
#[derive(Debug)]
struct OpenRequest {
    id: u32,
    /// Length that the answer must have.
    expected: u64,
    /// Bytes of it so far.
    len: u64,
    has_head: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Http2Client {
    socket: TcpStream,
    received: Vec<u8>,
    next_id: u32,
    open: Vec<OpenRequest>,
    /// Bytes of bodies for which the connection's window was not opened again.
    owed: u32,
    /// The last stream that the target will process, once it says so.
    last_id: Option<u32>,
    is_closed: bool,
}

impl Http2Client {
    /// Connects from source number `source`, and begins as clients do.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn connect(target: SocketAddr, source: usize) -> Result<Self, LoadFault> {
        let refused = |error: std::io::Error| LoadFault::Connect(error.to_string());
        let socket = probe::connect(target, source).map_err(|error| refused(error.into()))?;
        socket.set_nodelay(true).map_err(refused)?;
        socket.set_write_timeout(Some(WRITE_LIMIT)).map_err(refused)?;
        let mut first = http2::PREFACE.to_vec();
        http2::write(&mut first, kind::SETTINGS, 0, 0, &[]);
        (&socket).write_all(&first).map_err(refused)?;
        Ok(Self {
            socket,
            received: Vec::new(),
            next_id: 1,
            open: Vec::new(),
            owed: 0,
            last_id: None,
            is_closed: false,
        })
    }

    /// Requests whose answers are not complete.
    pub fn active(&self) -> usize {
        self.open.len()
    }

    /// Whether it takes further requests.
    pub fn takes_requests(&self) -> bool {
        self.last_id.is_none() && !self.is_closed
    }

    /// Whether the target has closed it.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Sends a GET, whose answer has `expected` bytes; gives the number of its stream.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn begin(&mut self, authority: &str, path: &str, expected: u64) -> Result<u32, LoadFault> {
        let (id, block) = (self.next_id, http2::get(authority, path, self.next_id == 1));
        let mut out = Vec::with_capacity(http2::HEAD_LEN + block.len());
        http2::write(&mut out, kind::HEADERS, http2::END_HEADERS | http2::END_STREAM, id, &block);
        if let Err(error) = (&self.socket).write_all(&out) {
            // What was open on it fails when all that has come is read.
            self.is_closed = true;
            return Err(LoadFault::of(&error));
        }
        self.next_id += 2;
        self.open.push(OpenRequest { id, expected, len: 0, has_head: false });
        Ok(id)
    }

    /// Takes what has come; gives the streams that ended.
    pub fn receive(&mut self, buf: &mut [u8]) -> Vec<(u32, StreamResult)> {
        let mut ended = Vec::new();
        loop {
            match rustix::net::recv(&self.socket, &mut *buf, RecvFlags::DONTWAIT).map(|(len, _)| len) {
                Ok(0) => {
                    self.end(&mut ended, |request| LoadFault::Closed(request.len));
                    return ended;
                }
                Ok(len) => self.received.extend_from_slice(&buf[..len]),
                Err(error) => {
                    let error = std::io::Error::from(error);
                    if error.kind() != ErrorKind::WouldBlock || self.is_closed {
                        self.end(&mut ended, |_| LoadFault::of(&error));
                    }
                    return ended;
                }
            }
            if let Err(error) = self.frames(&mut ended) {
                self.end(&mut ended, |_| LoadFault::of(&error));
                return ended;
            }
        }
    }

    /// Reads the frames that are whole, and answers those that want it.
    fn frames(&mut self, ended: &mut Vec<(u32, StreamResult)>) -> std::io::Result<()> {
        let received = std::mem::take(&mut self.received);
        let (mut rest, mut out) = (&received[..], Vec::new());
        while let Some((start, payload)) = http2::frame(rest) {
            self.frame(start, payload, &mut out, ended);
            rest = &rest[http2::HEAD_LEN + start.len..];
        }
        if !rest.is_empty() {
            self.received = rest.to_vec();
        }
        if self.owed >= CREDIT {
            http2::write(&mut out, kind::WINDOW_UPDATE, 0, 0, &self.owed.to_be_bytes());
            self.owed = 0;
        }
        if out.is_empty() { Ok(()) } else { (&self.socket).write_all(&out) }
    }

    fn frame(
        &mut self,
        start: FrameStart,
        payload: &[u8],
        out: &mut Vec<u8>,
        ended: &mut Vec<(u32, StreamResult)>,
    ) {
        let code = |from: usize| {
            payload
                .get(from..from + 4)
                .map_or(0, |code| u32::from_be_bytes(code.try_into().expect("four bytes")))
        };
        match start.kind {
            kind::SETTINGS | kind::PING if start.flags & http2::ACK == 0 => {
                let answer = if start.kind == kind::PING { payload } else { &[] };
                http2::write(out, start.kind, http2::ACK, 0, answer);
            }
            kind::GOAWAY => {
                let last_id = code(0) & 0x7fff_ffff;
                self.last_id = Some(last_id);
                let unprocessed = self.open.extract_if(.., |request| request.id > last_id);
                ended.extend(unprocessed.map(|request| (request.id, StreamResult::Unprocessed)));
            }
            kind::RST_STREAM => {
                let result = match code(0) {
                    http2::REFUSED_STREAM => StreamResult::Unprocessed,
                    code => StreamResult::Failed(LoadFault::StreamReset(code)),
                };
                if self.forget(start.stream) {
                    ended.push((start.stream, result));
                }
            }
            kind::HEADERS | kind::DATA => {
                if start.kind == kind::DATA {
                    self.owed += start.len as u32;
                }
                if let Some(result) = self.content(start, payload) {
                    self.forget(start.stream);
                    ended.push((start.stream, result));
                }
            }
            _ => {}
        }
    }

    /// A part of an answer; says how the stream ended, if it did.
    fn content(&mut self, start: FrameStart, payload: &[u8]) -> Option<StreamResult> {
        let request = self.open.iter_mut().find(|request| request.id == start.stream)?;
        let content = http2::content(start, payload);
        if start.kind == kind::HEADERS {
            let status = http2::status(content);
            // What follows the body are trailers.
            if !std::mem::replace(&mut request.has_head, true) && status != 200 {
                return Some(StreamResult::Failed(LoadFault::Status(status, String::new())));
            }
        } else {
            if !pattern::matches(request.len, content) {
                return Some(StreamResult::Failed(LoadFault::Content(request.len)));
            }
            request.len += content.len() as u64;
        }
        let OpenRequest { len, expected, .. } = *request;
        if len > expected || (start.flags & http2::END_STREAM != 0 && len < expected) {
            return Some(StreamResult::Failed(LoadFault::Length(expected, len)));
        }
        (start.flags & http2::END_STREAM != 0).then_some(StreamResult::Answered)
    }

    /// Whether there was such a stream.
    fn forget(&mut self, id: u32) -> bool {
        let before = self.open.len();
        self.open.retain(|request| request.id != id);
        self.open.len() < before
    }

    /// The connection is over, and all that was open on it failed.
    fn end(&mut self, ended: &mut Vec<(u32, StreamResult)>, fault: impl Fn(&OpenRequest) -> LoadFault) {
        self.is_closed = true;
        ended.extend(self.open.drain(..).map(|request| (request.id, StreamResult::Failed(fault(&request)))));
    }

    /// Sends a GET of `expected` bytes and waits for its answer.
    ///
    /// # Errors
    /// The fault of the exchange.
    pub fn ask(
        &mut self,
        authority: &str,
        path: &str,
        expected: u64,
        limit: Duration,
    ) -> Result<(), LoadFault> {
        let mut buf = [0; 16 * 1024];
        // What came while it was idle, such as the end of the connection.
        self.receive(&mut buf);
        let (id, deadline) = (self.begin(authority, path, expected)?, clock::now() + limit);
        loop {
            for (ended, result) in self.receive(&mut buf) {
                match result {
                    _ if ended != id => {}
                    StreamResult::Answered => return Ok(()),
                    StreamResult::Unprocessed => return Err(LoadFault::StreamReset(http2::REFUSED_STREAM)),
                    StreamResult::Failed(fault) => return Err(fault),
                }
            }
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Err(LoadFault::Timeout);
            }
            let wait = Timespec::try_from(left).map_err(|_| LoadFault::Timeout)?;
            let _events = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&wait));
        }
    }
}

impl AsFd for Http2Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
