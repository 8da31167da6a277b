//! A TCP connection: one exchange without request or response, which becomes a tunnel.
//!
//! The phases are those of a request as far as they apply. Must not interpret the bytes of the tunnel.

use std::time::Duration;

use weir_config::Stage;
use weir_observe::{Failure, Phase};

use super::exchange_state::client::Client;
use super::exchange_state::client_end::ClientEnd;
use super::exchange_state::exchange::{Ended, Exchange};
use super::exchange_state::outcome::AttemptHistory;
use super::exchange_state::plans::Plans;
use super::features::access_lists;
use super::phases::attempt;
use super::phases::end::End;
use super::phases::retry;
use super::phases::tunnel::Tunnelled;
use super::phases::{choose, finish, pause, queue};
use crate::net::clock;
use crate::state::snapshot::ListenerPlan;
use crate::upstream::stream::Servers;

/// The client of a TCP connection.
pub(crate) trait TcpClient: ClientEnd {
    /// Why the client is not served at all, if so.
    fn take_refusal(&mut self) -> Option<Failure>;

    /// Reads the SNI of TLS that passes through, within `limit`, into the exchange; leaves it empty when
    /// there is none or the client does not use TLS.
    ///
    /// # Errors
    /// [`Ended::Closed`] when the client closed before its first byte; else what is wrong with its first message.
    async fn read_server_name(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        limit: Duration,
    ) -> Result<(), Ended>;
}

/// Whether TLS with a client that asks for this server name passes through to a server.
pub(crate) fn passes_tls(client: &Client, listener: &ListenerPlan, server_name: &str) -> bool {
    let route = choose::route_of_connection(client, listener, server_name.as_bytes());
    route.is_some_and(|id| listener.route_plans[id.index()].config.tls_passthrough)
}

/// Brings one connection from its client to a server; returns the tunnel, or what becomes of a client that gets none.
pub(crate) async fn run(
    client: &mut Client,
    stream: &mut impl TcpClient,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> End {
    let end = match carry(client, stream, servers, exchange).await {
        Ok(end) => end,
        Err(Ended::Closed) => End::Closed,
        Err(Ended::Failed(failure)) => {
            exchange.record.failure = Some(failure);
            finish::record(client, stream, exchange);
            End::Closed
        }
    };
    // Not part of every reset: requests have none.
    exchange.server_name.clear();
    end
}

async fn carry(
    client: &mut Client,
    stream: &mut impl TcpClient,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> Result<End, Ended> {
    let config = exchange.record.begin_config(client);
    let listener = &*config.snapshot.listeners[exchange.record.listener()];
    begin(client, exchange);

    // Tls: the SNI of the client, if a route depends on it.
    if let Some(failure) = stream.take_refusal() {
        exchange.record.begin_refused(client, failure);
        return Err(failure.into());
    }
    if let Some(tls) = stream.tls() {
        exchange.server_name.extend_from_slice(tls.server_name.as_bytes());
        exchange.record.times.add(Phase::Tls, stream.tls_micros().into());
    } else if listener.asks_for_sni {
        stream.read_server_name(client, exchange, listener.config.timeouts.tls).await?;
    }

    // Route: the most specific rule that matches.
    let route = choose::connection_route(client, exchange, listener)?;
    let (chosen, _) = choose::upstream(client, exchange, listener, route);
    if let Some(rules) = &route.rules
        && let Some(hold) =
            access_lists::ask(client, stream, exchange, (listener, route, rules), Stage::Request)?
    {
        Box::pin(access_lists::wait(client, stream, exchange, rules, hold)).await?;
    }
    let Some(upstream_index) = chosen else {
        unreachable!("the routes of a TCP listener lead to upstreams");
    };
    let upstream = &*config.snapshot.upstreams[upstream_index];
    let plans = Plans { config: &config, listener, route, upstream, upstream_index };
    retry::begin(client, exchange, plans);

    let mut history = AttemptHistory::new();
    let (location, (server, slot)) = loop {
        pause::before_retry(client, stream, exchange, &mut history).await?;
        // Queue: a slot on a server, now or as soon as one is free.
        let slot = queue::admit(client, stream, exchange, plans, &history.excluded)
            .await
            .map_err(|ended| history.or_last(ended))?;
        let location = slot.location();
        let plans = plans.on(&location.0, location.1);
        // Connect: one attempt on that server.
        match attempt::connect(client, stream, servers, exchange, plans, slot).await {
            Ok(connected) => break (location, connected),
            // Never on the same server: its connection was a new one.
            Err(failed) => drop(retry::again(client, exchange, plans, &mut history, failed)?),
        }
    };

    let plans = plans.on(&location.0, location.1);
    // Relay: raw bytes in both directions.
    let ends_at = client.ends_at();
    Ok(End::Tunnel(Tunnelled::new(client, stream, exchange, plans, server, slot, ends_at)))
}

fn begin(client: &mut Client, exchange: &mut Exchange) {
    let now = clock::now();
    client.now = now;
    client.requests += 1;
    client.worker.shard.exchanges.increment();
    client.deadline.set_ceiling(client.ends_at());
    exchange.record.began = now;
    exchange.record.accounted = now;
}
