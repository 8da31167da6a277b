//! Listening sockets: bound once per worker, accepted from in batches, balanced between the workers.
//!
//! The kernel spreads connections over the sockets of a `SO_REUSEPORT` group by hash, which leaves few connections
//! very uneven; [`Worker::place`] evens that out. Must not read a byte from a client.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};
use socket2::{Domain, SockAddr, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weir_config::{ListenAddress, Listener};

use crate::net::peer::Peer;
use crate::net::sys;
use crate::state::view::LocalListener;
use crate::worker::{Accepted, Worker};

/// Connections taken in one turn of the event loop, so that accepting does not starve the sessions.
const ACCEPT_BATCH: usize = 64;

/// Pause after the process ran out of descriptors; shorter only burns CPU.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Pause when something was closed meanwhile.
const FREED_PAUSE: Duration = Duration::from_millis(2);

/// The longest backlog of a Unix socket, which does not tell how many wait.
const UNIX_BACKLOG_MAX: usize = 65_536;

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
    /// That of a Unix socket.
    pub(crate) file: Option<SocketFile>,
}

/// Makes sure that nobody has `address`, by a socket that shares its port with nobody: sockets of one user may share one, so that a second
/// process on it would go unnoticed. A socket of this process is in the way too.
///
/// # Errors
/// Those of `bind(2)`; `AddrInUse` also when another process shares its port willingly.
pub(crate) fn probe(listener: &Listener, address: &ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(addr) => probe_inet(listener, *addr, true).map(drop),
        ListenAddress::AllTcp { port } => {
            on_all(*port, |addr, only_v6| probe_inet(listener, addr, only_v6).map(drop))
        }
        // A path has one socket, and its bind finds out.
        ListenAddress::Unix(_) => Ok(()),
    }
}

/// Binds `address` for `workers` workers.
///
/// # Errors
/// Those of `bind(2)` and `listen(2)`.
pub(crate) fn bind(listener: &Listener, address: &ListenAddress, workers: usize) -> io::Result<Bound> {
    match address {
        ListenAddress::Tcp(addr) => bind_inet(listener, *addr, true, workers),
        ListenAddress::AllTcp { port } => {
            on_all(*port, |addr, only_v6| bind_inet(listener, addr, only_v6, workers))
        }
        ListenAddress::Unix(path) => bind_unix(listener, path),
    }
}

/// Tries every address of the machine, IPv6 and IPv4, or those of IPv4 where there is no other. The flag says whether an IPv6 address
/// leaves out IPv4.
fn on_all<T>(port: u16, act: impl Fn(SocketAddr, bool) -> io::Result<T>) -> io::Result<T> {
    act((Ipv6Addr::UNSPECIFIED, port).into(), false).or_else(|error| match error.raw_os_error() {
        // No IPv6 on this machine.
        Some(97 | 99) => act((Ipv4Addr::UNSPECIFIED, port).into(), true),
        _ => Err(error),
    })
}

/// A socket that has the address to itself, until it is dropped or others of this process are bound there too.
fn probe_inet(listener: &Listener, addr: SocketAddr, only_v6: bool) -> io::Result<socket2::Socket> {
    let probe = inet_socket(listener, addr, only_v6)?;
    probe.bind(&addr.into())?;
    Ok(probe)
}

fn bind_inet(listener: &Listener, addr: SocketAddr, only_v6: bool, workers: usize) -> io::Result<Bound> {
    // Where the system chooses the port, it gives it to nobody else while this one is held.
    let chosen = if addr.port() == 0 { Some(probe_inet(listener, addr, only_v6)?) } else { None };
    let addr = match &chosen {
        Some(held) => held.local_addr()?.as_socket().unwrap_or(addr),
        None => addr,
    };
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = inet_socket(listener, addr, only_v6)?;
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))?;
        sockets.push(OwnedFd::from(socket));
    }
    Ok(Bound { address: BoundAddress::Inet(addr), sockets, file: None })
}

/// A socket with the options that accepted connections inherit.
fn inet_socket(listener: &Listener, addr: SocketAddr, only_v6: bool) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    set_options(&socket, listener)?;
    Ok(socket)
}

fn set_options(socket: &socket2::Socket, listener: &Listener) -> io::Result<()> {
    socket.set_tcp_nodelay(listener.tcp_nodelay)?;
    socket.set_keepalive(listener.tcp_keepalive.is_some())?;
    if let Some(silence) = listener.tcp_keepalive {
        socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(silence))?;
    }
    if let Some(wait) = listener.defer_accept {
        sys::set_defer_accept(socket.as_fd(), u32::try_from(wait.as_secs().max(1)).unwrap_or(u32::MAX))?;
    }
    if let Some(length) = listener.fast_open {
        sys::set_fast_open(socket.as_fd(), length)?;
    }
    Ok(())
}

fn bind_unix(listener: &Listener, path: &Path) -> io::Result<Bound> {
    remove_stale(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = Some(SocketFile::bound_at(path)?);
    socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))?;
    Ok(Bound { address: BoundAddress::Unix(path.to_path_buf()), sockets: vec![socket.into()], file })
}

/// The file of a Unix socket that this process has bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
}

/// Device, inode, and when it was made: what tells it from that of another process which has taken the path over. The number of an inode
/// soon stands for the next file.
type FileIdentity = (u64, u64, (i64, i64));

impl SocketFile {
    /// That at `path`, where a socket was just bound.
    pub(crate) fn bound_at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), identity: identity(path)? })
    }

    /// Removes it, if it is still there.
    pub(crate) fn remove(&self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _gone_already = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    let file = std::fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino(), (file.mtime(), file.mtime_nsec())))
}

/// Removes a socket file that nobody listens on any more, as after a crash. Another file that is in the way stays, an error.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path),
        },
        Err(_) => Ok(()),
    }
}

/// A listening socket of one worker, and whose connections come in there.
pub(crate) struct Door {
    socket: AsyncFd<Arc<OwnedFd>>,
    port: Option<u16>,
    listener: RefCell<Rc<LocalListener>>,
}

/// A door that is open until it is closed.
pub(crate) struct OpenDoor {
    /// What the whole process knows the address by.
    pub(crate) id: u64,
    door: Rc<Door>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Door {
    /// Whose connections come in here now.
    pub(crate) fn listener(&self) -> Rc<LocalListener> {
        Rc::clone(&self.listener.borrow())
    }

    /// Whether a connection waits to be accepted.
    pub(crate) fn has_waiting(&self) -> bool {
        let mut asked = [PollFd::from_borrowed_fd(self.socket.get_ref().as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn accept(&self, listener: &LocalListener) -> rustix::io::Result<Accepted> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, addr) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        Ok(Accepted { listener: Arc::clone(&listener.state), fd, peer: peer_of(addr), port: self.port })
    }
}

impl OpenDoor {
    /// Accepts on `socket`; `None` when the event loop refuses it.
    pub(crate) fn open(
        worker: &Rc<Worker>,
        id: u64,
        socket: Arc<OwnedFd>,
        port: Option<u16>,
        listener: &Rc<LocalListener>,
    ) -> Option<Self> {
        let socket = sys::watch_shared(socket, Interest::READABLE);
        let socket =
            socket.inspect_err(|error| tracing::error!(%error, "a listening socket cannot be watched"));
        let door = Rc::new(Door { socket: socket.ok()?, port, listener: RefCell::new(Rc::clone(listener)) });
        let accepting = tokio::task::spawn_local(accept(Rc::clone(worker), Rc::clone(&door)));
        Some(Self { id, door, accepting })
    }

    /// Gives the door to a listener, with its options for the connections to come.
    pub(crate) fn give_to(&self, listener: &Rc<LocalListener>) {
        let config = &listener.plan().config;
        if self.port_is_inet()
            && let Err(error) = adjust(self.door.socket.get_ref().as_fd(), config)
        {
            tracing::warn!(listener = &*config.name, %error, "a listening socket keeps its options of before");
        }
        self.door.listener.replace(Rc::clone(listener));
    }

    fn port_is_inet(&self) -> bool {
        self.door.port.is_some()
    }

    /// Closes it. Who is in its backlog already is taken, as far as there is room; a stop waits for room.
    pub(crate) async fn close(self, worker: &Rc<Worker>) {
        self.accepting.abort();
        let _aborted = self.accepting.await;
        let listener = self.door.listener();
        // No more than are there now, should others come all the while.
        let mut waiting = sys::backlog(self.door.socket.get_ref().as_fd()).unwrap_or(UNIX_BACKLOG_MAX);
        while waiting > 0 {
            if !worker.try_reserve(&listener.state) {
                if !worker.is_stopping() {
                    break;
                }
                worker.timers.nap(EXHAUSTED_PAUSE).await;
                continue;
            }
            waiting -= 1;
            match self.door.accept(&listener) {
                Ok(accepted) => worker.place(&listener, accepted),
                Err(errno) => {
                    worker.unreserve(&listener.state);
                    match errno {
                        // The client has left.
                        Errno::CONNABORTED => {}
                        errno if is_exhausted(errno) && worker.is_stopping() => {
                            waiting += 1;
                            worker.timers.nap(EXHAUSTED_PAUSE).await;
                        }
                        _ => break,
                    }
                }
            }
        }
    }
}

/// Changes the options of a socket that listens, to none where the config has none any more.
fn adjust(socket: BorrowedFd<'_>, listener: &Listener) -> io::Result<()> {
    if listener.defer_accept.is_none() {
        sys::set_defer_accept(socket, 0)?;
    }
    if listener.fast_open.is_none() {
        sys::set_fast_open(socket, 0)?;
    }
    let socket = socket2::SockRef::from(&socket);
    set_options(&socket, listener)?;
    socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))
}

/// Accepts on one socket until the door is closed.
async fn accept(worker: Rc<Worker>, door: Rc<Door>) {
    let socket = &door.socket;
    loop {
        let Ok(mut ready) = socket.readable().await else { return };
        // An accept that finds nobody costs as much as one that does: it makes a socket first. A Unix socket does not
        // tell how many wait.
        let waiting = sys::backlog(socket.get_ref().as_fd()).unwrap_or(usize::MAX);
        let mut all_taken = waiting <= ACCEPT_BATCH;
        for _ in 0..waiting.min(ACCEPT_BATCH) {
            // Before the accept, so that a connection beyond the limit stays in the backlog.
            let listener = worker.reserve(&door).await;
            match door.accept(&listener) {
                Ok(accepted) => worker.place(&listener, accepted),
                Err(Errno::AGAIN) => {
                    worker.unreserve(&listener.state);
                    all_taken = true;
                    break;
                }
                Err(errno) if is_exhausted(errno) => {
                    worker.unreserve(&listener.state);
                    worker.count_exhausted(&listener, errno);
                    all_taken = false;
                    // An idle connection goes for the new one, if there is any.
                    let is_freed = worker.free_descriptors() | worker.make_room(None, 0);
                    worker.timers.nap(if is_freed { FREED_PAUSE } else { EXHAUSTED_PAUSE }).await;
                    break;
                }
                // The client left before it was accepted, or the network failed for it alone.
                Err(_) => worker.unreserve(&listener.state),
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

/// Whether the system has nothing left to accept with: the connection stays in the backlog.
fn is_exhausted(errno: Errno) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno)
}

fn peer_of(addr: Option<SocketAddrAny>) -> Peer {
    match addr.and_then(|addr| SocketAddr::try_from(addr).ok()) {
        Some(addr) => Peer::Inet(SocketAddr::new(addr.ip().to_canonical(), addr.port())),
        None => Peer::Unix,
    }
}

#[cfg(test)]
mod tests {
    use weir_config::Config;

    use super::*;

    fn listener(settings: &str) -> Arc<Listener> {
        let text = format!(
            "listener.web = {{ address = \":0\", upstream = \"app\"{settings} }}\nupstream.app.servers = [\"127.0.0.1:1\"]\n"
        );
        Config::parse(&text, "test.toml").expect("the config is good").listeners.remove(0)
    }

    #[test]
    fn what_the_config_switches_off_is_off_on_an_open_socket() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let options =
            || [libc::TCP_DEFER_ACCEPT, libc::TCP_FASTOPEN].map(|name| sys::tcp(socket.as_fd(), name) > 0);
        for (settings, is_on) in [(", defer_accept = \"5s\", fast_open = 64", true), ("", false)] {
            adjust(socket.as_fd(), &listener(settings)).expect("a socket that listens takes its options");
            assert_eq!(options(), [is_on; 2], "{settings}");
        }
    }
}
