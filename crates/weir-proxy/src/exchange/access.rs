//! End of phase Route: what a route asks of its clients before it takes their requests.
//!
//! Rare and on the heap: an exchange of a route that asks for nothing never comes here.

use std::rc::Rc;

use super::client::Client;
use super::granted::Granted;
use super::stream::ClientStream;
use super::{End, Ended, Exchange, answer, basic_auth, forward_auth, jwt_auth};
use crate::state::access::AccessPlan;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::state::worker_config::WorkerConfig;
use crate::upstream::stream::Servers;

/// What asks.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) config: &'a Rc<WorkerConfig>,
    pub(super) listener: &'a ListenerPlan,
    pub(super) route: &'a RoutePlan,
    pub(super) access: &'a AccessPlan,
}

/// Asks for everything that the route wants to know; `None` when the request may pass, else the end of its exchange.
///
/// # Errors
/// When something is missing or wrong, or the client leaves meanwhile.
pub(super) async fn admit(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    asked: Asked<'_>,
) -> Result<Option<End>, Ended> {
    let Asked { config, listener, route, access } = asked;
    exchange.granted = Some(Box::new(Granted::default()));
    let Some(settings) = &route.config.access else { return Ok(None) };
    if let (Some(basic), Some(users)) = (&settings.basic, &access.users) {
        basic_auth::admit(client, stream, exchange, listener, basic, &users.now()).await?;
    }
    if let (Some(jwt), Some(keys)) = (&settings.jwt, &access.keys) {
        jwt_auth::admit(client, exchange, jwt, &keys.now())?;
    }
    if let (Some(forward), Some(way)) = (&settings.forward, route.auth_route.as_deref()) {
        let question = forward_auth::AuthQuestion { config, listener, route: way, forward };
        if let Some(denial) = forward_auth::ask(client, stream, servers, exchange, question).await? {
            return answer::of_other(client, stream, exchange, &denial.answer()).await.map(Some);
        }
    }
    Ok(None)
}
