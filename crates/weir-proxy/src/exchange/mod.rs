//! One request and its response, phase by phase.
//!
//! [`run`] names every phase in the order in which they happen; each has a file of its own. An exchange is
//! reused from one request to the next, so that a warm worker allocates nothing. Must not know how bytes travel.

mod report;
mod admit;
mod gates;
mod held;
mod cache;
mod intercept;
mod response_buffering;
mod respond;
mod upgrade;
mod files;
mod proof;
pub(crate) mod subrequests;
pub(crate) mod tcp;
mod queue;
mod request_buffering;
pub(crate) mod attempt;
mod choose;
pub(crate) mod retry;
mod access;
mod limits;
mod rule_key;
mod pause;
mod acme_challenge;
mod answer;
mod pacing;
mod error_pages;
mod cgi;
mod template;
pub(crate) mod fields;
mod cors;
mod compression;
mod affinity;
mod grpc;
mod end;
pub(crate) mod tunnelled;
pub(crate) mod delivery;
pub(crate) mod finish;
mod plans;
mod outcome;
pub(crate) mod trace;
mod log;
pub(crate) mod recording;
pub(crate) mod forwarded;
pub(crate) mod stream;
mod exchange_state;
mod record;
pub(crate) mod client_end;
pub(crate) mod client;
mod cache_use;
mod body_coding;
pub(crate) mod granted;
mod grpc_call;
mod limited;
mod mirrored;
mod script;
mod header_changes;
pub(crate) mod waits;

#[cfg(test)]
pub(crate) mod simulation;

use std::future::Future;
use std::pin::pin;

use weir_observe::Failure;

use crate::state::faults::{self, FaultPoint};
use crate::state::snapshot::{RoutePlan, Snapshot};
use crate::upstream::stream::{ServerStream, Servers};

pub(crate) use end::End;
pub(crate) use exchange_state::{Ended, Exchange};

use cache::response::Answering;
use client::Client;
use outcome::{AttemptHistory, RespondingServer};
use plans::Plans;
use stream::ClientStream;

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
            Err(Ended::Quietly) => return End::Closed,
            // On the heap, since it would make every exchange larger.
            Err(Ended::Failed(failure)) => Box::pin(fail(client, stream, servers, exchange, failure)).await,
        };
        finish::record(client, stream, exchange);
        end
    }
}

/// Answers with the page of a failure, or with what is stored for that case.
#[cold]
async fn fail(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    failure: Failure,
) -> End {
    let failure = match cache::response::instead_of_failure(client, stream, exchange, failure).await {
        Some(Ok(end)) => return end,
        Some(Err(failure)) => failure,
        None => failure,
    };
    let fetched = subrequests::remote_page::of_failure(client, stream, servers, exchange, failure).await;
    answer::failure(client, stream, exchange, (failure, fetched)).await
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
        trace::begin(client, exchange, listener, &config);
        admit::request(client, stream, exchange, listener)?;
        if needs_no_route(exchange, &config.snapshot)
            && let Some(end) =
                Box::pin(answer_without_route(client, stream, exchange, &config.snapshot)).await?
        {
            return Ok(end);
        }

        // Route: the most specific rule that matches, and what it says.
        let route = choose::route(client, stream, exchange, listener)?;
        grpc::limit_time(client, exchange, route);
        let (chosen, way) = choose::upstream(client, exchange, listener, route);
        if route.has_gates()
            && let Some(left) =
                gates::pass(client, stream, servers, exchange, (&config, listener, route), way)?
            && let Some(end) = left.await?
        {
            return Ok(end);
        }
        let Some(upstream_index) = chosen else {
            return Box::pin(answer_without_server(client, stream, servers, exchange, way)).await;
        };
        let (route, upstream) = (way, &*config.snapshot.upstreams[upstream_index]);
        let plans = Plans { config: &config, listener, route, upstream, upstream_index };
        begin_attempts(client, exchange, plans);
        if request_buffering::is_wanted(exchange, route) {
            Box::pin(request_buffering::take_request(client, stream, exchange, plans)).await?;
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
            let answering = {
                let attempted = {
                    let attempt =
                        pin!(attempt::run(client, stream, servers, exchange, &plans, slot, &history));
                    attempt.await
                };
                match attempted {
                    Ok(serving) if goes_again(client, exchange, plans, &mut history, &serving) => {
                        exchange.record.sent_to_server += serving.server.sent();
                        servers.drop_stream(serving.server);
                        continue;
                    }
                    attempted => Answering::of(attempted),
                }
            };
            let answering = match route.holds_responses && !exchange.switches_protocols() {
                true => Box::pin(hold_response(client, stream, servers, exchange, plans, answering)).await?,
                false => answering,
            };
            kept = match answering {
                Answering::Done(end) => return Ok(end),
                Answering::Passes(serving) => break (location, serving),
                Answering::BrokenOff(failed) => retry::again(client, exchange, plans, &mut history, failed)?,
            };
        };
        let plans = plans.on(&location.0, location.1);

        // Relay: the response on its way to the client, and what is left of the request on its way to the server.
        if exchange.switches_protocols() {
            return Box::pin(upgrade::run(client, stream, exchange, plans, serving)).await;
        }
        if let Err(ended) = respond::run(client, stream, exchange, plans, &mut serving).await {
            grpc::break_off(exchange, plans, &serving, ended);
            exchange.record.sent_to_server += serving.server.sent();
            servers.drop_stream(serving.server);
            return Err(ended);
        }

        // Finish: the connection to the server goes back to its pool.
        if exchange.grpc.is_some() {
            grpc::finish(exchange, plans, &serving);
        }
        finish::run(client, servers, exchange, plans, serving);
        Ok(End::Done)
    }
}

/// Answers a request whose route has no upstream: with the page of its status, where another server has one.
async fn answer_without_server(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    route: &RoutePlan,
) -> Result<End, Ended> {
    let fetched = match answer::status_with_page(exchange, route) {
        Some(status) => {
            let of = (route, status);
            Box::pin(subrequests::remote_page::of_fixed(client, stream, servers, exchange, of)).await
        }
        None => None,
    };
    answer::without_server(client, stream, exchange, (route, fetched)).await
}

/// Whether the request may be one that is answered before any route is chosen: one that may go no further, or the challenge of an authority.
#[inline(always)]
fn needs_no_route(exchange: &Exchange, snapshot: &Snapshot) -> bool {
    exchange.request.max_forwards(&exchange.request_text) == Some(0)
        || snapshot.issuers.is_some() && acme_challenge::is_one(exchange)
}

/// Answers such a request, if it is one.
async fn answer_without_route(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    snapshot: &Snapshot,
) -> Result<Option<End>, Ended> {
    if exchange.request.max_forwards(&exchange.request_text) == Some(0) {
        return answer::as_last_hop(client, stream, exchange).await.map(Some);
    }
    match &snapshot.issuers {
        Some(issuers) => acme_challenge::pass(client, stream, exchange, issuers).await,
        None => Ok(None),
    }
}

/// Takes the response whole before the client gets any of it, as far as the route wants that: to store it, or to free its server early.
async fn hold_response<S: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    answering: Answering<S::Stream>,
) -> Result<Answering<S::Stream>, Ended> {
    let Answering::Passes(mut serving) = answering else { return Ok(answering) };
    if exchange.cached.is_some() {
        exchange.mirrored = None;
        match cache::response::take(client, stream, servers, exchange, plans, serving).await? {
            Answering::Passes(response) => serving = response,
            other => return Ok(other),
        }
    }
    match held::wanted(exchange, plans) {
        Some(holding) => {
            let held = held::run(client, stream, servers, exchange, plans, (serving, holding));
            held.await.map(Answering::Done)
        }
        None => Ok(Answering::Passes(serving)),
    }
}

/// Whether the request goes to a server again in place of the response at hand.
#[inline(always)]
fn goes_again<T: ServerStream>(
    client: &mut Client,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    serving: &RespondingServer<T>,
) -> bool {
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Response);
    retry::instead(client, exchange, plans, history, serving)
        || exchange.cached.is_some()
            && (cache::response::wants_part_instead(client, exchange, plans, serving)
                || cache::response::confirms_other_version(client, exchange, plans, serving))
}

/// Prepares for attempts on servers of the upstream.
#[inline(always)]
fn begin_attempts(client: &mut Client, exchange: &mut Exchange, plans: Plans<'_>) {
    let Plans { listener, upstream, .. } = plans;
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Route);
    exchange.waits.begin(&plans.wait_limits());
    if exchange.grpc.is_some() {
        grpc::begin(exchange, listener, upstream);
    }
    affinity::begin(exchange, upstream, client.now);
    retry::begin(client, exchange, plans);
}
