//! One request and its response, phase by phase.
//!
//! [`run`] names every phase in the order in which they happen, and between them the points at which the features of a route act ([`stages`]). An
//! exchange is reused from one request to the next, so that a warm worker allocates nothing. Must not know how bytes travel.

pub(crate) mod tcp;
mod stages;
pub(crate) mod features;
pub(crate) mod subrequests;
pub(crate) mod phases;
pub(crate) mod heads;
pub(crate) mod telemetry;
pub(crate) mod forwarded;
pub(crate) mod exchange_state;

#[cfg(test)]
pub(crate) mod simulation;

use std::future::Future;
use std::pin::pin;

use crate::upstream::stream::Servers;

pub(crate) use exchange_state::exchange::{Ended, Exchange};
pub(crate) use phases::end::End;

use exchange_state::client::Client;
use exchange_state::outcome::AttemptHistory;
use exchange_state::plans::Plans;
use exchange_state::stream::ClientStream;
use phases::attempt_response::AttemptResponse;
use phases::{attempt, choose, finish, pause, queue, respond, retry, upgrade};
use stages::{before_server, failed, request_head, response_body, response_head, server_chosen};

/// Runs one exchange: from the request of the client to its response.
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for each of its arguments twice")]
pub(crate) fn run(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> impl Future<Output = End> {
    async move {
        // Pinned, since awaiting it otherwise moves its whole state once more.
        let carried = {
            let carried = pin!(carry(client, stream, servers, exchange));
            carried.await
        };
        let end = match carried {
            Ok(tunnel @ End::Tunnel(_)) => return tunnel,
            Ok(end) => end,
            Err(Ended::Closed) => return End::Closed,
            // On the heap, since it would make every exchange larger.
            Err(Ended::Failed(failure)) => {
                Box::pin(failed::answer(client, stream, servers, exchange, failure)).await
            }
        };
        finish::record(client, stream, exchange);
        end
    }
}

/// The phases in their order. An early end is an [`Ended`]; what it means for the client is decided in [`run`].
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for each of its arguments twice")]
fn carry(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> impl Future<Output = Result<End, Ended>> {
    async move {
        let config = exchange.record.begin_config(client);
        let listener = &*config.snapshot.listeners[exchange.record.listener()];
        // Request: the head, whole and well-formed.
        stream.receive(client, exchange, listener).await?;
        if let Some(answer) = request_head::begin(client, stream, exchange, &config, listener)?
            && let Some(end) = answer.await?
        {
            return Ok(end);
        }
        // Route: the most specific rule that matches, and what it asks before a server gets the request.
        let route = request_head::route(client, stream, exchange, listener)?;
        let (upstream, route_plan) = choose::upstream(client, exchange, listener, route);
        let asked = (&config, listener, route);
        if route.has_gates()
            && let Some(left) = before_server::pass(client, stream, servers, exchange, asked, route_plan)?
            && let Some(end) = left.await?
        {
            return Ok(end);
        }
        let Some(upstream_index) = upstream else {
            return Box::pin(before_server::answer(client, stream, servers, exchange, route_plan)).await;
        };
        let plans = Plans::new(&config, listener, route_plan, upstream_index);
        if let Some(taken) = server_chosen::begin(client, stream, exchange, plans) {
            taken.await?;
        }
        let mut history = AttemptHistory::new();
        let mut kept = None;
        let (location, mut serving) = loop {
            pause::before_retry(client, stream, exchange, &mut history).await?;
            // Queue: a slot on a server, now or as soon as one is free. After a reload it is one of the new config.
            let slot = match kept.take() {
                Some(slot) => slot,
                None => queue::admit(client, stream, exchange, plans, &history.excluded)
                    .await
                    .map_err(|ended| history.or_last(ended))?,
            };
            let location = slot.location();
            let plans = plans.on(&location.0, location.1);
            // Connect, Send, Response: one attempt on that server.
            let attempted = {
                let attempt = pin!(attempt::run(client, stream, servers, exchange, &plans, slot, &history));
                attempt.await
            };
            let outcome =
                match response_head::judge(client, servers, exchange, plans, &mut history, attempted) {
                    Some(outcome) if plans.route.holds_responses && !exchange.switches_protocols() => {
                        Box::pin(response_head::hold(client, stream, servers, exchange, plans, outcome))
                            .await?
                    }
                    Some(outcome) => outcome,
                    None => continue,
                };
            kept = match outcome {
                AttemptResponse::Done(end) => return Ok(end),
                AttemptResponse::Passes(serving) => break (location, serving),
                AttemptResponse::BrokenOff(failed) => {
                    retry::again(client, exchange, plans, &mut history, failed)?
                }
            };
        };
        let plans = plans.on(&location.0, location.1);
        // Relay: the response on its way to the client, and what is left of the request on its way to the server.
        if exchange.switches_protocols() {
            return Box::pin(upgrade::run(client, stream, exchange, plans, serving)).await;
        }
        let relayed = respond::run(client, stream, exchange, plans, &mut serving).await;
        // Finish: the connection to the server goes back to its pool.
        response_body::finish(client, servers, exchange, plans, serving, relayed)
    }
}
