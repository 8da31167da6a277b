//! The server connections that belong to one client connection and are used for no other.
//!
//! Those that are authenticated by NTLM or Negotiate, and the last one that began with a PROXY header for this client or comes from its
//! address.
//! Must not open connections.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::net::clock::Instant;
use crate::net::descriptors::ServerPermit;
use crate::state::servers::pool::{PoolLimits, ServerConnection};
use crate::state::worker_config::LocalServer;

/// Private connections that a client connection keeps, each to another server: a site may be made of several applications that
/// authenticate by themselves.
const PRIVATE_MAX: usize = 4;

/// The idle connections that belong to one client connection: private ones, and the last one that began with a PROXY header.
///
/// They stay open until the client has its next request or goes: both take no longer than the client may be idle.
#[derive(Debug, Default)]
pub(crate) struct PinnedConnections {
    /// Least recently used first. Boxed, since nearly every connection has none.
    #[expect(clippy::box_collection, reason = "a connection is small: a vector would be three words")]
    kept: Option<Box<Vec<PinnedConnection>>>,
}

#[derive(Debug)]
struct PinnedConnection {
    connection: Box<ServerConnection>,
    /// Its server: after a reload, the server of this name may have another address or other TLS settings.
    server: Rc<LocalServer>,
}

impl PinnedConnection {
    fn leads_to(&self, server: &Rc<LocalServer>) -> bool {
        Rc::ptr_eq(&self.server, server) && !server.is_closed()
    }
}

impl PinnedConnections {
    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_none()
    }

    /// Takes the connection to this server if it is still good. One to another server is closed, unless it is private.
    pub(crate) fn take(
        &mut self,
        server: &Rc<LocalServer>,
        now: Instant,
        thorough: bool,
    ) -> Option<Box<ServerConnection>> {
        let kept = self.kept.as_mut()?;
        let own = kept.iter().position(|own| own.leads_to(server)).map(|index| kept.remove(index).connection);
        kept.retain(|own| own.connection.is_private);
        own.and_then(|mut own| (own.is_usable(now, thorough || own.is_private)).then_some(own))
    }

    /// The place of the one of `servers` that has authenticated this client most recently, on a connection that is still good; closes
    /// those that are not.
    pub(crate) fn private_server<'a>(
        &mut self,
        servers: &(impl Iterator<Item = (usize, &'a Rc<LocalServer>)> + Clone),
        now: Instant,
    ) -> Option<usize> {
        let kept = self.kept.as_mut()?;
        kept.retain_mut(|own| {
            !own.connection.is_private || !own.server.is_closed() && own.connection.is_usable(now, true)
        });
        let mut private = kept.iter().rev().filter(|own| own.connection.is_private);
        private
            .find_map(|own| servers.clone().find(|(_, server)| own.leads_to(server)))
            .map(|(place, _)| place)
    }

    /// Keeps a connection to `server` whose exchange ended cleanly.
    pub(crate) fn keep(
        &mut self,
        connection: Box<ServerConnection>,
        server: &Rc<LocalServer>,
        now: Instant,
        limits: &PoolLimits,
        announced: Option<Duration>,
    ) {
        let kept = match connection.is_private {
            true => connection.if_open(),
            false => connection.if_reusable(now, limits, announced),
        };
        let Some(connection) = kept.filter(|_| !server.is_closed()) else { return };
        if !connection.is_private && ServerPermit::are_used_up() {
            return;
        }
        let list = self.kept.get_or_insert_default();
        list.retain(|own| own.connection.is_private && !Rc::ptr_eq(&own.server, server));
        if list.len() >= PRIVATE_MAX {
            list.remove(0);
        }
        list.push(PinnedConnection { connection, server: Rc::clone(server) });
    }

    /// Closes connections to `server` that do not come from `address`: they were opened for another client behind the same proxy.
    pub(crate) fn keep_from(&mut self, server: &Rc<LocalServer>, address: IpAddr) {
        if let Some(kept) = &mut self.kept {
            let comes_from = |own: &PinnedConnection| own.connection.local_ip() == Some(address);
            kept.retain(|own| !Rc::ptr_eq(&own.server, server) || comes_from(own));
        }
    }

    /// Closes the connection to `server`: it has just proved to be dead.
    pub(crate) fn clear(&mut self, server: &Rc<LocalServer>) {
        if let Some(kept) = &mut self.kept {
            kept.retain(|own| !Rc::ptr_eq(&own.server, server));
        }
    }
}
