//! The points of phases Request and Route: the head is known, then its route.

use std::pin::Pin;
use std::rc::Rc;

use weir_observe::{Cause, Failure, Phase};

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::{access_lists, acme_challenge};
use crate::exchange::heads::grpc;
use crate::exchange::phases::end::EarlyEnd;
use crate::exchange::phases::{admit, answer, choose};
use crate::exchange::telemetry::trace;
use crate::state::snapshot::{ListenerPlan, RoutePlan, Snapshot};
use crate::state::worker_config::WorkerConfig;

/// Admits the head. What may answer it before any route is chosen, to be waited for: on the heap, since it is rare.
///
/// # Errors
/// When the request is refused.
#[inline(always)]
pub(in crate::exchange) fn begin<'a>(
    client: &'a mut Client,
    stream: &'a mut impl ClientStream,
    exchange: &'a mut Exchange,
    config: &'a Rc<WorkerConfig>,
    listener: &ListenerPlan,
) -> Result<Option<Pin<Box<impl Future<Output = EarlyEnd>>>>, Ended> {
    trace::begin(client, exchange, listener, config);
    admit::request(client, stream, exchange, listener)?;
    let snapshot = &*config.snapshot;
    let is_last_hop = exchange.request.max_forwards(&exchange.request_text) == Some(0);
    let needs_no_route = is_last_hop || snapshot.issuers.is_some() && acme_challenge::is_one(exchange);
    Ok(needs_no_route
        .then(|| Box::pin(answer_without_route(client, stream, exchange, snapshot, is_last_hop))))
}

/// Answers a request that may go no further, or the challenge of an authority, if it is one.
async fn answer_without_route(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    snapshot: &Snapshot,
    is_last_hop: bool,
) -> EarlyEnd {
    if is_last_hop {
        return answer::as_last_hop(client, stream, exchange).await.map(Some);
    }
    match &snapshot.issuers {
        Some(issuers) => acme_challenge::pass(client, stream, exchange, issuers).await,
        None => Ok(None),
    }
}

/// Chooses the route, and begins what bounds the time of the exchange.
///
/// # Errors
/// When there is none, or it does not take the request.
#[inline(always)]
pub(in crate::exchange) fn route<'a>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    listener: &'a ListenerPlan,
) -> Result<&'a RoutePlan, Ended> {
    let Some(route) = choose::route(client, stream, exchange, listener)? else {
        return Err(refuse_without_route(client, stream, exchange, listener));
    };
    grpc::limit_time(client, exchange, route);
    Ok(route)
}

/// The lists and limits of the listener hold for requests that no route takes, too.
#[cold]
fn refuse_without_route(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    listener: &ListenerPlan,
) -> Ended {
    let refusal = listener
        .rules
        .as_ref()
        .map(|rules| access_lists::pass_without_route(client, stream, exchange, listener, rules));
    match refusal {
        Some(Err(failure)) => failure.into(),
        Some(Ok(())) | None => Failure::weir(Phase::Route, Cause::NoRoute).into(),
    }
}
