//! A UDP socket of QUIC: many datagrams with one system call, both ways.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::net::sys;

/// Messages that are received with one system call; each may be a run of datagrams of one sender (GRO).
const MESSAGES_MAX: usize = 8;

/// The longest message (udp(7)).
const MESSAGE_BYTES_MAX: usize = 65_535;

/// Bytes of one send at most: with more, the kernel refuses a run of datagrams (GSO).
pub(super) const SEND_BYTES_MAX: usize = 65_000;

/// A socket that is bound, in the event loop of its worker.
#[derive(Debug)]
pub(super) struct UdpSocket {
    socket: Arc<OwnedFd>,
    /// `None` when nothing is to be known of it any more.
    events: RefCell<Option<AsyncFd<Arc<OwnedFd>>>>,
    is_receiving: Cell<bool>,
    state: UdpSocketState,
    local: SocketAddr,
}

/// What datagrams are received into: as much as one call may fill. Of pages that no datagram has come to, there is no memory.
pub(crate) struct ReceiveRoom {
    bytes: Vec<u8>,
    metas: [RecvMeta; MESSAGES_MAX],
}

impl ReceiveRoom {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; MESSAGES_MAX * MESSAGE_BYTES_MAX], metas: Default::default() }
    }

    /// The first `count` messages.
    pub(super) fn messages(&self, count: usize) -> impl Iterator<Item = ReceivedDatagrams<'_>> {
        let messages = self.bytes.chunks(MESSAGE_BYTES_MAX).zip(&self.metas).take(count);
        messages.map(|(bytes, meta)| ReceivedDatagrams {
            from: SocketAddr::new(meta.addr.ip().to_canonical(), meta.addr.port()),
            to: meta.dst_ip.map(|ip| ip.to_canonical()),
            ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            stride: meta.stride.max(1),
            bytes: &bytes[..meta.len],
        })
    }
}

/// A run of datagrams of one sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedDatagrams<'a> {
    pub(super) from: SocketAddr,
    /// The address that they were sent to.
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    /// Bytes of each datagram but the last.
    pub(super) stride: usize,
    pub(super) bytes: &'a [u8],
}

impl UdpSocket {
    pub(super) fn open(socket: Arc<OwnedFd>) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // What a batch arrives at is known well enough, and the time stamps of the kernel cost a few per cent of a request.
        sys::set_no_timestamps(std::os::fd::AsFd::as_fd(&socket))?;
        let local = socket2::SockRef::from(&socket).local_addr()?;
        let local = local.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        let events = sys::watch_shared(Arc::clone(&socket), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { socket, events: RefCell::new(Some(events)), is_receiving: Cell::new(true), state, local })
    }

    /// The address that it is bound to.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Datagrams that the kernel has dropped so far since the buffer was full.
    pub(super) fn dropped(&self) -> u32 {
        sys::dropped(std::os::fd::AsFd::as_fd(&*self.socket))
    }

    /// Whether packets may be larger than the path takes.
    pub(super) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// How many datagrams may be sent at once.
    pub(super) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Receives what has come; how many messages.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: &mut ReceiveRoom,
    ) -> Poll<io::Result<usize>> {
        let events = self.events.borrow();
        let Some(events) = &*events else { return Poll::Pending };
        while self.is_receiving.get() {
            let mut ready = ready!(events.poll_read_ready(cx))?;
            let mut chunks = room.bytes.chunks_mut(MESSAGE_BYTES_MAX);
            let mut slices: [IoSliceMut<'_>; MESSAGES_MAX] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            match self.state.recv((&*self.socket).into(), &mut slices, &mut room.metas) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }

    /// Receives nothing more: what comes is for another process, which has the socket as well.
    pub(super) fn stop_receiving(&self) {
        if self.is_receiving.replace(false) {
            // Otherwise every datagram would wake the worker. The kernel knows a descriptor once.
            drop(self.events.take());
            self.events.replace(sys::watch_shared(Arc::clone(&self.socket), Interest::WRITABLE).ok());
        }
    }

    /// Sends datagrams; `false` when the socket takes none now. What the network refuses is lost, as packets may be.
    pub(super) fn send(&self, transmit: &Transmit, bytes: &[u8]) -> bool {
        let transmit = quinn_udp::Transmit {
            destination: self.reachable(transmit.destination),
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip.map(|ip| self.reachable(SocketAddr::new(ip, 0)).ip()),
        };
        let sent = self.state.try_send((&*self.socket).into(), &transmit);
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until the socket takes datagrams again.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut polled = [rustix::event::PollFd::new(&*self.socket, rustix::event::PollFlags::OUT)];
        let events = self.events.borrow();
        let Some(events) = &*events else { return Poll::Ready(()) };
        loop {
            let Ok(mut ready) = ready!(events.poll_write_ready(cx)) else { return Poll::Ready(()) };
            if rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())) != Ok(0) {
                return Poll::Ready(());
            }
            ready.clear_ready();
        }
    }

    /// An address in the form of the socket: one of IPv6 takes those of IPv4 as mapped ones.
    fn reachable(&self, addr: SocketAddr) -> SocketAddr {
        match (self.local, addr.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()),
            _ => addr,
        }
    }
}
