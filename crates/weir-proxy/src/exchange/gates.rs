//! What stands between a request that has its route and the server: lists and limits, proofs of who makes it, the lists and limits that need to know
//! that, files, the cache. Here it is decided, too, whether it is copied for a mirror.

use weir_config::Stage;

use super::client::Client;
use super::end::End;
use super::exchange_state::{Ended, Exchange};
use super::proof::{self, Asked};
use super::stream::ClientStream;
use super::{access, cache, files, subrequests};
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// Passes them one after the other; the end of the exchange when one of them has the answer. `way` is what the request would take to a server.
///
/// # Errors
/// When the request is refused, or the client leaves meanwhile.
pub(super) async fn pass(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    asked: Asked<'_>,
    way: &RoutePlan,
) -> Result<Option<End>, Ended> {
    let (_, listener, route) = asked;
    if let Some(stripped) = listener.stripped_trailers_on(way, client.peer) {
        stream.strip_trailers(stripped);
    }
    if let Some(rules) = &route.rules {
        access::pass(client, stream, exchange, (listener, route, rules), Stage::Request).await?;
    }
    if let Some(questions) = proof::questions(client, stream, servers, exchange, asked)
        && let Some(end) = questions.await?
    {
        return Ok(Some(end));
    }
    if let Some(rules) = route.rules.as_ref().filter(|rules| rules.last > Stage::Request) {
        Box::pin(access::pass(client, stream, exchange, (listener, route, rules), rules.last)).await?;
    }
    // On the heap, since it is large and most routes have none.
    if route.files.is_some() && Box::pin(files::answer(client, stream, exchange, route)).await? {
        return Ok(Some(End::Done));
    }
    subrequests::mirror::begin(client, exchange, way);
    match &route.cache {
        None => Ok(None),
        // On the heap, since it is large and most routes have none.
        Some(_) => {
            Box::pin(cache::lookup::pass(client, stream, servers, exchange, (listener, route, way))).await
        }
    }
}
