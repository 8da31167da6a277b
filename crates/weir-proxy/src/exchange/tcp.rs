//! The story of a TCP connection: one exchange without request or response, which becomes a tunnel.
//!
//! The phases are those of a request as far as they apply. Must not read what the peers say to each other.

use weir_observe::Phase;
use weir_traffic::route::RouteRequest;

use super::attempt::{self, Plans};
use super::retry::{self, Tried};
use super::tunnelled::Tunnelled;
use super::{After, Ended, Exchange, choose, finish};
use crate::downstream::client_hello;
use crate::downstream::session::Session;
use crate::net::clock;
use crate::upstream::admission;

/// Brings one connection from its client to a server; returns the tunnel, or what becomes of a client that gets none.
pub(crate) async fn run(session: &mut Session, exchange: &mut Exchange) -> After {
    let after = match carry(session, exchange).await {
        Ok(after) => after,
        Err(Ended::Quietly) => After::Close,
        Err(Ended::Failed(failure)) => {
            exchange.record.failure = Some(failure);
            finish::record(session, exchange);
            After::Close
        }
    };
    // Not part of every reset: requests have none.
    exchange.server_name.clear();
    after
}

async fn carry(session: &mut Session, exchange: &mut Exchange) -> Result<After, Ended> {
    let view = exchange.record.view(session);
    let listener = &*view.snapshot.listeners[exchange.record.listener()];
    begin(session, exchange);

    // Tls: the name that the client asks for, if a route wants to know.
    if let Some(failure) = session.refused.take() {
        return Err(failure.into());
    }
    if let Some(tls) = &session.client.tls {
        exchange.server_name.extend_from_slice(tls.record().server_name.as_bytes());
        exchange.record.times.add(Phase::Tls, session.tls_micros().into());
    } else if listener.asks_for_sni {
        client_hello::read_name(session, exchange, listener.config.timeouts.tls).await?;
    }

    // Route: the most specific rule that matches.
    let route = choose::connection_route(session, exchange, listener)?;
    let Some(upstream_index) = choose::upstream(session, exchange, route) else {
        unreachable!("the routes of a TCP listener lead to upstreams");
    };
    let upstream = &*view.snapshot.upstreams[upstream_index];
    let plans = Plans { view: &view, listener, route, upstream, upstream_index };
    retry::begin(session, exchange, plans);

    let mut tried = Tried::new();
    let (ground, (server, slot)) = loop {
        // Queue: a slot on a server, now or as soon as one is free.
        let slot = admission::admit(session, exchange, plans, &tried.excluded)
            .await
            .map_err(|ended| tried.or_last(ended))?;
        let ground = slot.ground();
        let plans = plans.on(&ground.0, ground.1);
        // Connect: one attempt on that server.
        match attempt::connect(session, exchange, plans, slot).await {
            Ok(connected) => break (ground, connected),
            // Never on the same server: its connection was a new one.
            Err(failed) => drop(retry::again(session, exchange, plans, &mut tried, failed)?),
        }
    };

    let plans = plans.on(&ground.0, ground.1);
    // Relay: whatever they have to say to each other.
    let ends_at = session.ends_at();
    Ok(After::Tunnel(Tunnelled::new(session, exchange, plans, server, slot, ends_at)))
}

fn begin(session: &mut Session, exchange: &mut Exchange) {
    let now = clock::now();
    session.now = now;
    session.requests += 1;
    session.worker.shard.exchanges.increment();
    session.deadline.set_ceiling(session.ends_at());
    exchange.record.began = now;
    exchange.record.accounted = now;
}

/// A connection as the routes see it: a client that may have named a server.
pub(crate) struct Connecting<'a> {
    /// The name of the server that the client asked for by SNI; empty when it did not.
    pub(crate) server_name: &'a [u8],
    pub(crate) source: std::net::IpAddr,
}

impl RouteRequest for Connecting<'_> {
    fn host(&self) -> &[u8] {
        self.server_name
    }

    fn path(&self) -> &[u8] {
        b"/"
    }

    fn query(&self) -> &[u8] {
        b""
    }

    fn method(&self) -> &[u8] {
        b""
    }

    fn header(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    fn source(&self) -> std::net::IpAddr {
        self.source
    }
}
