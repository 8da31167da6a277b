//! Whether a server's address is one of a listener: then a request would come back.

use std::net::IpAddr;

/// An address of TCP: a host in lower case without brackets, nothing for all addresses, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TcpEndpoint {
    pub(super) host: String,
    pub(super) port: u16,
}

impl TcpEndpoint {
    /// That of a listener: `:80`, `10.0.0.1:80`, `[::]:80`; `None` for a Unix socket.
    pub(super) fn of_listener(text: &str) -> Option<TcpEndpoint> {
        let mut endpoint = Self::of_server(text)?;
        if endpoint.host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
            endpoint.host.clear();
        }
        Some(endpoint)
    }

    /// That of a server: `10.0.0.1:80`, `app:80`.
    pub(super) fn of_server(text: &str) -> Option<TcpEndpoint> {
        if text.starts_with("unix:") {
            return None;
        }
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Some(TcpEndpoint { host, port: port.parse().ok()? })
    }

    /// Whether a connection to it would come in at a listener of this machine, as far as the two texts say that.
    pub(super) fn reaches(&self, listener: &TcpEndpoint) -> bool {
        let is_here = self.is_loopback() || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        let is_same = self.host == listener.host
            || listener.host.is_empty() && is_here
            || self.host == "localhost" && listener.is_loopback()
            || listener.host == "localhost" && self.is_loopback();
        self.port == listener.port && is_same
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reaches_the_listener_that_it_names() {
        for (server, listener, expected) in [
            ("127.0.0.1:80", ":80", true),
            ("localhost:80", "0.0.0.0:80", true),
            ("[::1]:80", "[::]:80", true),
            ("0.0.0.0:80", ":80", true),
            ("localhost:80", "127.0.0.1:80", true),
            ("10.0.0.1:80", "10.0.0.1:80", true),
            ("10.0.0.1:80", ":80", false),
            ("10.0.0.1:80", "10.0.0.2:80", false),
            ("127.0.0.1:81", ":80", false),
            ("127.0.0.2:80", "127.0.0.1:80", false),
        ] {
            let server = TcpEndpoint::of_server(server).unwrap();
            let listener = TcpEndpoint::of_listener(listener).unwrap();
            assert_eq!(server.reaches(&listener), expected, "{server:?} {listener:?}");
        }
        assert!(
            TcpEndpoint::of_listener("unix:/run/a.sock").is_none() && TcpEndpoint::of_server("app").is_none()
        );
    }
}
