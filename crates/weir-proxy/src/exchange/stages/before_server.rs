//! What stands between a request that has its route and the server: lists and limits, proofs of who makes it, the lists and limits that need to know
//! that, files, the cache. Here it is decided, too, whether it is copied for a mirror.

use std::pin::Pin;

use weir_config::Stage;

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::access_lists::Hold;
use crate::exchange::features::authentication;
use crate::exchange::features::authentication::MatchedRoute;
use crate::exchange::features::error_pages::remote_page;
use crate::exchange::features::{access_lists, cache, files, mirror};
use crate::exchange::phases::answer;
use crate::exchange::phases::end::{EarlyEnd, End};
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// Passes those that decide at once. What is left of them, when one may wait: the end of the exchange when one of these has the answer. `way` is
/// what the request would take to a server.
///
/// What waits is on the heap, since it is large and most routes have none of it.
///
/// # Errors
/// When the request is refused.
#[inline(never)]
pub(in crate::exchange) fn pass<'a>(
    client: &'a mut Client,
    stream: &'a mut impl ClientStream,
    servers: &'a mut impl Servers,
    exchange: &'a mut Exchange,
    asked: MatchedRoute<'a>,
    way: &'a RoutePlan,
) -> Result<Option<Pin<Box<impl Future<Output = EarlyEnd>>>>, Ended> {
    let (_, listener, route) = asked;
    if let Some(stripped) = listener.stripped_trailers_on(way, client.peer) {
        stream.strip_trailers(stripped);
    }
    let hold = match &route.rules {
        Some(rules) => access_lists::ask(client, stream, exchange, (listener, route, rules), Stage::Request)?,
        None => None,
    };
    if hold.is_none() && !route.may_wait_at_gates() {
        mirror::begin(client, exchange, way);
        return Ok(None);
    }
    Ok(Some(Box::pin(pass_waiting(client, stream, servers, exchange, asked, (way, hold)))))
}

/// Passes what [`pass`] has left, one after the other.
///
/// # Errors
/// When the request is refused, or the client leaves meanwhile.
async fn pass_waiting(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    asked: MatchedRoute<'_>,
    (way, hold): (&RoutePlan, Option<Hold<'_>>),
) -> EarlyEnd {
    let (_, listener, route) = asked;
    if let (Some(rules), Some(hold)) = (&route.rules, hold) {
        Box::pin(access_lists::wait(client, stream, exchange, rules, hold)).await?;
    }
    if let Some(questions) = authentication::questions(client, stream, servers, exchange, asked)
        && let Some(end) = questions.await?
    {
        return Ok(Some(end));
    }
    if let Some(rules) = route.rules.as_ref().filter(|rules| rules.last > Stage::Request)
        && let Some(hold) = access_lists::ask(client, stream, exchange, (listener, route, rules), rules.last)?
    {
        Box::pin(access_lists::wait(client, stream, exchange, rules, hold)).await?;
    }
    if route.files.is_some() && Box::pin(files::answer(client, stream, exchange, route)).await? {
        return Ok(Some(End::Done));
    }
    mirror::begin(client, exchange, way);
    match &route.cache {
        None => Ok(None),
        Some(_) => {
            Box::pin(cache::lookup::pass(client, stream, servers, exchange, (listener, route, way))).await
        }
    }
}

/// Answers a request whose route has no upstream: with the page of its status, where another server has one.
///
/// # Errors
/// The failure of the client, or a refusal.
pub(in crate::exchange) async fn answer(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    route: &RoutePlan,
) -> Result<End, Ended> {
    let fetched = match answer::status_with_page(exchange, route) {
        Some(status) => {
            let of = (route, status);
            Box::pin(remote_page::of_fixed(client, stream, servers, exchange, of)).await
        }
        None => None,
    };
    answer::without_server(client, stream, exchange, (route, fetched)).await
}
