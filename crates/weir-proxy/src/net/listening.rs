//! Listening sockets: bound once for each worker that accepts, with the options that accepted connections inherit.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Type};
use weir_config::{ListenAddress, Listener};

use super::{memory, sys};

/// What the kernel may hold for a socket of datagrams in each direction, in bytes: what comes in during some milliseconds in which a worker is busy.
const DATAGRAM_BUFFER: usize = 4 * 1024 * 1024;

/// How many ports are tried until one is free for TCP and for datagrams.
const PORT_TRIES: usize = 16;

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
pub struct BoundSockets {
    /// The address, with the port that the system chose.
    pub address: BoundAddress,
    /// One socket for each worker; on a Unix address one for all.
    pub sockets: Vec<OwnedFd>,
    /// Those for datagrams, where the system chose the port, and the listener has HTTP/3.
    pub datagrams: Vec<OwnedFd>,
    /// That of a Unix socket.
    pub file: Option<SocketFile>,
}

/// Checks that `address` is free, by binding a socket without `SO_REUSEPORT`: sockets of one user may share a port, so that a second
/// process on it would go unnoticed. A socket of this process conflicts too.
///
/// # Errors
/// Those of `bind(2)`; `AddrInUse` also when another process shares its port willingly.
pub fn probe(listener: &Listener, address: &ListenAddress) -> io::Result<()> {
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
pub fn bind(listener: &Listener, address: &ListenAddress, workers: usize) -> io::Result<BoundSockets> {
    match address {
        ListenAddress::Tcp(addr) => bind_inet(listener, *addr, true, workers),
        ListenAddress::AllTcp { port } => {
            on_all(*port, |addr, only_v6| bind_inet(listener, addr, only_v6, workers))
        }
        ListenAddress::Unix(path) => bind_unix(listener, path),
    }
}

/// Listens on a socket that the supervisor has bound to `address`, with the options of `listener`. One worker accepts on it.
///
/// # Errors
/// Those of `listen(2)` and of the options.
pub fn adopt(listener: &Listener, socket: OwnedFd, address: BoundAddress) -> io::Result<BoundSockets> {
    let socket = socket2::Socket::from(socket);
    socket.set_nonblocking(true)?;
    if matches!(address, BoundAddress::Inet(_)) {
        set_options(&socket, listener)?;
    }
    socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))?;
    Ok(BoundSockets { address, sockets: vec![socket.into()], datagrams: Vec::new(), file: None })
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

fn bind_inet(
    listener: &Listener,
    addr: SocketAddr,
    only_v6: bool,
    workers: usize,
) -> io::Result<BoundSockets> {
    let chosen = match addr.port() {
        0 => Some(choose_port(
            || probe_inet(listener, addr, only_v6),
            |addr| match &listener.http3 {
                Some(_) => bind_datagrams_alone(addr, only_v6, workers),
                None => Ok(Vec::new()),
            },
        )?),
        _ => None,
    };
    // The system does not give the port out again while `_held` is bound.
    let (_held, addr, datagrams) = match chosen {
        Some((held, addr, datagrams)) => (Some(held), addr, datagrams),
        None => (None, addr, Vec::new()),
    };
    let sockets = bind_beside(listener, addr, only_v6, workers)?;
    sockets.iter().try_for_each(|socket| listen(socket.as_fd(), listener))?;
    Ok(BoundSockets { address: BoundAddress::Inet(addr), sockets, datagrams, file: None })
}

/// A port that the system chooses for connections, and that is free for datagrams, too, with the sockets of both.
fn choose_port(
    probe: impl Fn() -> io::Result<socket2::Socket>,
    mut bind_datagrams: impl FnMut(SocketAddr) -> io::Result<Vec<OwnedFd>>,
) -> io::Result<(socket2::Socket, SocketAddr, Vec<OwnedFd>)> {
    // Those that are held are not chosen again.
    let mut tried = Vec::new();
    loop {
        let held = probe()?;
        let addr = held.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        match bind_datagrams(addr) {
            Ok(datagrams) => return Ok((held, addr, datagrams)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tried.len() + 1 < PORT_TRIES => {
                tried.push(held);
            }
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("UDP, for HTTP/3: {error}")));
            }
        }
    }
}

/// The same as [`bind_datagrams`] at an address that no other socket has, not even one that shares it willingly.
fn bind_datagrams_alone(addr: SocketAddr, only_v6: bool, count: usize) -> io::Result<Vec<OwnedFd>> {
    let probe = socket2::Socket::new(Domain::for_address(addr), Type::DGRAM.cloexec(), None)?;
    if addr.is_ipv6() {
        probe.set_only_v6(only_v6)?;
    }
    probe.bind(&addr.into())?;
    drop(probe);
    bind_datagrams(addr, only_v6, count)
}

/// Binds `count` sockets for datagrams to an address that connections are accepted at, with its port, beside those that another process has handed
/// over. `only_v6` as for those.
///
/// # Errors
/// Those of `bind(2)`.
pub fn bind_datagrams(addr: SocketAddr, only_v6: bool, count: usize) -> io::Result<Vec<OwnedFd>> {
    let bind_one = |_| {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = socket2::Socket::new(Domain::for_address(addr), kind, None)?;
        if addr.is_ipv6() {
            socket.set_only_v6(only_v6)?;
        }
        // The kernel gives as much as it may.
        socket.set_recv_buffer_size(DATAGRAM_BUFFER)?;
        socket.set_send_buffer_size(DATAGRAM_BUFFER)?;
        sys::force_buffers(socket.as_fd(), DATAGRAM_BUFFER);
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        Ok(OwnedFd::from(socket))
    };
    let sockets: Vec<OwnedFd> = (0..count).map(bind_one).collect::<io::Result<_>>()?;
    if let Some(bytes) =
        sockets.first().and_then(|first| socket2::SockRef::from(first).recv_buffer_size().ok())
        && bytes < DATAGRAM_BUFFER
    {
        tracing::warn!(
            %addr,
            // Half of what the kernel gives is for its own records (socket(7)).
            bytes = bytes / 2,
            wanted = DATAGRAM_BUFFER,
            "the kernel gives UDP sockets little room, so that datagrams of QUIC are lost under load: set net.core.rmem_max and net.core.wmem_max to what is wanted"
        );
    }
    Ok(sockets)
}

/// Has the kernel give datagrams to those sockets of an address that their connection IDs say. One of them is given; there are `count`.
pub fn steer_datagrams(socket: BorrowedFd<'_>, count: usize) {
    if let Err(error) = sys::steer_by_connection_id(socket, u32::try_from(count).unwrap_or(u32::MAX)) {
        tracing::debug!(%error, "datagrams of QUIC go to workers by addresses, and are handed over where that is wrong");
    }
}

/// Has connections wait on a bound socket; on one where they do already, this changes how many may.
///
/// # Errors
/// Those of `listen(2)`.
pub fn listen(socket: BorrowedFd<'_>, listener: &Listener) -> io::Result<()> {
    Ok(rustix::net::listen(socket, i32::try_from(listener.backlog).unwrap_or(i32::MAX))?)
}

/// Binds `count` sockets to an address where others of this user may be bound; they get no connection before [`listen`]. `only_v6` says whether
/// an IPv6 address leaves out IPv4.
///
/// # Errors
/// Those of `bind(2)`.
pub fn bind_beside(
    listener: &Listener,
    addr: SocketAddr,
    only_v6: bool,
    count: usize,
) -> io::Result<Vec<OwnedFd>> {
    let bind_one = |_| {
        let socket = inet_socket(listener, addr, only_v6)?;
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        Ok(OwnedFd::from(socket))
    };
    (0..count).map(bind_one).collect()
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
    if let Some(bytes) = memory::unsent_max() {
        sys::set_unsent_max(socket.as_fd(), bytes)?;
    }
    if let Some(length) = listener.fast_open {
        sys::set_fast_open(socket.as_fd(), length)?;
    }
    Ok(())
}

fn bind_unix(listener: &Listener, path: &Path) -> io::Result<BoundSockets> {
    remove_stale(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = Some(SocketFile::bound_at(path)?);
    socket.listen(i32::try_from(listener.backlog).unwrap_or(i32::MAX))?;
    let (address, sockets) = (BoundAddress::Unix(path.to_path_buf()), vec![socket.into()]);
    Ok(BoundSockets { address, sockets, datagrams: Vec::new(), file })
}

/// The file of a Unix socket that this process has bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
}

/// Device, inode and modification time: distinguishes it from the file of another process at the same path. Inode numbers
/// are soon used again.
type FileIdentity = (u64, u64, (i64, i64));

impl SocketFile {
    /// That at `path`, where a socket was just bound.
    pub fn bound_at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), identity: identity(path)? })
    }

    /// Removes it, if it is still there.
    pub fn remove(&self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _gone_already = std::fs::remove_file(&self.path);
        }
    }

    /// Gives it to another user, and to a group.
    ///
    /// # Errors
    /// Those of `chown(2)`.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        Ok(chownat(CWD, &self.path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    let file = std::fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino(), (file.mtime(), file.mtime_nsec())))
}

/// Removes a socket file without a listener, as after a crash. Another file at the path is kept, and an error.
pub fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path),
        },
        Err(_) => Ok(()),
    }
}

/// Changes the options of a socket that listens, to none where the config has none any more.
///
/// # Errors
/// Those of `setsockopt(2)` and `listen(2)`.
pub fn adjust(socket: BorrowedFd<'_>, listener: &Listener) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_config::Config;

    use super::*;

    fn listener(settings: &str) -> Arc<Listener> {
        let text = format!(
            "listener.web = {{ address = \":0\", upstream = \"app\"{settings} }}\nupstream.app.servers = [\"127.0.0.1:1\"]\n"
        );
        Arc::clone(&Config::parse(&text, "test.toml").expect("the config is good").listeners[0])
    }

    /// Other programs have the ports for datagrams that the system chooses first.
    #[test]
    fn a_port_that_is_taken_for_datagrams_is_not_chosen() {
        let with_http3 = listener("");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut taken = Vec::new();
        let choose = |taken: &mut Vec<std::net::UdpSocket>, taken_max: usize| {
            choose_port(
                || probe_inet(&with_http3, any, true),
                |addr| {
                    if taken.len() < taken_max {
                        taken.push(std::net::UdpSocket::bind(addr)?);
                    }
                    bind_datagrams_alone(addr, true, 2)
                },
            )
        };
        let (held, addr, datagrams) = choose(&mut taken, 3).expect("the fourth port is free");
        assert_eq!(held.local_addr().expect("it is bound").as_socket(), Some(addr));
        let port_of = |socket: &OwnedFd| socket2::SockRef::from(socket).local_addr().ok()?.as_socket();
        assert_eq!(datagrams.iter().map(port_of).collect::<Vec<_>>(), [Some(addr); 2]);
        let ports: std::collections::HashSet<_> = taken.iter().map(|it| it.local_addr().ok()).collect();
        assert_eq!(ports.len(), 3, "each is another one");
        taken.clear();
        let error = choose(&mut taken, usize::MAX).expect_err("none is free");
        assert_eq!((error.kind(), taken.len()), (io::ErrorKind::AddrInUse, PORT_TRIES));
        assert!(error.to_string().starts_with("UDP, for HTTP/3: "), "{error}");
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
