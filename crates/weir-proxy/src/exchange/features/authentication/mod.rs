//! End of phase Route: what a route asks of its clients before it takes their requests.
//!
//! Rare and on the heap: an exchange of a route that asks for nothing never comes here.

pub(crate) mod key_fetch;
pub(in crate::exchange) mod basic_auth;
pub(in crate::exchange) mod jwt_auth;
pub(in crate::exchange) mod forward_auth;

use std::pin::Pin;
use std::rc::Rc;

use crate::exchange::exchange_state::authorization::Authorization;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::phases::end::EarlyEnd;
use crate::exchange::phases::{answer, choose};
use crate::state::routes::access::AccessPlan;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::state::worker_config::WorkerConfig;
use crate::upstream::stream::Servers;

/// The config of the exchange, its listener and its route.
pub(in crate::exchange) type MatchedRoute<'a> = (&'a Rc<WorkerConfig>, &'a ListenerPlan, &'a RoutePlan);

/// Everything that the route wants to know, to be waited for; `None` where it asks for nothing. On the heap, since it is rare and would make every
/// exchange larger.
#[inline]
pub(in crate::exchange) fn questions<'a>(
    client: &'a mut Client,
    stream: &'a mut impl ClientStream,
    servers: &'a mut impl Servers,
    exchange: &'a mut Exchange,
    asked: MatchedRoute<'a>,
) -> Option<Pin<Box<impl Future<Output = EarlyEnd>>>> {
    let access = asked.2.access.as_deref()?;
    if choose::is_preflight(exchange, asked.2) {
        return None;
    }
    Some(Box::pin(admit(client, stream, servers, exchange, asked, access)))
}

/// Asks for everything that the route wants to know.
///
/// # Errors
/// When something is missing or wrong, or the client leaves meanwhile.
async fn admit(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    (config, listener, route): MatchedRoute<'_>,
    access: &AccessPlan,
) -> EarlyEnd {
    exchange.granted = Some(Box::new(Authorization::default()));
    // Until it is admitted, no upstream has seen the request.
    let chosen = exchange.record.upstream.take();
    let Some(settings) = &route.config.access else { return Ok(None) };
    if let (Some(basic), Some(users)) = (&settings.basic, &access.users) {
        basic_auth::admit(client, stream, exchange, listener, basic, &users.now()).await?;
    }
    if let (Some(jwt), Some(keys)) = (&settings.jwt, &access.keys) {
        jwt_auth::admit(client, stream, exchange, jwt, keys).await?;
    }
    if let (Some(forward), Some(way)) = (&settings.forward, route.auth_route.as_deref()) {
        let question = forward_auth::AuthQuestion { config, listener, route: way, forward };
        if let Some(denial) = forward_auth::ask(client, stream, servers, exchange, question).await? {
            return answer::of_other(client, stream, exchange, &denial.answer()).await.map(Some);
        }
    }
    exchange.record.upstream = chosen;
    Ok(None)
}
