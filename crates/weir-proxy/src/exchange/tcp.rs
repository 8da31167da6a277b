//! A TCP connection: one exchange without request or response, which becomes a tunnel.
//!
//! The phases are those of a request as far as they apply. Must not interpret the bytes of the tunnel.

use std::time::Duration;

use weir_observe::{Failure, Phase};

use super::context::Context;
use super::exchange_state::client::Client;
use super::exchange_state::client_end::ClientEnd;
use super::exchange_state::exchange::{Ended, Exchange};
use super::exchange_state::outcome::AttemptHistory;
use super::features::{conditions, retries};
use super::phases::attempt;
use super::phases::end::End;
use super::phases::retry;
use super::phases::tunnel::Tunnelled;
use super::phases::{choose, finish, pause, queue};
use super::stages::before_server;
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
    let config = exchange.record.begin_config(client);
    let context = &mut Context::new(client, stream, servers, exchange, &config);
    let end = match carry(context).await {
        Ok(end) => end,
        Err(Ended::Closed | Ended::Rerouted) => End::Closed,
        Err(Ended::Failed(failure)) => {
            context.exchange.record.failure = Some(failure);
            conditions::ask_at_end(context);
            finish::record(context);
            End::Closed
        }
    };
    // Not part of every reset: requests have none.
    context.exchange.server_name.clear();
    end
}

async fn carry(context: &mut Context<'_, impl TcpClient, impl Servers>) -> Result<End, Ended> {
    begin(context.client, context.exchange);

    // Tls: the SNI of the client, if a route depends on it.
    let listener = context.listener;
    if let Some(failure) = context.stream.take_refusal() {
        context.exchange.record.begin_refused(context.client, failure);
        return Err(failure.into());
    }
    if let Some(tls) = context.stream.tls() {
        context.exchange.server_name.extend_from_slice(tls.server_name.as_bytes());
        context.exchange.record.times.add(Phase::Tls, context.stream.tls_micros().into());
    } else if listener.asks_for_sni {
        let limit = listener.config.timeouts.tls;
        context.stream.read_server_name(context.client, context.exchange, limit).await?;
    }

    // Route: the most specific rule that matches.
    let route = choose::connection_route(context)?;
    let matched = choose::target(context, route);
    if route.rules.is_some() {
        before_server::pass_connection(context, route).await?;
    }
    let Some(plans) = matched.plans(context.config) else {
        unreachable!("the routes of a TCP listener lead to upstreams");
    };
    retry::begin(context, plans);

    let mut history = AttemptHistory::new();
    let (location, (server, slot)) = loop {
        pause::before_retry(context, &mut history).await?;
        // Queue: a slot on a server, now or as soon as one is free.
        let slot = queue::admit(context, plans, &mut history)?.slot().await?;
        let location = slot.location();
        let plans = plans.on(&location.0, location.1);
        // Connect: one attempt on that server.
        match attempt::connect(context, plans, slot).await {
            Ok(connected) => break (location, connected),
            Err(failed) => {
                retries::again(context, plans, &mut history, failed)?;
                // Never on the same server: its connection was a new one.
                history.slot = None;
            }
        }
    };

    let plans = plans.on(&location.0, location.1);
    // Relay: raw bytes in both directions.
    let ends_at = context.client.ends_at();
    conditions::ask_at_end(context);
    Ok(End::Tunnel(Tunnelled::new(context, plans, server, slot, ends_at)))
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
