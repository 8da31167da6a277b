//! One simulated client: its connection, and how far its exchange has come.
//!
//! Does what its socket allows and returns the outcome; when to begin, what to count and which events to wait for is
//! the driver's business.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::TlsClient;
use super::exchange::PreparedExchange;
use super::fault::LoadFault;
use super::response::{ReadProgress, ResponseReader};
use super::socket::LoadSocket;
use super::websocket::WebSocketOpening;
use crate::load::cookie_jar::CookieJar;
use crate::wire::fields;

/// The header in which a client says which exchange this is.
const ID_HEADER: &str = "X-Request-Id";

/// The activity of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientStage {
    /// Nothing; its connection may be open.
    Idle,
    /// Connecting or sending the request.
    Sending,
    /// Waiting for the rest of the answer.
    Receiving,
    /// Has its answer, waits for the target to close.
    Closing,
}

/// The outcome of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientStep {
    /// Nothing to report; wait for the next event.
    Wait,
    /// The answer is complete and correct.
    Answered {
        /// The connection ends with it.
        closes: bool,
        /// A cookie came with it, which the client keeps.
        gives_cookie: bool,
    },
    /// The target closed the connection, as it may.
    Ended,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LoadClient {
    pub(super) socket: Option<LoadSocket>,
    secure: Option<TlsClient>,
    /// Which of its connections this is: tells late events of an earlier one.
    pub(super) serial: u32,
    pub(super) stage: ClientStage,
    /// Intended start of the exchange, ns.
    pub(super) due: u64,
    /// Real start of the exchange, ns.
    pub(super) began: u64,
    /// Which of the prepared exchanges it is.
    pub(super) exchange: usize,
    sent: usize,
    /// Bytes that it may still send and read before it is allowed more.
    allowance: usize,
    is_paced: bool,
    reader: ResponseReader,
    /// The opening of a tunnel that is not answered yet.
    opening: Option<WebSocketOpening>,
    jar: CookieJar,
    /// The id of its exchange, or of its tunnel; empty without.
    pub(super) id: String,
    /// The request, or the opening, with the id in it.
    signed: Vec<u8>,
    source: usize,
}

impl LoadClient {
    /// A client that speaks TLS as `secure` says, if it is given. `is_paced`: it sends and reads what it is allowed to, and no more.
    pub(super) fn new(secure: Option<TlsClient>, is_paced: bool) -> Self {
        Self {
            socket: None,
            secure,
            serial: 0,
            stage: ClientStage::Idle,
            due: 0,
            began: 0,
            exchange: 0,
            sent: 0,
            allowance: usize::MAX,
            is_paced,
            reader: ResponseReader::default(),
            opening: None,
            jar: CookieJar::default(),
            id: String::new(),
            signed: Vec::new(),
            source: 0,
        }
    }

    /// Readies it for `exchange`, number `number`, that was to begin at `due` and begins at `now`.
    pub(super) fn begin(&mut self, number: usize, exchange: &PreparedExchange, due: u64, now: u64) {
        (self.exchange, self.due, self.began) = (number, due, now);
        self.jar.prepare(number, exchange);
        self.sent = 0;
        self.allowance = if self.is_paced { 0 } else { usize::MAX };
        self.reader.reset(exchange);
        self.stage = ClientStage::Sending;
    }

    /// Gives what it begins an id that it tells the target: a request, or the tunnel that it opens.
    pub(super) fn sign(&mut self, id: String, exchange: &PreparedExchange) {
        let request = exchange.opening.as_ref().unwrap_or(&exchange.request);
        let head_len = fields::head_len(request).unwrap_or_default();
        let (head, body) = request.split_at(head_len);
        let lines = head.strip_suffix(b"\r\n").unwrap_or(head);
        self.signed.clear();
        for part in [lines, ID_HEADER.as_bytes(), b": ", id.as_bytes(), b"\r\n\r\n", body] {
            self.signed.extend_from_slice(part);
        }
        self.id = id;
    }

    /// Lets a slow one send and read this many bytes from now on.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.allowance = bytes;
    }

    /// Starts a connection, from another source address where the last has no free port.
    pub(super) fn open(&mut self, target: SocketAddr, exchange: &PreparedExchange) -> Result<(), LoadFault> {
        for _ in 0..SOURCES {
            match connect(target, self.source, self.is_paced) {
                Ok(socket) => {
                    let socket = LoadSocket::new(socket, self.secure.as_ref());
                    self.socket = Some(socket.map_err(|error| LoadFault::Connect(error.to_string()))?);
                    self.serial = self.serial.wrapping_add(1);
                    self.opening = exchange.opening.as_ref().map(|_| WebSocketOpening::default());
                    return Ok(());
                }
                Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => self.source = (self.source + 1) % SOURCES,
                Err(error) => return Err(LoadFault::Connect(io::Error::from(error).to_string())),
            }
        }
        Err(LoadFault::NoSourcePort)
    }

    /// Drops the connection.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.stage = ClientStage::Idle;
    }

    /// Sends the rest of the request; true when all is sent.
    pub(super) fn send(&mut self, exchange: &PreparedExchange) -> Result<bool, LoadFault> {
        let Some(socket) = &mut self.socket else { return Ok(false) };
        let request = match (&self.opening, &exchange.opening) {
            (Some(_), Some(_)) | (None, None) if !self.id.is_empty() => &self.signed,
            (Some(_), Some(opening)) => opening,
            _ => self.jar.request(self.exchange, exchange),
        };
        while self.sent < request.len() {
            let end = request.len().min(self.sent.saturating_add(self.allowance));
            if end == self.sent {
                return Ok(false);
            }
            match socket.send(&request[self.sent..end]) {
                Ok(len) => {
                    self.sent += len;
                    self.allowance = self.allowance.saturating_sub(len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(match LoadFault::of(&error) {
                        LoadFault::Transport(reason) if self.sent == 0 => LoadFault::Connect(reason),
                        fault => fault,
                    });
                }
            }
        }
        self.stage = ClientStage::Receiving;
        Ok(true)
    }

    /// Receives until there is no more for now. `ends`: the kernel says that the target has closed.
    pub(super) fn receive(
        &mut self,
        buf: &mut [u8],
        exchange: &PreparedExchange,
        ends: bool,
    ) -> Result<ClientStep, LoadFault> {
        loop {
            let Some(socket) = &mut self.socket else { return Ok(ClientStep::Wait) };
            let room = buf.len().min(self.allowance);
            if room == 0 {
                return Ok(ClientStep::Wait);
            }
            let buf = &mut buf[..room];
            let len = match socket.receive(buf) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ClientStep::Wait),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(LoadFault::of(&error)),
            };
            self.allowance = self.allowance.saturating_sub(len);
            let goes_on = ends || !socket.is_drained(len, buf.len());
            match self.stage {
                ClientStage::Idle | ClientStage::Closing if len == 0 => return Ok(ClientStep::Ended),
                ClientStage::Idle | ClientStage::Closing => return Err(LoadFault::Surplus),
                ClientStage::Sending | ClientStage::Receiving if len == 0 => {
                    let step = self.reader.end(&exchange.expected)?;
                    return Ok(self.note(step));
                }
                ClientStage::Sending | ClientStage::Receiving => {}
            }
            if let Some(opening) = &mut self.opening {
                if opening.feed(&buf[..len])? {
                    self.begin_frames(exchange)?;
                }
                if goes_on {
                    continue;
                }
                return Ok(ClientStep::Wait);
            }
            match self.reader.feed(&buf[..len], &exchange.expected)? {
                ReadProgress::More if goes_on => {}
                ReadProgress::More => return Ok(ClientStep::Wait),
                done @ ReadProgress::Done { .. } => return Ok(self.note(done)),
            }
        }
    }

    /// Sends the message for which the tunnel was opened.
    fn begin_frames(&mut self, exchange: &PreparedExchange) -> Result<(), LoadFault> {
        self.opening = None;
        self.sent = 0;
        self.stage = ClientStage::Sending;
        self.send(exchange).map(|_| ())
    }

    /// Notes how far the answer has come; with the last byte of it, its cookie.
    fn note(&mut self, step: ReadProgress) -> ClientStep {
        let ReadProgress::Done { closes } = step else { return ClientStep::Wait };
        let gives_cookie = self.reader.set_cookie().is_some_and(|cookie| self.jar.keep(cookie));
        ClientStep::Answered { closes, gives_cookie }
    }
}

/// Source addresses a client may use on the loopback network. The first is the kernel's choice, without a bind.
pub(crate) const SOURCES: usize = 16;

/// What the kernel receives ahead for a slow client: with the usual megabytes the other side would not see that it is slow.
const SLOW_BUFFER: usize = 8 * 1024;

/// Starts a non-blocking connection from source number `source`, for a slow client if `is_paced`.
pub(crate) fn connect(target: SocketAddr, source: usize, is_paced: bool) -> Result<OwnedFd, Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if is_paced {
        // Before the connection, whose window is scaled by it.
        sockopt::set_socket_recv_buffer_size(&socket, SLOW_BUFFER)?;
    }
    if let Some(addr) = source_addr(target, source) {
        rustix::net::bind(&socket, &addr)?;
    }
    match rustix::net::connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Source number `source` for `target`; `None` leaves the choice to the kernel.
pub(super) fn source_addr(target: SocketAddr, source: usize) -> Option<SocketAddr> {
    match target.ip() {
        IpAddr::V4(ip) if ip.is_loopback() && source > 0 => {
            Some(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 1 + source as u8), 0)))
        }
        _ => None,
    }
}
