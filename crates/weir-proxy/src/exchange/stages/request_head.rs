//! Stage request head: the head has come, and no route has been chosen.

use std::pin::Pin;

use weir_config::{Feature, Stage};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::plans::MatchedRoute;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::{access_lists, acme_challenge, cors, forwarded, grpc, tables};
use crate::exchange::phases::end::EarlyEnd;
use crate::exchange::phases::{admit, choose};
use crate::exchange::rerouting::find;
use crate::exchange::telemetry::trace;
use crate::state::snapshot::RoutePlan;

/// Admits the head. What may answer it before any route is chosen, to be waited for: on the heap, since it is rare.
///
/// # Errors
/// When the request is refused.
#[inline(always)]
pub(in crate::exchange) fn admit<U>(
    context: &mut Context<'_, impl ClientStream, U>,
) -> Result<Option<Pin<Box<impl Future<Output = EarlyEnd>>>>, Ended> {
    trace::begin(context);
    grpc::recognize(context.exchange);
    admit::begin(context);
    forwarded::begin(context)?;
    admit::check(context)?;
    if let Some(stripped) = context.listener.withheld_from(context.client.peer) {
        context.exchange.withhold(|name| stripped.covers(name));
    }
    let exchange = &*context.exchange;
    let is_last_hop = exchange.request.max_forwards(&exchange.request_text) == Some(0);
    let has_challenges = context.config.snapshot.issuers.is_some();
    let needs_no_route = is_last_hop || has_challenges && acme_challenge::is_one(exchange);
    Ok(needs_no_route.then(|| Box::pin(answer_without_route(context, is_last_hop))))
}

/// Answers a request that may go no further, or the challenge of an authority, if it is one.
async fn answer_without_route<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    is_last_hop: bool,
) -> EarlyEnd {
    if is_last_hop {
        return answer::as_last_hop(context).await.map(Some);
    }
    match &context.config.snapshot.issuers {
        Some(issuers) => acme_challenge::pass(context, issuers).await,
        None => Ok(None),
    }
}

/// Chooses the route, and where that sends the request.
///
/// # Errors
/// When there is none, or it does not take the request.
#[inline(always)]
pub(in crate::exchange) fn route<'a, U>(
    context: &mut Context<'a, impl ClientStream, U>,
) -> Result<MatchedRoute<'a>, Ended> {
    match choose::route(context, find::find) {
        Ok(Some(route)) => enter(context, route),
        Ok(None) => Err(refuse_without_route(context, Failure::weir(Phase::Route, Cause::NoRoute))),
        Err(Ended::Failed(failure)) => Err(refuse_without_route(context, failure)),
        Err(ended) => Err(ended),
    }
}

/// Enters a route: whether it takes the request, and where it sends it.
///
/// # Errors
/// When it does not.
#[inline(always)]
pub(in crate::exchange) fn enter<'a, U>(
    context: &mut Context<'a, impl ClientStream, U>,
    route: &'a RoutePlan,
) -> Result<MatchedRoute<'a>, Ended> {
    // Before anything refuses it: a call is answered as one.
    if route.config.grpc_web {
        grpc::web::begin(context.exchange);
    }
    choose::admit(context, route)?;
    grpc::limit_time(context, route);
    if cors::is_preflight_on(route, context.exchange) {
        acting::note(Stage::Route, Feature::Cors);
        return Ok(MatchedRoute { route, target: route, upstream: None });
    }
    Ok(choose::target(context, route))
}

/// The tables, lists and limits of the listener hold for requests that no route takes, too.
#[cold]
fn refuse_without_route<U>(context: &mut Context<'_, impl ClientStream, U>, failure: Failure) -> Ended {
    let rules = context.listener.rules.as_ref();
    if let Some(rules) = rules.filter(|rules| !rules.tables.is_empty()) {
        tables::track(context, (None, rules), Stage::Route);
    }
    match rules.map(|rules| access_lists::pass_without_route(context, rules)) {
        Some(Err(refused)) => refused.into(),
        Some(Ok(())) | None => failure.into(),
    }
}
