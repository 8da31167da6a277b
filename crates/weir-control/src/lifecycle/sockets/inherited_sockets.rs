//! Sockets that the supervisor has opened (socket activation of systemd): a listener with the same address takes one instead of binding.
//!
//! Such a socket lives on when Weir stops: connections wait in its backlog for the next start. So nothing about it is changed at the end.

use std::os::fd::OwnedFd;

use socket2::{SockAddr, SockRef, Type};
use weir_config::{Config, ListenAddress};
use weir_proxy::net::listening::BoundAddress;

use crate::system::sys::inherited;

/// All of them, as the process was started.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    sockets: Vec<InheritedSocket>,
    /// The names of descriptors that are something else.
    unusable: Vec<String>,
}

/// A listening socket.
#[derive(Debug)]
struct InheritedSocket {
    /// Its name in the unit (`FileDescriptorName=`).
    name: String,
    address: BoundAddress,
    fd: OwnedFd,
}

impl InheritedSockets {
    /// Takes the sockets that the environment names (`LISTEN_FDS`); to be called before anything is opened.
    pub fn take() -> Self {
        let mut taken = Self::default();
        for (name, fd) in inherited::take() {
            match listening_at(&fd) {
                Some(address) => taken.sockets.push(InheritedSocket { name, address, fd }),
                None => taken.unusable.push(name),
            }
        }
        taken
    }

    /// A copy of the descriptor of the socket at `address`.
    pub(crate) fn at(&self, address: &ListenAddress) -> Option<std::io::Result<(OwnedFd, BoundAddress)>> {
        let socket = self.sockets.iter().find(|socket| is_at(&socket.address, address))?;
        Some(socket.fd.try_clone().map(|fd| (fd, socket.address.clone())))
    }

    /// Logs which of them no listener of `config` has; they are closed with this.
    pub(crate) fn tell_unused(&self, config: &Config) {
        for name in &self.unusable {
            tracing::warn!(
                name,
                "a descriptor of the supervisor is no listening stream socket: it is closed"
            );
        }
        let wanted = || config.listeners.iter().flat_map(|listener| &listener.addresses);
        for socket in
            self.sockets.iter().filter(|socket| !wanted().any(|address| is_at(&socket.address, address)))
        {
            tracing::warn!(
                name = socket.name,
                address = %socket.address,
                "no listener has the address of a socket of the supervisor: the socket is closed"
            );
        }
    }
}

/// The address of a socket that listens for streams.
fn listening_at(fd: &OwnedFd) -> Option<BoundAddress> {
    let socket = SockRef::from(fd);
    let listens = socket.is_listener().ok()? && socket.r#type().ok()? == Type::STREAM;
    let address: SockAddr = socket.local_addr().ok().filter(|_| listens)?;
    match address.as_socket() {
        Some(address) => Some(BoundAddress::Inet(address)),
        None => address.as_pathname().map(|path| BoundAddress::Unix(path.to_owned())),
    }
}

/// Whether a socket at `bound` is what the config calls `address`.
fn is_at(bound: &BoundAddress, address: &ListenAddress) -> bool {
    match (bound, address) {
        (BoundAddress::Inet(bound), ListenAddress::Tcp(address)) => bound == address,
        (BoundAddress::Inet(bound), ListenAddress::AllTcp { port }) => {
            bound.ip().is_unspecified() && bound.port() == *port
        }
        (BoundAddress::Unix(bound), ListenAddress::Unix(path)) => bound == path,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_as_the_config_has_them() {
        let bound = |text: &str| match text.strip_prefix("unix:") {
            Some(path) => BoundAddress::Unix(path.into()),
            None => BoundAddress::Inet(text.parse().unwrap()),
        };
        for (socket, address, same) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("[::]:80", ":80", true),
            ("0.0.0.0:80", ":80", true),
            ("127.0.0.1:80", ":80", false),
            ("unix:/run/a", "unix:/run/a", true),
            ("unix:/run/a", "unix:/run/b", false),
            ("unix:/run/a", ":80", false),
        ] {
            assert_eq!(is_at(&bound(socket), &address.parse().unwrap()), same, "{socket} {address}");
        }
    }
}
