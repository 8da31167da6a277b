//! Where a connection to a server comes from, if the config says so: an address of this machine, or that of a client.
//!
//! A connection from the address of a client is for that client alone: pools never get it. Must not decide which address that is.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{AddressFamily, SocketType};
use weir_config::{Server, SourceAddress};
use weir_observe::{Cause, Failure, Phase};

use crate::net::clock;
use crate::net::endpoint::Endpoint;
use crate::net::sys;

/// The address that a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundSource {
    address: IpAddr,
    /// Whether this machine need not have it.
    is_transparent: bool,
}

/// How often a refusal of the system is logged at most.
const REPORT_SECONDS: u64 = 10;

/// The failure of a connection that cannot come from there.
pub(crate) const NO_SOURCE: Failure = Failure::weir(Phase::Connect, Cause::SourceAddress);

impl BoundSource {
    /// The source of a connection that no client has asked for; `None`: the system chooses, as it does where clients have theirs.
    pub fn of_weir(server: &Server) -> Option<Self> {
        match server.source_address {
            Some(SourceAddress::Fixed(address)) => Some(Self { address, is_transparent: false }),
            Some(SourceAddress::Client) | None => None,
        }
    }

    /// The source of a connection that several clients share.
    ///
    /// # Errors
    /// Where each client has its own: then there is no such connection.
    pub(crate) fn of_several(server: &Server) -> Result<Option<Self>, Failure> {
        match server.source_address {
            Some(SourceAddress::Client) => Err(NO_SOURCE),
            Some(SourceAddress::Fixed(_)) | None => Ok(Self::of_weir(server)),
        }
    }

    /// The address of a client.
    pub(crate) fn of_client(address: IpAddr) -> Self {
        Self { address, is_transparent: true }
    }

    /// Those of `endpoints` that a connection can go to from there.
    pub(crate) fn reachable(self, endpoints: &[Endpoint]) -> Vec<Endpoint> {
        let is_reachable = |endpoint: &&Endpoint| match endpoint {
            Endpoint::Inet(addr) => addr.is_ipv4() == self.address.is_ipv4(),
            Endpoint::Unix(_) => true,
        };
        endpoints.iter().filter(is_reachable).cloned().collect()
    }

    /// Has a connection of `fd`, which is not open yet, come from there.
    ///
    /// # Errors
    /// A [`SourceError`] when the system refuses it.
    pub(crate) fn bind(self, fd: &OwnedFd, family: AddressFamily) -> io::Result<()> {
        self.try_bind(fd, family).map_err(|error| refused(self, error))
    }

    fn try_bind(self, fd: &OwnedFd, family: AddressFamily) -> io::Result<()> {
        sys::set_bind_without_port(fd.as_fd())?;
        if self.is_transparent {
            sys::set_transparent(fd.as_fd(), family)?;
        }
        Ok(rustix::net::bind(fd, &SocketAddr::new(self.address, 0))?)
    }
}

impl fmt::Display for BoundSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.is_transparent { " of a client" } else { "" };
        write!(f, "{}{of}", self.address)
    }
}

/// A connection cannot come from the address that the config says.
#[derive(Debug)]
pub(crate) struct SourceError;

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection cannot come from its source address")
    }
}

impl std::error::Error for SourceError {}

/// The error of a connection that the system does not let come from `source`. Memory and descriptors that are used up are no fault of the address.
#[cold]
fn refused(source: BoundSource, error: io::Error) -> io::Error {
    if matches!(error.kind(), io::ErrorKind::OutOfMemory) {
        return error;
    }
    /// When it was last logged.
    static REPORTED_AT: AtomicU64 = AtomicU64::new(0);
    let (now, before) = (clock::unix_now().as_secs(), REPORTED_AT.load(Ordering::Relaxed));
    let is_due = now.abs_diff(before) >= REPORT_SECONDS;
    if is_due && REPORTED_AT.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        tracing::warn!(%source, %error, "a connection to a server cannot come from its source address");
    }
    io::Error::other(SourceError)
}

/// The error of a connection to a server whose addresses are all of the other family.
#[cold]
pub(crate) fn of_other_family() -> io::Error {
    io::Error::other(SourceError)
}

/// Whether the process may have connections come from the addresses of clients.
pub fn may_be_transparent() -> bool {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    socket.is_ok_and(|socket| sys::set_transparent(socket.as_fd(), AddressFamily::INET).is_ok())
}
