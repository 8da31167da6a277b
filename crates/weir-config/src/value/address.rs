//! Addresses: where a listener binds and where a server is.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a listener accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// One address and port: `"127.0.0.1:8080"`, `"[::1]:8080"`. `"[::]:80"` means IPv6 only. Port 0 lets the system choose.
    Tcp(SocketAddr),
    /// Every address of the machine, IPv6 and IPv4: `":8080"`. On a machine without IPv6 the IPv4 ones.
    AllTcp {
        /// The port; 0 lets the system choose.
        port: u16,
    },
    /// A Unix stream socket: `"unix:/run/weir.sock"`.
    Unix(PathBuf),
}

/// Where a server accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// An IPv4 or IPv6 address and port: `"10.0.0.1:80"`, `"[2001:db8::1]:80"`.
    Ip(SocketAddr),
    /// A DNS name and port: `"app.internal:8080"`. Resolved in the background, again and again.
    Name {
        /// The name in lower case, without a dot at its end.
        host: Box<str>,
        /// The port.
        port: u16,
    },
    /// A Unix stream socket: `"unix:/run/app.sock"`.
    Unix(PathBuf),
}
