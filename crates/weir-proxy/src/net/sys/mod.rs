//! What no safe library offers: six socket options, what a socket has not sent yet, the event loop's watch over a descriptor, and pages
//! that a file has, too.
//! The only unsafe code of the crate.

#![expect(unsafe_code, reason = "each block says why it is sound; everything else in the crate is safe")]

pub(crate) mod pages;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::AddressFamily;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a non-blocking descriptor with the event loop of this thread.
///
/// # Errors
/// Those of `epoll_ctl(2)`.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the event loop keeps the number of the descriptor and needs it to stay the same and open until it is
    // deregistered. An `OwnedFd` always gives the same number and stays open until it is dropped, and `AsyncFd`
    // deregisters before it drops what it owns.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// The same for a descriptor that others may look at.
///
/// # Errors
/// As [`watch`].
pub(crate) fn watch_shared(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: as above; what an `Arc` holds stays where it is and open at least as long as that `Arc`.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// Keeps a connection in the kernel until its first byte is here, for at most `seconds` (tcp(7), `TCP_DEFER_ACCEPT`).
pub(crate) fn set_defer_accept(fd: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    set_tcp(fd, libc::TCP_DEFER_ACCEPT, seconds)
}

/// Lets up to `length` connections bring data in their first packet (RFC 7413; tcp(7), `TCP_FASTOPEN`).
pub(crate) fn set_fast_open(fd: BorrowedFd<'_>, length: u32) -> io::Result<()> {
    set_tcp(fd, libc::TCP_FASTOPEN, length)
}

/// Bounds what the kernel holds of a TCP socket that it has not sent for the first time: with more, the socket takes nothing, and has room
/// again from half of it on (tcp(7), `TCP_NOTSENT_LOWAT`).
pub(crate) fn set_unsent_max(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_tcp(fd, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Has new connections refused on a listening socket, while those that the kernel is making or has made are still accepted on it.
///
/// It is bound to an interface that does not exist (socket(7), `SO_BINDTOIFINDEX`), so that no SYN finds it; connections that have begun
/// know it already. A close would reset them.
pub fn refuse_new(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, u32::MAX)
}

/// Leaves the choice of a port to `connect(2)` when the socket is bound to an address: so only connections to one server share the ports
/// (ip(7), `IP_BIND_ADDRESS_NO_PORT`; of IPv6, too).
pub(crate) fn set_bind_without_port(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Lets the socket be bound to an address that this machine does not have (ip(7), `IP_TRANSPARENT`).
///
/// # Errors
/// `EPERM` without CAP_NET_RAW and CAP_NET_ADMIN.
pub(crate) fn set_transparent(fd: BorrowedFd<'_>, family: AddressFamily) -> io::Result<()> {
    match family {
        AddressFamily::INET6 => set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1),
        _ => set_option(fd, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1),
    }
}

/// Leaves received datagrams without the time at which they came (socket(7), `SO_TIMESTAMPNS`).
#[cfg(feature = "http3")]
pub(crate) fn set_no_timestamps(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0)
}

/// Has the kernel give each packet of QUIC to that socket of a group which its connection ID says (socket(7), `SO_ATTACH_REUSEPORT_CBPF`), of `sockets` in
/// all: the second byte is the worker. The group is that of `fd`, in the order in which its sockets were bound. The first packets of a client have an ID of
/// its own, by which they go to any worker, all to the same.
///
/// # Errors
/// Those of `setsockopt(2)`; the kernel then chooses by addresses.
pub(crate) fn steer_by_connection_id(fd: BorrowedFd<'_>, sockets: u32) -> io::Result<()> {
    /// The first byte of a packet with a long header has this bit (RFC 8999 section 5.1).
    const IS_LONG: u32 = 0x80;
    /// Where the connection ID begins: behind the first byte, or behind that, a version and a length.
    const SHORT: u32 = 1;
    const LONG: u32 = 6;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at: u32| step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, at);
    let mut program = [
        load(0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 2, IS_LONG),
        load(LONG + 1),
        step(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
        load(SHORT + 1),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, sockets.max(1)),
        step(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the descriptor is open for the life of the borrow, and the kernel copies the program, whose length and address are those of a live
    // array, before it returns.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_tcp(fd: BorrowedFd<'_>, name: libc::c_int, value: u32) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, name, value)
}

fn set_option(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: u32) -> io::Result<()> {
    let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open for the life of the borrow, and the kernel reads exactly the size of a c_int
    // from a pointer to a live c_int.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a socket buffers of so many bytes each way, beyond what the system lets others have, where the process may do that (`CAP_NET_ADMIN`,
/// socket(7)).
pub(crate) fn force_buffers(fd: BorrowedFd<'_>, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        // SAFETY: the descriptor is open for the life of the borrow, and the kernel reads a c_int from a live c_int.
        let _may_not = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            )
        };
    }
}

/// Datagrams that the kernel has dropped at a socket, since its buffer was full above all (`SO_MEMINFO`, `sock_diag.h`); 0 where it does not say.
#[cfg(feature = "http3")]
pub(crate) fn dropped(fd: BorrowedFd<'_>) -> u32 {
    const DROPS: usize = 8;
    let mut figures = [0_u32; DROPS + 1];
    let mut size = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the descriptor is open for the life of the borrow, and the kernel writes at most `size` bytes to a live array, and the size to a
    // live socklen_t.
    let outcome = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if outcome == 0 { figures[DROPS] } else { 0 }
}

/// How many connections wait to be accepted on a listening TCP socket (tcp(7), `TCP_INFO`).
///
/// # Errors
/// Those of `getsockopt(2)`, as on a socket of another protocol.
pub(crate) fn backlog(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // Of a listening socket the kernel gives the length of the queue here (`tcp_get_info`).
    Ok(tcp_info(fd)?.tcpi_unacked as usize)
}

/// Whether the kernel has given up a connection: its peer has reset it.
///
/// # Errors
/// Those of `getsockopt(2)`, as on a socket of another protocol.
pub(crate) fn is_reset(fd: BorrowedFd<'_>) -> io::Result<bool> {
    /// `TCP_CLOSE` of the kernel, the same on every architecture.
    const CLOSED: u8 = 7;
    Ok(tcp_info(fd)?.tcpi_state == CLOSED)
}

fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: all fields are integers, for which zeros are valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the life of the borrow, and the kernel writes at most `size` bytes to a live
    // tcp_info, and the size to a live socklen_t.
    let outcome = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    if outcome == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// How many bytes that were written to a TCP socket its peer has not acknowledged (tcp(7), `SIOCOUTQ`).
///
/// # Errors
/// Those of `ioctl(2)`; `Unsupported` on a socket of another protocol, which would count something else.
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<usize> {
    if rustix::net::sockopt::socket_domain(fd)? == rustix::net::AddressFamily::UNIX {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut len: libc::c_int = 0;
    // SAFETY: the descriptor is open for the life of the borrow, and the kernel writes a c_int to a live c_int.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut len) };
    if outcome == 0 { Ok(usize::try_from(len).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// A number that the kernel keeps for a TCP socket.
#[cfg(test)]
pub(crate) fn tcp(fd: BorrowedFd<'_>, name: libc::c_int) -> u32 {
    let mut value: libc::c_int = -1;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the life of the borrow, and the kernel writes at most `size` bytes to a live
    // c_int, and the size to a live socklen_t.
    let outcome = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name, value, &raw mut size)
    };
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
    u32::try_from(value).expect("both options are positive")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_kernel_has_what_was_set() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let fd = socket.as_fd();
        assert_eq!((tcp(fd, libc::TCP_DEFER_ACCEPT), tcp(fd, libc::TCP_FASTOPEN)), (0, 0));
        set_defer_accept(fd, 5).expect("every TCP socket takes it");
        set_fast_open(fd, 64).expect("every TCP socket takes it");
        assert_eq!(tcp(fd, libc::TCP_FASTOPEN), 64);
        // The kernel counts in retransmissions, after 1, 3, 7 s and so on, and rounds up.
        let wait = tcp(fd, libc::TCP_DEFER_ACCEPT);
        assert!((5..=7).contains(&wait), "{wait} s");
    }

    #[test]
    fn bytes_are_unacknowledged_until_the_peer_has_room() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let mut sender = std::net::TcpStream::connect(address).expect("the kernel accepts");
        let (mut receiver, _) = listener.accept().expect("one waits");
        assert_eq!(unacknowledged(sender.as_fd()).ok(), Some(0));
        sender.set_nonblocking(true).expect("every socket takes it");
        let mut sent = 0;
        while let Ok(len) = sender.write(&[0; 65_536]) {
            sent += len;
        }
        assert!(unacknowledged(sender.as_fd()).expect("TCP tells") > 0);
        receiver.read_exact(&mut vec![0; sent]).expect("all of it comes");
        // The last acknowledgement may still be on its way.
        while unacknowledged(sender.as_fd()).expect("TCP tells") > 0 {
            std::thread::yield_now();
        }
        let (mut unix, _peer) = std::os::unix::net::UnixStream::pair().expect("sockets can be made");
        unix.write_all(b"unread").expect("there is room");
        assert!(unacknowledged(unix.as_fd()).is_err());
    }

    #[test]
    fn what_a_closed_peer_did_not_get_stays_unacknowledged() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        for half in [false, true] {
            let mut sender = std::net::TcpStream::connect(address).expect("the kernel accepts");
            let (mut receiver, _) = listener.accept().expect("one waits");
            receiver.write_all(b"x").expect("there is room");
            sender.read_exact(&mut [0]).expect("it comes");
            let how = if half { std::net::Shutdown::Write } else { std::net::Shutdown::Both };
            receiver.shutdown(how).expect("it is open");
            while sender.peek(&mut [0]).expect("the end comes without an error") != 0 {}
            assert!(!is_reset(sender.as_fd()).expect("TCP tells"));
            sender.write_all(b"request").expect("the kernel takes it");
            assert_eq!(sender.read(&mut [0]).expect("the end comes first"), 0);
            if half {
                // It may still be read.
                receiver.read_exact(&mut [0; 7]).expect("it comes");
                while unacknowledged(sender.as_fd()).expect("TCP tells") > 0 {
                    std::thread::yield_now();
                }
                assert!(!is_reset(sender.as_fd()).expect("TCP tells"));
                continue;
            }
            while !is_reset(sender.as_fd()).expect("TCP tells") {
                std::thread::yield_now();
            }
            assert_eq!(unacknowledged(sender.as_fd()).expect("TCP tells"), 7);
        }
    }

    #[test]
    fn new_connections_are_refused_and_earlier_ones_are_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let mut early = std::net::TcpStream::connect(address).expect("the listener accepts");
        refuse_new(listener.as_fd()).expect("every socket takes it");
        let late = std::net::TcpStream::connect(address).expect_err("the socket is closed");
        assert_eq!(late.kind(), io::ErrorKind::ConnectionRefused);
        let (mut accepted, _) = listener.accept().expect("one waits");
        io::Write::write_all(&mut accepted, b"hello").expect("the connection is open");
        let mut greeting = [0; 5];
        io::Read::read_exact(&mut early, &mut greeting).expect("the connection is open");
        assert_eq!(&greeting, b"hello");
    }

    #[test]
    fn the_backlog_is_the_number_of_waiting_connections() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        assert_eq!(backlog(listener.as_fd()).ok(), Some(0));
        let clients = [(); 3].map(|()| std::net::TcpStream::connect(address).expect("the kernel accepts"));
        // The last packet of a handshake may still be on its way.
        while backlog(listener.as_fd()).expect("it listens") < clients.len() {
            std::thread::yield_now();
        }
        let _accepted = listener.accept().expect("three wait");
        assert_eq!(backlog(listener.as_fd()).ok(), Some(2));
        let (unix, _) = std::os::unix::net::UnixStream::pair().expect("sockets can be made");
        assert!(backlog(unix.as_fd()).is_err());
    }
}
