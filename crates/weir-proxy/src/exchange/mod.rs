//! One request and its response, phase by phase.
//!
//! [`carry`] names every phase in the order in which they happen, and between them the stages at which the features of a route act ([`stages`]). An
//! exchange is reused from one request to the next, so that a warm worker allocates nothing. Must not know how bytes travel.

pub(crate) mod tcp;
mod stages;
mod rerouting;
pub(crate) mod features;
pub(crate) mod phases;
pub(crate) mod telemetry;
mod placeholders;
mod proxy_values;
mod tried_servers;
mod context;
pub(crate) mod exchange_state;
mod acting;

#[cfg(test)]
pub(crate) mod simulation;

use std::future::Future;
use std::pin::pin;

use crate::upstream::stream::Servers;

pub(crate) use exchange_state::exchange::{Ended, Exchange};
pub(crate) use phases::end::End;

use context::Context;
use exchange_state::client::Client;
use exchange_state::outcome::AttemptHistory;
use exchange_state::stream::ClientStream;
use features::{conditions, retries};
use phases::attempt_response::AttemptResponse;
use phases::{finish, pause, queue, respond};
use stages::{
    before_server, failed, request_head, response_body, response_fields, response_head, resume,
    server_chosen, upstream_known,
};

/// Runs one exchange: from the request of the client to its response.
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for each of its arguments twice")]
pub(crate) fn run(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> impl Future<Output = End> {
    async move {
        let config = exchange.record.begin_config(client);
        let mut context = Context::new(client, stream, servers, exchange, &config);
        // Pinned, since awaiting it otherwise moves its whole state once more.
        let carried = {
            let carried = pin!(carry(&mut context));
            carried.await
        };
        let end = match carried {
            Ok(tunnel @ End::Tunnel(_)) => return tunnel,
            Ok(end) => end,
            Err(Ended::Closed) => return End::Closed,
            // On the heap, since it would make every exchange larger.
            Err(ended) => match Box::pin(go_on(&mut context, ended)).await {
                tunnel @ End::Tunnel(_) => return tunnel,
                end => end,
            },
        };
        conditions::ask_at_end(&mut context);
        finish::record(&mut context);
        end
    }
}

/// What becomes of a request that has ended early: the page of its failure, or that it goes on elsewhere, once or more often.
#[cold]
async fn go_on(context: &mut Context<'_, impl ClientStream, impl Servers>, mut ended: Ended) -> End {
    loop {
        match ended {
            Ended::Rerouted => {}
            Ended::Closed => return End::Closed,
            Ended::Failed(failure) => {
                if let Some(end) = failed::answer(context, failure).await {
                    return end;
                }
            }
        }
        ended = match resume::answer(context).await {
            Ok(Some(end)) => return end,
            Ok(None) => match Box::pin(carry(context)).await {
                Ok(end) => return end,
                Err(ended) => ended,
            },
            Err(ended) => ended,
        };
    }
}

/// The phases in their order. An early end is an [`Ended`]; what it means for the client is decided in [`run`].
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for each of its arguments twice")]
fn carry(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
) -> impl Future<Output = Result<End, Ended>> {
    async move {
        let matched = if context.exchange.rare.is_none() {
            // Request: the head, whole and well-formed.
            context.stream.receive(context.client, context.exchange, context.listener).await?;
            if let Some(answer) = request_head::admit(context)?
                && let Some(end) = answer.await?
            {
                return Ok(end);
            }
            // Route: the most specific rule that matches, and what it has before a server gets the request.
            request_head::route(context)?
        } else {
            resume::route(context)?
        };
        if !matched.route.ahead.is_empty()
            && let Some(waiting) = before_server::pass(context, matched)?
            && let Some(end) = waiting.await?
        {
            return Ok(end);
        }
        let Some(plans) = matched.plans(context.config) else {
            return Box::pin(before_server::answer(context, matched.target)).await;
        };
        if let Some(taken) = upstream_known::begin(context, plans) {
            taken.await?;
        }
        let mut history = AttemptHistory::new();
        let (location, mut response) = loop {
            pause::before_retry(context, &mut history).await?;
            // Queue: a slot on a server, now or as soon as one is free. After a reload it is one of the new config.
            let slot = queue::admit(context, plans, &mut history)?.slot().await?;
            let location = slot.location();
            let plans = plans.on(&location.0, location.1);
            // Connect, Send, Response: one attempt on that server.
            let attempted = {
                let attempt = pin!(server_chosen::attempt(context, &plans, slot, &history));
                attempt.await
            };
            let mut outcome = response_head::judge(context, plans, &mut history, attempted);
            if outcome.passes() && plans.route.acts_on_response_heads() {
                outcome = Box::pin(response_head::take(context, plans, outcome)).await?;
            }
            match outcome {
                AttemptResponse::Done(end) => return Ok(end),
                AttemptResponse::Passes(response) => break (location, response),
                AttemptResponse::BrokenOff(failed) => retries::again(context, plans, &mut history, failed)?,
                AttemptResponse::GoesAgain => {}
            }
        };
        let plans = plans.on(&location.0, location.1);
        // Relay: the response on its way to the client, and what is left of the request on its way to the server.
        if context.exchange.switches_protocols() {
            return Box::pin(response_fields::switch(context, plans, response)).await;
        }
        response_fields::begin(context, plans, &mut response);
        let relayed = respond::run(context, plans, &mut response).await;
        // Finish: the connection to the server goes back to its pool.
        response_body::finish(context, plans, response, relayed)
    }
}
