//! The peer of a client connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// The peer of a client connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An IP address and port; IPv4 addresses are never mapped into IPv6.
    Inet(SocketAddr),
    /// A process on this machine, over a Unix socket.
    Unix,
}

impl Peer {
    /// The address, if there is one.
    pub(crate) fn ip(self) -> Option<IpAddr> {
        match self {
            Peer::Inet(addr) => Some(addr.ip()),
            Peer::Unix => None,
        }
    }

    /// The address that stands for this peer where one must be given: the loopback address for a Unix socket.
    pub(crate) fn ip_or_local(self) -> IpAddr {
        self.ip().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// How a connection came, where more is known of that than its peer.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionOrigin {
    /// Where the client connected to; IPv4 addresses are never mapped into IPv6.
    pub(crate) destination: SocketAddr,
    /// The proxy that sent a PROXY header, which names the client in its place.
    pub(crate) sender: Option<Peer>,
    /// The host name that the client requested, if the header contains it.
    pub(crate) authority: Option<Box<str>>,
    /// The values of the header besides addresses, where the config asks for some.
    pub(crate) values: Option<Rc<[u8]>>,
}
