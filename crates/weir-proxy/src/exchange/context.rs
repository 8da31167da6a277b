//! What every stage, phase and feature gets: the client, its stream, the servers, the exchange, and the facts that are the same to its end.
//!
//! One pointer to it is what a future keeps of all that. Must not decide anything.

use std::net::IpAddr;
use std::rc::Rc;

use weir_http::{BadClientAddress, claimed_client_address};

use super::exchange_state::client::Client;
use super::exchange_state::exchange::Exchange;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::state::worker_config::WorkerConfig;

/// An exchange at work. `S` is what its client is at: a stream, or the end of a tunnel; `U` gives streams to servers.
pub(in crate::exchange) struct Context<'a, S, U> {
    pub(in crate::exchange) client: &'a mut Client,
    pub(in crate::exchange) stream: &'a mut S,
    pub(in crate::exchange) servers: &'a mut U,
    pub(in crate::exchange) exchange: &'a mut Exchange,
    /// The config that the exchange began on.
    pub(in crate::exchange) config: &'a Rc<WorkerConfig>,
    pub(in crate::exchange) listener: &'a ListenerPlan,
    /// The address of the client, once the head of its request was admitted.
    pub(in crate::exchange) known_client_address: Option<IpAddr>,
}

impl<'a, S, U> Context<'a, S, U> {
    /// `config` is that of the record of the exchange.
    #[inline(always)]
    pub(in crate::exchange) fn new(
        client: &'a mut Client,
        stream: &'a mut S,
        servers: &'a mut U,
        exchange: &'a mut Exchange,
        config: &'a Rc<WorkerConfig>,
    ) -> Self {
        let listener = &*config.snapshot.listeners[exchange.record.listener()];
        Self { client, stream, servers, exchange, config, listener, known_client_address: None }
    }

    /// The same for another exchange beside this one, such as a request of Weir's own. It is for the same client, whatever its head says of that.
    pub(in crate::exchange) fn beside<'b>(&'b mut self, exchange: &'b mut Exchange) -> Context<'b, S, U> {
        Context {
            client: self.client,
            stream: self.stream,
            servers: self.servers,
            exchange,
            config: self.config,
            listener: self.listener,
            known_client_address: self.known_client_address,
        }
    }

    /// The route of the request, once it has one.
    pub(in crate::exchange) fn route(&self) -> Option<&'a RoutePlan> {
        self.exchange.record.route.map(|index| &self.listener.route_plans[index])
    }
}

/// The address of the client: that of the peer, or the one that a trusted peer names; where that cannot be read, the peer's.
#[inline]
pub(in crate::exchange) fn find_client_address(
    client: &Client,
    exchange: &Exchange,
    listener: &ListenerPlan,
) -> IpAddr {
    named_client_address(client, exchange, listener).unwrap_or_else(|_| client.peer.ip_or_local())
}

/// The same.
///
/// # Errors
/// A trusted peer names the client in a way that cannot be read.
#[inline]
pub(in crate::exchange) fn named_client_address(
    client: &Client,
    exchange: &Exchange,
    listener: &ListenerPlan,
) -> Result<IpAddr, BadClientAddress> {
    let peer = client.peer.ip_or_local();
    if listener.trusts(client.peer) { find_forwarded_address(peer, exchange, listener) } else { Ok(peer) }
}

#[inline(never)]
fn find_forwarded_address(
    peer: IpAddr,
    exchange: &Exchange,
    listener: &ListenerPlan,
) -> Result<IpAddr, BadClientAddress> {
    let Some(field) = listener.config.client_address_header.field() else { return Ok(peer) };
    let head = (exchange.request.fields(), &exchange.request_text[..]);
    // The peer, which is asked about first, is trusted.
    let mut is_peer = !listener.config.client_address_recursive;
    claimed_client_address(field, head, peer, |ip| match listener.config.client_address_recursive {
        true => listener.config.trusted_proxies.contains(Some(ip)),
        false => std::mem::take(&mut is_peer),
    })
}

impl<S, U> Context<'_, S, U> {
    /// The address of the client: a fact once the request was admitted.
    #[inline(always)]
    pub(in crate::exchange) fn client_address(&self) -> IpAddr {
        let find = || find_client_address(self.client, self.exchange, self.listener);
        self.known_client_address.unwrap_or_else(find)
    }
}
