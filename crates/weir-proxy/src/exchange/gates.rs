//! What stands between a request that has its route and the server: lists and limits, proofs of who makes it, the lists and limits that need to know
//! that, files, the cache. Here it is decided, too, whether it is copied for a mirror.

use std::pin::Pin;

use weir_config::Stage;

use super::access::Hold;
use super::client::Client;
use super::end::End;
use super::exchange_state::{Ended, Exchange};
use super::proof::{self, AccessOutcome, Asked};
use super::stream::ClientStream;
use super::{access, cache, files, subrequests};
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
pub(super) fn pass<'a>(
    client: &'a mut Client,
    stream: &'a mut impl ClientStream,
    servers: &'a mut impl Servers,
    exchange: &'a mut Exchange,
    asked: Asked<'a>,
    way: &'a RoutePlan,
) -> Result<Option<Pin<Box<impl Future<Output = AccessOutcome>>>>, Ended> {
    let (_, listener, route) = asked;
    if let Some(stripped) = listener.stripped_trailers_on(way, client.peer) {
        stream.strip_trailers(stripped);
    }
    let hold = match &route.rules {
        Some(rules) => access::ask(client, stream, exchange, (listener, route, rules), Stage::Request)?,
        None => None,
    };
    if hold.is_none() && !route.may_wait_at_gates() {
        subrequests::mirror::begin(client, exchange, way);
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
    asked: Asked<'_>,
    (way, hold): (&RoutePlan, Option<Hold<'_>>),
) -> AccessOutcome {
    let (_, listener, route) = asked;
    if let (Some(rules), Some(hold)) = (&route.rules, hold) {
        Box::pin(access::wait(client, stream, exchange, rules, hold)).await?;
    }
    if let Some(questions) = proof::questions(client, stream, servers, exchange, asked)
        && let Some(end) = questions.await?
    {
        return Ok(Some(end));
    }
    if let Some(rules) = route.rules.as_ref().filter(|rules| rules.last > Stage::Request)
        && let Some(hold) = access::ask(client, stream, exchange, (listener, route, rules), rules.last)?
    {
        Box::pin(access::wait(client, stream, exchange, rules, hold)).await?;
    }
    if route.files.is_some() && Box::pin(files::answer(client, stream, exchange, route)).await? {
        return Ok(Some(End::Done));
    }
    subrequests::mirror::begin(client, exchange, way);
    match &route.cache {
        None => Ok(None),
        Some(_) => {
            Box::pin(cache::lookup::pass(client, stream, servers, exchange, (listener, route, way))).await
        }
    }
}
