//! Datagrams on their way from the process that receives at an address to one before it, which has their connections still.
//!
//! Each is a message on a Unix socket between the two: where it comes from, where to it was sent, and its bytes. An upgrade hands over the sockets of
//! UDP, so that their order in the kernel stays as it is, whatever ends first.

use std::fmt;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn_proto::EcnCodepoint;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::connection_ids::{IdKey, destination};
use crate::net::sys;

/// Bytes in front of a datagram: congestion mark, sender, address that it was sent to, socket.
const HEAD_LEN: usize = 1 + ADDRESS_LEN + IP_LEN + ADDRESS_LEN;
const IP_LEN: usize = 16;
const ADDRESS_LEN: usize = IP_LEN + 2;

/// No mark, and no address.
const NO_MARK: u8 = 0;
const NO_IP: [u8; IP_LEN] = [0; IP_LEN];

/// The longest message: a datagram has 65 535 bytes at most (udp(7)).
const MESSAGE_BYTES_MAX: usize = HEAD_LEN + 65_535;

/// Bytes that wait for the other process at most; the kernel gives as much as it may.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// A datagram for a connection of another worker, or another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandedDatagram<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: &'a [u8],
}

/// A process before this one that has connections still.
pub(super) struct EarlierProcess {
    pub(super) ids: IdKey,
    pub(super) socket: OwnedFd,
}

impl fmt::Debug for EarlierProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlierProcess").field("ids", &self.ids).finish_non_exhaustive()
    }
}

impl EarlierProcess {
    /// Whether it has the connection of a datagram.
    pub(super) fn has(&self, datagram: &[u8]) -> bool {
        destination(datagram).is_some_and(|id| self.ids.worker_of(id).is_some())
    }

    /// Whether it has ended.
    pub(super) fn is_gone(&self) -> bool {
        has_hung_up(&self.socket)
    }

    /// Gives it a datagram that has come to the socket at `local`; `false` when it is lost, as datagrams may be.
    pub(super) fn send(&self, datagram: HandedDatagram<'_>, local: SocketAddr) -> bool {
        let message = encoded(datagram, local);
        rustix::net::send(&self.socket, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

/// Whether the other end of a socket is closed.
fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let polls = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    polls.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// The process behind this one, from when it is offered everything.
#[derive(Debug, Default)]
pub(crate) struct NextProcess(Mutex<NextState>);

/// How far it has come.
#[derive(Debug, Default)]
enum NextState {
    #[default]
    None,
    /// It may receive already; should it end instead of that, the other end of this is closed.
    Offered(OwnedFd),
    Receives,
}

impl NextProcess {
    fn state(&self) -> MutexGuard<'_, NextState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be one from now on, from which datagrams come on `ours`.
    pub(crate) fn offer(&self, ours: OwnedFd) {
        *self.state() = NextState::Offered(ours);
    }

    /// It receives from now on; where datagrams come from it.
    pub(crate) fn receives(&self) -> Option<OwnedFd> {
        match mem::replace(&mut *self.state(), NextState::Receives) {
            NextState::Offered(ours) => Some(ours),
            NextState::None | NextState::Receives => None,
        }
    }

    /// Whether it may have connections.
    pub(super) fn is_there(&self) -> bool {
        match &*self.state() {
            NextState::None => false,
            NextState::Offered(ours) => !has_hung_up(ours),
            NextState::Receives => true,
        }
    }
}

/// The two ends of the way from the next process: what that one gets, and what is received here.
///
/// # Errors
/// When the descriptors of the process end.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    // No datagrams: of those, the kernel lets ten wait (unix(7)).
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (theirs, ours) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    socket2::SockRef::from(&theirs).set_send_buffer_size(WAITING_BYTES)?;
    sys::force_buffers(theirs.as_fd(), WAITING_BYTES);
    Ok((theirs, ours))
}

/// Where datagrams come in from the processes behind this one.
pub(crate) struct ForwardedDatagrams {
    socket: AsyncFd<Arc<OwnedFd>>,
    message: Vec<u8>,
}

/// A datagram that another process has received.
pub(crate) struct ForwardedDatagram<'a> {
    /// The address of the socket.
    pub(crate) local: SocketAddr,
    pub(crate) datagram: HandedDatagram<'a>,
}

impl ForwardedDatagrams {
    pub(crate) fn open(socket: Arc<OwnedFd>) -> io::Result<Self> {
        let socket = sys::watch_shared(socket, Interest::READABLE)?;
        Ok(Self { socket, message: vec![0; MESSAGE_BYTES_MAX] })
    }

    /// The next one; `None` when no process is left that could send any.
    pub(crate) async fn next(&mut self) -> Option<ForwardedDatagram<'_>> {
        let len = loop {
            let mut ready = self.socket.readable().await.ok()?;
            match rustix::net::recv(ready.get_inner(), &mut self.message, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return None,
                Ok((len, _)) if decoded(&self.message[..len]).is_some() => break len,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(_) => return None,
            }
        };
        decoded(&self.message[..len])
    }
}

fn encoded(datagram: HandedDatagram<'_>, local: SocketAddr) -> Vec<u8> {
    let HandedDatagram { from, to, ecn, bytes } = datagram;
    let mut message = Vec::with_capacity(HEAD_LEN + bytes.len());
    message.push(ecn.map_or(NO_MARK, |mark| mark as u8));
    let address = |message: &mut Vec<u8>, addr: SocketAddr| {
        message.extend_from_slice(&octets(addr.ip()));
        message.extend_from_slice(&addr.port().to_be_bytes());
    };
    address(&mut message, from);
    message.extend_from_slice(&to.map_or(NO_IP, octets));
    address(&mut message, local);
    message.extend_from_slice(bytes);
    message
}

fn decoded(message: &[u8]) -> Option<ForwardedDatagram<'_>> {
    let (head, bytes) = message.split_at_checked(HEAD_LEN)?;
    let (mark, rest) = head.split_first()?;
    let (from, rest) = rest.split_first_chunk::<ADDRESS_LEN>()?;
    let (to, rest) = rest.split_first_chunk::<IP_LEN>()?;
    let local = rest.first_chunk::<ADDRESS_LEN>()?;
    let datagram = HandedDatagram {
        from: address(from),
        to: Some(*to).filter(|to| *to != NO_IP).map(ip),
        ecn: EcnCodepoint::from_bits(*mark),
        bytes,
    };
    Some(ForwardedDatagram { local: address(local), datagram })
}

fn octets(ip: IpAddr) -> [u8; IP_LEN] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn ip(octets: [u8; IP_LEN]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}

fn address(bytes: &[u8; ADDRESS_LEN]) -> SocketAddr {
    let (octets, port) = bytes.split_first_chunk().unwrap_or((&NO_IP, &[]));
    SocketAddr::new(ip(*octets), port.first_chunk().map_or(0, |port| u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_the_same_behind_the_way() {
        for (from, to, local) in [
            ("192.0.2.1:5000", Some("198.51.100.1"), "0.0.0.0:443"),
            ("[2001:db8::1]:5000", Some("2001:db8::2"), "[::]:443"),
            ("[2001:db8::1]:1", None, "127.0.0.1:8443"),
        ] {
            let (from, local): (SocketAddr, SocketAddr) = (from.parse().unwrap(), local.parse().unwrap());
            let to: Option<IpAddr> = to.map(|to| to.parse().unwrap());
            for ecn in [None, Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ce)] {
                let message = encoded(HandedDatagram { from, to, ecn, bytes: b"packet" }, local);
                let decoded = decoded(&message).unwrap();
                let HandedDatagram { from: from_then, to: to_then, ecn: mark, bytes } = decoded.datagram;
                assert_eq!((from_then, to_then, mark, bytes), (from, to, ecn, &b"packet"[..]));
                assert_eq!(decoded.local, local);
            }
        }
    }

    #[test]
    fn a_process_that_has_ended_is_known() {
        let (socket, ours) = pair().unwrap();
        let process = EarlierProcess { ids: IdKey::new([1; 16], 1), socket };
        assert!(!process.is_gone());
        drop(ours);
        assert!(process.is_gone());
    }

    #[test]
    fn a_next_process_that_ends_at_once_is_none() {
        let next = NextProcess::default();
        assert!(!next.is_there());
        let (theirs, ours) = pair().unwrap();
        next.offer(ours);
        assert!(next.is_there());
        drop(theirs);
        assert!(!next.is_there());
        let (_theirs, ours) = pair().unwrap();
        next.offer(ours);
        assert!(next.receives().is_some() && next.is_there());
    }

    #[test]
    fn a_message_that_is_cut_is_none() {
        for len in 0..HEAD_LEN {
            assert!(decoded(&vec![0; len]).is_none(), "{len}");
        }
    }
}
