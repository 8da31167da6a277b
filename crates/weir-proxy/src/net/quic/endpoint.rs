//! One UDP socket of a worker, and the connections on it: takes datagrams to them, and begins new ones.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use quinn_proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Incoming, ServerConfig,
};
use weir_observe::{Cause, DatagramShard};
use weir_traffic::limit::ClientKey;

use super::forwarding::HandedDatagram;
use super::handshakes::HandshakeAdmission;
use super::keys::QuicKeys;
use super::link::QuicLink;
use super::socket::QuicSocket;
use super::udp::{ReceiveRoom, ReceivedDatagrams};
use crate::net::clock::{self, Instant};

/// A socket with its connections.
pub(crate) struct QuicEndpoint {
    socket: Rc<QuicSocket>,
    keys: QuicKeys,
    worker: usize,
    /// By their numbers.
    links: RefCell<Vec<Weak<QuicLink>>>,
}

/// What comes of a datagram beside a step of a connection.
pub(crate) enum DatagramArrival<'a> {
    /// A client begins.
    New(Box<Incoming>),
    /// The connection is one of another worker: its packet has come here, since its client has another address now.
    Foreign(usize, HandedDatagram<'a>),
}

/// Why a client that begins is not served now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was asked to prove its address.
    Retry,
    /// Too many handshakes are under way: it tries again.
    Busy,
    /// Its first packet is broken, or it has gone.
    Broken,
    /// TLS does not take its first message.
    Handshake(Cause),
}

/// The errors of TLS among those of QUIC, by their alerts (RFC 9001 section 4.8), and that of a name without a certificate, as rustls tells it.
const ALERTS: RangeInclusive<u64> = 0x100..=0x1ff;
const ACCESS_DENIED: u64 = 0x131;

fn refused(error: &ConnectionError) -> Refused {
    let ConnectionError::TransportError(error) = error else { return Refused::Broken };
    match error.code.into() {
        ACCESS_DENIED => Refused::Handshake(Cause::TlsUnrecognizedName),
        code if ALERTS.contains(&code) => Refused::Handshake(Cause::TlsHandshakeFailed),
        _ => Refused::Broken,
    }
}

impl QuicEndpoint {
    /// On a bound socket. `config` is what clients are served by until the first [`QuicEndpoint::serve_by`].
    ///
    /// # Errors
    /// Those of the socket options.
    pub(crate) fn open(
        socket: Arc<OwnedFd>,
        keys: &QuicKeys,
        worker: usize,
        config: Arc<ServerConfig>,
        counters: Arc<DatagramShard>,
    ) -> io::Result<Rc<Self>> {
        let socket = Rc::new(QuicSocket::open(socket, keys, worker, config, counters)?);
        Ok(Rc::new(Self { socket, keys: keys.clone(), worker, links: RefCell::default() }))
    }

    /// Serves clients that begin from now on by this.
    pub(crate) fn serve_by(&self, config: Arc<ServerConfig>) {
        self.socket.protocol.borrow_mut().set_server_config(Some(config));
    }

    /// Datagrams that the kernel has dropped so far since the buffer of the socket was full.
    pub(crate) fn dropped(&self) -> u32 {
        self.socket.udp.dropped()
    }

    /// The address of the socket.
    pub(crate) fn local(&self) -> SocketAddr {
        self.socket.udp.local()
    }

    /// Receives nothing more on the socket, on which another process does: only sends.
    pub(crate) fn stop_receiving(&self) {
        self.socket.stop_receiving();
    }

    /// Whether there are connections on it.
    pub(crate) fn is_used(&self) -> bool {
        self.socket.protocol.borrow().open_connections() > 0
    }

    /// Room for what a worker receives.
    pub(crate) fn room() -> ReceiveRoom {
        ReceiveRoom::new()
    }

    /// Receives what has come, into `room`; how many messages.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: &mut ReceiveRoom,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_receive(cx, room)
    }

    /// Takes what was received to its connections; `arrived` gets what is for none of this worker.
    pub(crate) fn take(
        &self,
        room: &ReceiveRoom,
        count: usize,
        mut arrived: impl FnMut(DatagramArrival<'_>),
    ) {
        let now = clock::now();
        self.socket.counters.received_runs.add(count as u64);
        for message in room.messages(count) {
            let ReceivedDatagrams { from, to, ecn, stride, bytes } = message;
            self.socket.counters.received.add(bytes.len().div_ceil(stride) as u64);
            for datagram in bytes.chunks(stride) {
                match self.keys.worker_of(datagram).filter(|worker| *worker != self.worker) {
                    Some(worker) => {
                        arrived(DatagramArrival::Foreign(
                            worker,
                            HandedDatagram { from, to, ecn, bytes: datagram },
                        ));
                    }
                    None => {
                        let is_passed_on = self.keys.earlier_process_of(datagram).map(|earlier| {
                            let datagram = HandedDatagram { from, to, ecn, bytes: datagram };
                            self.socket.counters.forwarded.increment();
                            earlier.send(datagram, self.socket.udp.local()) || !earlier.is_gone()
                        });
                        if is_passed_on == Some(true) {
                            continue;
                        }
                        let datagram = HandedDatagram { from, to, ecn, bytes: datagram };
                        if let Some(incoming) = self.take_one(now, datagram) {
                            arrived(DatagramArrival::New(Box::new(incoming)));
                        }
                    }
                }
            }
        }
    }

    /// Takes one datagram to its connection; gives that which is to begin.
    pub(crate) fn take_one(&self, now: Instant, datagram: HandedDatagram<'_>) -> Option<Incoming> {
        let HandedDatagram { from, to, ecn, bytes } = datagram;
        let mut response = Vec::new();
        let data = BytesMut::from(bytes);
        self.socket.at(to);
        let event =
            self.socket.protocol.borrow_mut().handle(clock::std(now), from, to, ecn, data, &mut response);
        match event? {
            DatagramEvent::NewConnection(incoming) => return Some(incoming),
            DatagramEvent::ConnectionEvent(handle, event) => self.pass(handle, event, from, bytes),
            DatagramEvent::Response(transmit) => self.socket.respond(&transmit, &response),
        }
        None
    }

    /// The connection with this number.
    pub(crate) fn link_of(&self, number: u64) -> Option<Rc<QuicLink>> {
        let links = self.links.borrow();
        links.iter().filter_map(Weak::upgrade).find(|link| link.number() == number)
    }

    fn pass(&self, handle: ConnectionHandle, event: ConnectionEvent, from: SocketAddr, bytes: &[u8]) {
        let link = self.links.borrow().get(handle.0).and_then(Weak::upgrade);
        if let Some(link) = link {
            if link.is_handshaking() && self.keys.worker_of(bytes).is_some() {
                link.note_reached();
            }
            link.take(event, from, bytes.len());
        }
    }

    /// Begins the connection of a client.
    ///
    /// # Errors
    /// When it does not begin now.
    pub(crate) fn accept(
        self: &Rc<Self>,
        incoming: Incoming,
        config: Arc<ServerConfig>,
    ) -> Result<Rc<QuicLink>, Refused> {
        let mut response = Vec::new();
        let is_proven = incoming.remote_address_validated();
        let proven = is_proven.then(|| ClientKey::from(incoming.remote_address().ip()));
        let admitted = self.socket.handshakes.borrow().admit(proven);
        let incoming = match admitted {
            HandshakeAdmission::Begins => incoming,
            HandshakeAdmission::BeginsProven => self.proven(incoming).ok_or(Refused::Retry)?,
            HandshakeAdmission::Waits => {
                self.ignore(incoming);
                return Err(Refused::Busy);
            }
        };
        let now = clock::std(clock::now());
        self.socket.at(incoming.local_ip());
        let accepted = self.socket.protocol.borrow_mut().accept(incoming, now, &mut response, Some(config));
        match accepted {
            Ok((handle, connection)) => {
                let link = QuicLink::new(Rc::clone(&self.socket), handle, connection, proven);
                let mut links = self.links.borrow_mut();
                if links.len() <= handle.0 {
                    links.resize_with(handle.0 + 1, Weak::new);
                }
                links[handle.0] = Rc::downgrade(&link);
                Ok(link)
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    self.socket.respond(transmit, &response);
                }
                Err(refused(&error.cause))
            }
        }
    }

    /// A client that can be reached at its address; any other is asked to prove that (Retry, RFC 9000 section 8.1.2), and comes again.
    pub(crate) fn proven(&self, incoming: Incoming) -> Option<Incoming> {
        if incoming.remote_address_validated() || !incoming.may_retry() {
            return Some(incoming);
        }
        let mut response = Vec::new();
        let asked = self.socket.protocol.borrow_mut().retry(incoming, &mut response);
        if let Ok(transmit) = asked {
            self.socket.respond(&transmit, &response);
        }
        None
    }

    /// Takes no notice of a client that begins: it tries again by itself.
    pub(crate) fn ignore(&self, incoming: Incoming) {
        self.socket.protocol.borrow_mut().ignore(incoming);
    }

    /// Tells a client that begins that it is not served.
    pub(crate) fn refuse(&self, incoming: Incoming) {
        let mut response = Vec::new();
        let transmit = self.socket.protocol.borrow_mut().refuse(incoming, &mut response);
        self.socket.respond(&transmit, &response);
    }
}
