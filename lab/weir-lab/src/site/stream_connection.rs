//! One connection over TCP to a site, with or without TLS: HTTP/1.1 with one request at a time, or HTTP/2.
//!
//! Does what its socket allows and never waits.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::http1_reader::Http1Reader;
use super::http2_streams::{EndedAnswer, Http2Streams};
use super::prepared::{PreparedRequest, RequestBytes};
use crate::load::http2::client::StreamResult;
use crate::load::seen::SeenAnswer;
use crate::load::{self, LoadFault, LoadSocket, SOURCES, TlsClient};
use crate::scenario::site::SiteProtocol;

/// The request of HTTP/1.1 that is under way.
#[derive(Debug)]
struct Http1Exchange {
    tag: u64,
    reader: Http1Reader,
    text: Option<Arc<[u8]>>,
    is_repeatable: bool,
}

#[derive(Debug)]
enum StreamProtocol {
    Http1 { exchange: Option<Http1Exchange>, ended: VecDeque<EndedAnswer>, is_over: bool },
    Http2(Http2Streams),
}

/// See the module.
#[derive(Debug)]
pub(super) struct StreamConnection {
    socket: LoadSocket,
    protocol: StreamProtocol,
    /// Bytes that the socket was given, and how many are gone.
    sending: Vec<u8>,
    sent: usize,
    /// Bytes that come after them.
    queued: Vec<u8>,
    /// What must be agreed on with TLS, until it was seen to be.
    wanted: Option<&'static [u8]>,
    /// Bytes have come.
    pub(super) has_received: bool,
    /// Answers so far.
    answers: u64,
}

impl StreamConnection {
    /// Begins to connect, from source number `source` or the next one that has a free port.
    pub(super) fn open(
        target: SocketAddr,
        secure: Option<&TlsClient>,
        protocol: SiteProtocol,
        source: &mut usize,
    ) -> Result<Self, LoadFault> {
        let refused = |error: std::io::Error| LoadFault::Connect(error.to_string());
        let mut connected = Err(LoadFault::NoSourcePort);
        for _ in 0..SOURCES {
            match load::connect(target, *source, false) {
                Ok(socket) => connected = Ok(socket),
                Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => {
                    *source = (*source + 1) % SOURCES;
                    continue;
                }
                Err(error) => connected = Err(refused(error.into())),
            }
            break;
        }
        let socket = LoadSocket::new(connected?, secure).map_err(refused)?;
        let is_http2 = protocol == SiteProtocol::Http2;
        let protocol = if is_http2 {
            StreamProtocol::Http2(Http2Streams::new())
        } else {
            StreamProtocol::Http1 { exchange: None, ended: VecDeque::new(), is_over: false }
        };
        Ok(Self {
            socket,
            protocol,
            sending: Vec::new(),
            sent: 0,
            queued: Vec::new(),
            wanted: (is_http2 && secure.is_some()).then_some(b"h2"),
            has_received: false,
            answers: 0,
        })
    }

    /// Begins a request, which goes out with the next `send`; false when it takes none now.
    pub(super) fn begin(&mut self, tag: u64, request: &PreparedRequest) -> bool {
        let text = &request.expected.text;
        match (&mut self.protocol, &request.bytes) {
            (
                StreamProtocol::Http1 { exchange: exchange @ None, is_over: false, .. },
                RequestBytes::Http1(bytes),
            ) => {
                let (reader, text) = (Http1Reader::new(request.is_head), text.clone());
                *exchange = Some(Http1Exchange { tag, reader, text, is_repeatable: request.is_repeatable });
                self.queued.extend_from_slice(bytes);
                true
            }
            (StreamProtocol::Http2(streams), RequestBytes::Http2(block, body)) => {
                streams.begin(tag, block, body, text.as_ref())
            }
            _ => false,
        }
    }

    /// Whether it will take further requests, now or when others are answered.
    pub(super) fn takes_requests(&self) -> bool {
        match &self.protocol {
            StreamProtocol::Http1 { is_over, .. } => !is_over,
            StreamProtocol::Http2(streams) => streams.takes_requests(),
        }
    }

    /// Sends what is to be sent; true when all of it is gone.
    pub(super) fn send(&mut self) -> Result<bool, LoadFault> {
        loop {
            if let StreamProtocol::Http2(streams) = &mut self.protocol {
                self.queued.append(&mut streams.out);
            }
            if self.sent == self.sending.len() {
                self.sending.clear();
                self.sent = 0;
                std::mem::swap(&mut self.sending, &mut self.queued);
                if self.sending.is_empty() {
                    return Ok(true);
                }
            }
            match self.socket.send(&self.sending[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fault_of(&error)),
            }
        }
    }

    /// Receives until there is no more for now; true when the target has closed.
    pub(super) fn receive(&mut self, buf: &mut [u8]) -> Result<bool, LoadFault> {
        loop {
            let len = match self.socket.receive(buf) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.check_protocol()?;
                    return Ok(false);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.fault_of(&error)),
            };
            self.check_protocol()?;
            if len == 0 {
                return Ok(true);
            }
            self.has_received = true;
            self.take(&buf[..len])?;
        }
    }

    /// That HTTP/2 was agreed on, once the handshake is over.
    fn check_protocol(&mut self) -> Result<(), LoadFault> {
        let (Some(wanted), Some(agreed)) = (self.wanted, self.socket.agreed()) else { return Ok(()) };
        if agreed != Some(wanted) {
            return Err(LoadFault::Connect("the target does not offer HTTP/2 in its handshake".to_owned()));
        }
        self.wanted = None;
        Ok(())
    }

    fn take(&mut self, input: &[u8]) -> Result<(), LoadFault> {
        match &mut self.protocol {
            StreamProtocol::Http2(streams) => streams.receive(input),
            StreamProtocol::Http1 { exchange, ended, is_over } => {
                let Some(current) = exchange else { return Err(LoadFault::Surplus) };
                if current.reader.feed(input, current.text.as_deref())? {
                    *is_over = current.reader.closes;
                    let seen = std::mem::take(&mut current.reader.seen);
                    ended.push_back((current.tag, StreamResult::Answered, seen));
                    *exchange = None;
                    self.answers += 1;
                }
                Ok(())
            }
        }
    }

    /// The connection is over: by `fault`, or because the target closed it.
    pub(super) fn end(&mut self, fault: Option<&LoadFault>) {
        let is_reused = self.answers > 0;
        match &mut self.protocol {
            StreamProtocol::Http2(streams) => {
                streams.end(fault.unwrap_or(&LoadFault::Closed(0)));
            }
            StreamProtocol::Http1 { exchange, ended, is_over } => {
                *is_over = true;
                let Some(mut current) = exchange.take() else { return };
                // The target ended a kept connection while this request was on its way: every client sends it again.
                let is_race = is_reused && current.reader.total == 0 && current.is_repeatable;
                let result = match fault {
                    None | Some(LoadFault::Reset(_)) if is_race => StreamResult::Unprocessed,
                    None => match current.reader.end() {
                        Ok(()) => StreamResult::Answered,
                        Err(fault) => StreamResult::Failed(fault),
                    },
                    Some(fault) => StreamResult::Failed(fault.clone()),
                };
                ended.push_back((current.tag, result, current.reader.seen));
            }
        }
    }

    /// Gives up the request that its driver knows by `tag`; with HTTP/1.1, the connection as well.
    pub(super) fn give_up(&mut self, tag: u64) {
        match &mut self.protocol {
            StreamProtocol::Http2(streams) if self.has_received => streams.cancel(tag),
            _ => self.end(Some(&LoadFault::Timeout)),
        }
    }

    /// The next request that is over since the last call.
    pub(super) fn pop_ended(&mut self) -> Option<(u64, StreamResult, SeenAnswer)> {
        match &mut self.protocol {
            StreamProtocol::Http1 { ended, .. } => ended.pop_front(),
            StreamProtocol::Http2(streams) => streams.ended.pop_front(),
        }
    }

    fn fault_of(&self, error: &std::io::Error) -> LoadFault {
        if self.has_received { LoadFault::of(error) } else { LoadFault::Connect(error.to_string()) }
    }
}

impl AsFd for StreamConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
