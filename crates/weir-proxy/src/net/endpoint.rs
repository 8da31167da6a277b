//! Where a server can be reached.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server can be reached: one resolved address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// IPv4 or IPv6 address and port.
    Inet(SocketAddr),
    /// Path of a Unix stream socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Inet(addr) => addr.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
