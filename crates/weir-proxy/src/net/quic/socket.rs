//! What the connections on one UDP socket have in common: the socket, and the half of the protocol that is not of one connection.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quinn_proto::{
    ConnectionEvent, ConnectionHandle, Endpoint, EndpointConfig, EndpointEvent, ServerConfig, Transmit,
};

use weir_observe::DatagramShard;

use super::handshakes::OpenHandshakes;
use super::keys::QuicKeys;
use super::shared_keys::ResetKey;
use super::udp::{ReceiveRoom, SEND_BYTES_MAX, UdpSocket};
use super::worker_ids::WorkerIds;

/// The version that is spoken (RFC 9000 section 15).
const VERSION_1: u32 = 1;

/// The largest packets that are received: of loopback and networks with large frames, too.
const PACKET_BYTES_MAX: u16 = 9_000;

/// Connections that are over, and whose clients may not know that yet; beyond it, clients get resets.
const ENDINGS_MAX: u32 = 64;

/// A socket, and what its connections share.
pub(super) struct QuicSocket {
    pub(super) udp: UdpSocket,
    pub(super) protocol: RefCell<Endpoint>,
    /// The key of resets that other nodes make as well.
    resets: Option<Arc<ResetKey>>,
    /// Connections whose handshake is not over.
    pub(super) handshakes: RefCell<OpenHandshakes>,
    /// Connections that are over, and answer until their clients know it.
    endings: Cell<u32>,
    pub(super) counters: Arc<DatagramShard>,
    /// What a packet is written into before it is sent.
    pub(super) scratch: RefCell<Vec<u8>>,
    /// Who waits for room in the socket.
    blocked: RefCell<Vec<Waker>>,
    /// The task that receives, and looks for that room.
    receiving: RefCell<Option<Waker>>,
}

impl QuicSocket {
    pub(super) fn open(
        socket: Arc<OwnedFd>,
        keys: &QuicKeys,
        worker: usize,
        config: Arc<ServerConfig>,
        counters: Arc<DatagramShard>,
    ) -> io::Result<Self> {
        let udp = UdpSocket::open(socket)?;
        let resets = keys.shared.as_ref().map(|shared| Arc::new(ResetKey::new(shared)));
        let mut settings = match &resets {
            Some(resets) => EndpointConfig::new(Arc::clone(resets) as _),
            None => EndpointConfig::new(Arc::clone(&keys.resets) as _),
        };
        if resets.is_some() {
            // All clients of a node that is gone come at once, and each is to know that.
            settings.min_reset_interval(Duration::ZERO);
        }
        let (keys, worker) = (keys.clone(), worker as u8);
        settings.cid_generator(move || Box::new(WorkerIds { keys: keys.clone(), worker }));
        settings.supported_versions(vec![VERSION_1]);
        settings.max_udp_payload_size(PACKET_BYTES_MAX).map_err(io::Error::other)?;
        let protocol = Endpoint::new(Arc::new(settings), Some(config), !udp.may_fragment(), None);
        Ok(Self {
            udp,
            protocol: RefCell::new(protocol),
            resets,
            handshakes: RefCell::default(),
            endings: Cell::new(0),
            counters,
            scratch: RefCell::default(),
            blocked: RefCell::default(),
            receiving: RefCell::default(),
        })
    }

    /// Receives what has come, into `room`; how many messages.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: &mut ReceiveRoom,
    ) -> Poll<io::Result<usize>> {
        // One that is blocked later has this task look at the socket.
        self.receiving.replace(Some(cx.waker().clone()));
        if !self.blocked.borrow().is_empty() && self.udp.poll_room(cx).is_ready() {
            self.blocked.borrow_mut().drain(..).for_each(Waker::wake);
        }
        self.udp.poll_receive(cx, room)
    }

    /// Makes resets for an address from now on.
    pub(super) fn at(&self, local: Option<IpAddr>) {
        if let Some(resets) = &self.resets {
            resets.at(local.unwrap_or(self.udp.local().ip()).to_canonical());
        }
    }

    /// Receives nothing more.
    pub(super) fn stop_receiving(&self) {
        self.udp.stop_receiving();
        if let Some(task) = self.receiving.take() {
            task.wake();
        }
    }

    /// Sends datagrams; `false` when the socket takes none now.
    pub(super) fn send(&self, transmit: &Transmit, bytes: &[u8]) -> bool {
        let is_sent = self.udp.send(transmit, bytes);
        if is_sent {
            let datagrams = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size.max(1)));
            self.counters.sent.add(datagrams as u64);
            self.counters.sent_runs.increment();
        }
        is_sent
    }

    /// Sends a packet that belongs to no connection; where the socket has no room, it is lost.
    pub(super) fn respond(&self, transmit: &Transmit, bytes: &[u8]) {
        self.send(transmit, bytes);
    }

    /// What a connection tells its endpoint; gives what the connection gets in turn.
    pub(super) fn hear(&self, handle: ConnectionHandle, event: EndpointEvent) -> Option<ConnectionEvent> {
        self.protocol.borrow_mut().handle_event(handle, event)
    }

    /// Whether there is room for a connection that is over.
    pub(super) fn begin_ending(&self) -> bool {
        let has_room = self.endings.get() < ENDINGS_MAX;
        self.endings.update(|endings| endings + u32::from(has_room));
        has_room
    }

    /// There is that room again.
    pub(super) fn end_ending(&self) {
        self.endings.update(|endings| endings - 1);
    }

    /// Datagrams of `mtu` bytes that one send may have.
    pub(super) fn segments_max(&self, mtu: u16) -> usize {
        self.udp.segments_max().min(SEND_BYTES_MAX / usize::from(mtu.max(1))).max(1)
    }

    /// Has `waker` woken when the socket has room.
    pub(super) fn wait_for_room(&self, waker: Waker) {
        self.blocked.borrow_mut().push(waker);
        if let Some(task) = self.receiving.take() {
            task.wake();
        }
    }
}
