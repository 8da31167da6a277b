//! Listening sockets: bound once per worker, accepted from in batches, balanced between the workers.
//!
//! The kernel spreads connections over the sockets of a `SO_REUSEPORT` group by hash, which leaves few connections
//! very uneven; [`Worker::place`] evens that out. Must not read a byte from a client.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::net::{SocketAddrAny, SocketFlags};
use socket2::{Domain, SockAddr, Type};
use tokio::io::Interest;
use weir_config::{ListenAddress, Listener};

use super::session::Peer;
use crate::sys;
use crate::worker::{Accepted, Listening, Worker};

/// Connections taken in one turn of the event loop, so that accepting does not starve the sessions.
const ACCEPT_BATCH: usize = 64;

/// Pause after the process ran out of descriptors; shorter only burns CPU.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// An address that a listener is bound to, with the port the system chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP over IPv4 or IPv6.
    Inet(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BoundAddress::Inet(addr) => addr.fmt(f),
            BoundAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The sockets of one address, one for each worker that accepts on it.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) address: BoundAddress,
    pub(crate) sockets: Vec<OwnedFd>,
}

/// Binds `address` for `workers` workers.
///
/// # Errors
/// Those of `bind(2)` and `listen(2)`; `AddrInUse` also when another process shares its port willingly.
pub(crate) fn bind(listener: &Listener, address: &ListenAddress, workers: usize) -> io::Result<Bound> {
    match address {
        ListenAddress::Tcp(addr) => bind_inet(listener, *addr, true, workers),
        ListenAddress::AllTcp { port } => {
            let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
            bind_inet(listener, six, false, workers).or_else(|error| match error.raw_os_error() {
                // No IPv6 on this machine.
                Some(97 | 99) => bind_inet(listener, (Ipv4Addr::UNSPECIFIED, *port).into(), true, workers),
                _ => Err(error),
            })
        }
        ListenAddress::Unix(path) => bind_unix(listener, path),
    }
}

fn bind_inet(listener: &Listener, addr: SocketAddr, only_v6: bool, workers: usize) -> io::Result<Bound> {
    // A probe that shares its port with nobody: otherwise a second process on the same port would go unnoticed.
    let mut addr = addr;
    {
        let probe = inet_socket(listener, addr, only_v6)?;
        probe.bind(&addr.into())?;
        if let Some(chosen) = probe.local_addr()?.as_socket() {
            addr = chosen;
        }
    }
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = inet_socket(listener, addr, only_v6)?;
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))?;
        sockets.push(OwnedFd::from(socket));
    }
    Ok(Bound { address: BoundAddress::Inet(addr), sockets })
}

/// A socket with the options that accepted connections inherit.
fn inet_socket(listener: &Listener, addr: SocketAddr, only_v6: bool) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_tcp_nodelay(listener.tcp_nodelay)?;
    if let Some(silence) = listener.tcp_keepalive {
        socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(silence))?;
    }
    if let Some(wait) = listener.defer_accept {
        sys::set_defer_accept(socket.as_fd(), u32::try_from(wait.as_secs().max(1)).unwrap_or(u32::MAX))?;
    }
    if let Some(length) = listener.fast_open {
        sys::set_fast_open(socket.as_fd(), length)?;
    }
    Ok(socket)
}

fn bind_unix(listener: &Listener, path: &Path) -> io::Result<Bound> {
    remove_stale(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))?;
    Ok(Bound { address: BoundAddress::Unix(path.to_path_buf()), sockets: vec![socket.into()] })
}

/// Removes a socket file that nobody listens on any more, as after a crash.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            match std::os::unix::net::UnixStream::connect(path) {
                Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
                Err(_) => std::fs::remove_file(path),
            }
        }
        _ => Ok(()),
    }
}

/// Accepts on one socket until the worker stops.
pub(crate) async fn accept(worker: Rc<Worker>, listening: Listening) {
    let Listening { listener, port, socket } = listening;
    let socket = match sys::watch(socket, Interest::READABLE) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::error!(%error, "a listening socket cannot be watched");
            return;
        }
    };
    loop {
        let Ok(mut ready) = socket.readable().await else { return };
        // An accept that finds nobody costs as much as one that does: it makes a socket first. A Unix socket does not
        // tell how many wait.
        let waiting = sys::backlog(socket.get_ref().as_fd()).unwrap_or(usize::MAX);
        let mut all_taken = waiting <= ACCEPT_BATCH;
        for _ in 0..waiting.min(ACCEPT_BATCH) {
            // Before the accept, so that a connection beyond the limit stays in the backlog.
            worker.reserve(listener).await;
            match rustix::net::acceptfrom_with(&socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((fd, addr)) => worker.place(Accepted { listener, fd, peer: peer_of(addr), port }),
                Err(rustix::io::Errno::AGAIN) => {
                    worker.unreserve(listener);
                    all_taken = true;
                    break;
                }
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    worker.unreserve(listener);
                    worker.count_exhausted(listener);
                    all_taken = false;
                    tokio::time::sleep(EXHAUSTED_PAUSE).await;
                    break;
                }
                // The client left before it was accepted, or the network failed for it alone.
                Err(_) => worker.unreserve(listener),
            }
        }
        if all_taken {
            // Whoever has come meanwhile is reported again.
            ready.clear_ready();
        } else {
            // The next batch comes after the sessions of this one had their turn.
            tokio::task::yield_now().await;
        }
    }
}

fn peer_of(addr: Option<SocketAddrAny>) -> Peer {
    match addr.and_then(|addr| SocketAddr::try_from(addr).ok()) {
        Some(addr) => Peer::Inet(SocketAddr::new(addr.ip().to_canonical(), addr.port())),
        None => Peer::Unix,
    }
}
