//! A client's place in a load: its connection, whichever protocol it speaks, and the requests on it.

use std::os::fd::{AsFd, BorrowedFd};

use super::prepared::{PreparedRequest, RequestBytes};
use super::stream_connection::StreamConnection;
use crate::clock;
use crate::load::LoadFault;
use crate::load::http2::client::StreamResult;
use crate::load::http3::client::{EndedStream, Http3Client, RequestTimes};
use crate::load::http3::socket::ReceiveBuffers;
use crate::load::seen::SeenAnswer;

/// A request of the load, from its intended start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueRequest {
    /// By which it is known.
    pub(super) tag: u64,
    /// Which of the prepared requests it is.
    pub(super) number: usize,
    /// Its intended start, ns since the start of the run.
    pub(super) due: u64,
    /// When a client took it.
    pub(super) began: u64,
    /// How often it was sent before.
    pub(super) attempts: u32,
    /// In which turn of its driver it was found to be due.
    pub(super) turn: u64,
}

/// The connection of a seat.
pub(super) enum SeatConnection {
    /// TCP.
    Stream(Box<StreamConnection>),
    /// QUIC.
    Quic(Box<Http3Client>),
}

/// See the module.
#[derive(Default)]
pub(super) struct ClientSeat {
    /// Its connection; none before the first request and after the end of one.
    pub(super) connection: Option<SeatConnection>,
    /// Which of its connections this is: tells late events of an earlier one.
    pub(super) serial: u32,
    /// Requests under way.
    pub(super) active: Vec<DueRequest>,
    /// Requests that the connection takes later: it is not there yet, or has enough.
    pub(super) pending: Vec<DueRequest>,
    /// Which source address its connections have, where the target is on this machine.
    pub(super) source: usize,
    /// The kernel tells when more can be sent.
    pub(super) watches_out: bool,
}

impl SeatConnection {
    /// Begins a request, which goes out with the next `flush`; false when it takes none now.
    pub(super) fn begin(&mut self, asked: &DueRequest, request: &PreparedRequest) -> bool {
        match (self, &request.bytes) {
            (Self::Stream(stream), _) => stream.begin(asked.tag, request),
            (Self::Quic(client), RequestBytes::Http3(request)) => {
                client.begin(request, RequestTimes { due: asked.due, began: asked.began, tag: asked.tag })
            }
            _ => false,
        }
    }

    /// Sends what is to be sent; true when the kernel took all of it.
    pub(super) fn flush(&mut self) -> bool {
        match self {
            Self::Stream(stream) => match stream.send() {
                Ok(all) => all,
                Err(fault) => {
                    stream.end(Some(&fault));
                    true
                }
            },
            Self::Quic(client) => {
                client.flush();
                true
            }
        }
    }

    /// Takes what has come.
    pub(super) fn receive(&mut self, buf: &mut [u8], buffers: &mut ReceiveBuffers) {
        match self {
            Self::Stream(stream) => match stream.receive(buf) {
                Ok(false) => {}
                Ok(true) => stream.end(None),
                Err(fault) => stream.end(Some(&fault)),
            },
            Self::Quic(client) => {
                client.receive(buffers);
                client.on_time(clock::now());
            }
        }
    }

    /// The requests that are over since the last call.
    pub(super) fn ended(&mut self) -> Vec<(u64, StreamResult, SeenAnswer)> {
        match self {
            Self::Stream(stream) => std::iter::from_fn(|| stream.pop_ended()).collect(),
            Self::Quic(client) => {
                client.ended().map(|EndedStream { times, result, seen }| (times.tag, result, seen)).collect()
            }
        }
    }

    /// Whether it will take further requests.
    pub(super) fn takes_requests(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.takes_requests(),
            Self::Quic(client) => client.takes_requests(),
        }
    }

    /// Why it was never there, where that is known and nothing else says it.
    pub(super) fn never_connected(&self) -> Option<&LoadFault> {
        match self {
            Self::Quic(client) if !client.is_connected() => client.closed(),
            _ => None,
        }
    }

    /// Gives up a request that takes too long.
    pub(super) fn give_up(&mut self, asked: &DueRequest) {
        match self {
            Self::Stream(stream) => stream.give_up(asked.tag),
            Self::Quic(client) if client.is_connected() => client.give_up_before(asked.began + 1),
            Self::Quic(client) => client.give_up(&LoadFault::Timeout),
        }
    }
}

impl AsFd for SeatConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.as_fd(),
            Self::Quic(client) => client.as_fd(),
        }
    }
}
