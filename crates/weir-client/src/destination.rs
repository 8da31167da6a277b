//! Where requests go: an address, what the field `Host` names, and TLS.

use std::path::PathBuf;

use crate::tls::TlsSetup;

/// Where requests go.
#[derive(Clone)]
pub struct HttpDestination {
    /// Where it listens.
    pub address: PeerAddress,
    /// What `Host` names.
    pub authority: Box<str>,
    /// `None`: requests go without TLS.
    pub tls: Option<TlsSetup>,
}

/// Where a peer listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddress {
    /// A name or an address, and a port.
    Tcp(HostAndPort),
    /// The path of a socket.
    Unix(PathBuf),
}

/// A name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAndPort {
    /// An IPv6 address is without brackets.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl HostAndPort {
    /// Those of the authority of a URL, whose port may be missing.
    pub fn of_authority(authority: &str, usual_port: u16) -> Self {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(usual_port)),
            _ => (authority, usual_port),
        };
        Self { host: host.trim_start_matches('[').trim_end_matches(']').into(), port }
    }
}

impl HttpDestination {
    /// The authority of a URL, of `https` if there is TLS.
    pub fn of_authority(authority: &str, tls: Option<TlsSetup>) -> Self {
        let usual_port = if tls.is_some() { 443 } else { 80 };
        let address = PeerAddress::Tcp(HostAndPort::of_authority(authority, usual_port));
        Self { address, authority: authority.into(), tls }
    }

    /// A socket in the file system.
    pub fn of_socket(path: PathBuf) -> Self {
        Self { address: PeerAddress::Unix(path), authority: "localhost".into(), tls: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_split() {
        for (usual, authority, host, port) in [
            (80, "a.example:8500", "a.example", 8500),
            (443, "a.example", "a.example", 443),
            (80, "[::1]:2379", "::1", 2379),
            (80, "[::1]", "::1", 80),
        ] {
            let expected = HostAndPort { host: host.into(), port };
            assert_eq!(HostAndPort::of_authority(authority, usual), expected);
        }
    }
}
