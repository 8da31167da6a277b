//! An address where a server is missing, or comes and goes.
//!
//! A listener that is dropped leaves a port that the system gives to the next test. A reserved address keeps it: its socket
//! is bound and does not listen, so that connections are refused and the system does not give the port out.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::harness::eventually;

/// An address without a listener on any machine: the port of a historic service (TCPMUX, RFC 7805 section 2.1).
pub(crate) const CLOSED_PORT: &str = "127.0.0.1:1";

/// The queue of the standard library's listeners.
const BACKLOG: i32 = 128;

/// A TCP address of the test's own, on 127.0.0.1, for as long as it is held.
pub(crate) struct ReservedAddress {
    address: SocketAddr,
    _held: Socket,
}

impl ReservedAddress {
    /// One without a listener.
    pub(crate) fn new() -> ReservedAddress {
        let held = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback has a free port");
        let address = held.local_addr().expect("a bound socket has an address");
        ReservedAddress { address: address.as_socket().expect("it was bound to an IP address"), _held: held }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A listener there; once it is dropped, connections are refused again.
    pub(crate) fn listener(&self) -> TcpListener {
        let mut listener = None;
        eventually("the listener before has ended", || {
            let socket = bound(self.address).ok();
            listener = socket.filter(|socket| socket.listen(BACKLOG).is_ok());
            listener.is_some()
        });
        listener.expect("it was just made").into()
    }
}

/// With `SO_REUSEADDR` a socket can be bound to the port of another one that does not listen, but only if it names that port.
fn bound(address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[test]
fn a_reserved_address_refuses_connections_without_a_listener() {
    let reserved = ReservedAddress::new();
    let connect = || std::net::TcpStream::connect(reserved.address()).map_err(|error| error.kind());
    let refused = Some(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(connect().err(), refused);
    for _ in 0..2 {
        let listener = reserved.listener();
        assert_eq!(connect().err(), None);
        drop(listener);
        assert_eq!(connect().err(), refused);
    }
}
