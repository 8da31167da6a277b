//! The socket of one client, with the offloads of the kernel: many datagrams in one call, each way.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::net::sockopt;

/// Most bytes of one call that sends: that of one datagram, which the kernel takes apart.
const SEND_MAX: usize = 65_000;

/// Bytes of one call that receives: the most that the kernel puts together.
const RECEIVE_MAX: usize = 65_536;

/// Such calls in one.
const BATCH: usize = 8;

/// Bytes that the kernel is asked to keep until they are read. Its usual 208 KiB hold a fraction of a large answer.
const BUFFER: usize = 8 << 20;

/// Where datagrams are received; one for all clients of a thread.
pub struct ReceiveBuffers {
    bytes: Vec<u8>,
    metas: [RecvMeta; BATCH],
}

impl ReceiveBuffers {
    /// Empty ones.
    pub fn empty() -> Self {
        Self { bytes: vec![0; BATCH * RECEIVE_MAX], metas: [RecvMeta::default(); BATCH] }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct ClientSocket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl ClientSocket {
    /// Opens one to `target`.
    pub(super) fn open(target: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // A target that is not there answers with an error then.
        socket.connect(target)?;
        let state = UdpSocketState::new((&socket).into())?;
        // By force where the lab may; otherwise as much as the kernel allows.
        sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, BUFFER))?;
        Ok(Self { socket, state })
    }

    /// Whether datagrams are sent whole or not at all, so that the size of packets can be tried out.
    pub(super) fn may_try_sizes(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Datagrams of `mtu` bytes for one call.
    pub(super) fn segments_max(&self, mtu: u16) -> usize {
        self.state.max_gso_segments().min(SEND_MAX / usize::from(mtu.max(1))).max(1)
    }

    /// Sends datagrams; false when the kernel takes none now.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<bool> {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size: transmit.segment_size,
            src_ip: None,
        };
        match self.state.try_send((&self.socket).into(), &transmit) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // A packet that finds out how large packets may be was too large.
            Err(error) if quinn_udp::is_msg_size_err(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Receives what is there and hands on each datagram; false when there was nothing.
    pub(super) fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(SocketAddr, Option<EcnCodepoint>, BytesMut),
    ) -> io::Result<bool> {
        let mut chunks = buffers.bytes.chunks_mut(RECEIVE_MAX);
        let mut slices: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let count = match self.state.recv((&self.socket).into(), &mut slices, &mut buffers.metas) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let received = buffers.bytes.chunks(RECEIVE_MAX).zip(&buffers.metas).take(count);
        for (bytes, meta) in received {
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            for datagram in bytes[..meta.len].chunks(meta.stride.max(1)) {
                take(meta.addr, ecn, BytesMut::from(datagram));
            }
        }
        Ok(count > 0)
    }
}

impl AsFd for ClientSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
