//! End of phase Route: what a route asks of its clients before it takes their requests.
//!
//! Rare and on the heap: an exchange of a route that asks for nothing never comes here.

use super::client::Client;
use super::granted::Granted;
use super::stream::ClientStream;
use super::{Ended, Exchange, basic_auth, jwt_auth};
use crate::state::access::AccessPlan;
use crate::state::snapshot::{ListenerPlan, RoutePlan};

/// Asks for everything that the route wants to know.
///
/// # Errors
/// When something is missing or wrong, or the client leaves meanwhile.
pub(super) async fn admit(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    listener: &ListenerPlan,
    route: &RoutePlan,
    access: &AccessPlan,
) -> Result<(), Ended> {
    exchange.granted = Some(Box::new(Granted::default()));
    let Some(config) = &route.config.access else { return Ok(()) };
    if let (Some(basic), Some(users)) = (&config.basic, &access.users) {
        basic_auth::admit(client, stream, exchange, listener, basic, &users.now()).await?;
    }
    if let (Some(jwt), Some(keys)) = (&config.jwt, &access.keys) {
        jwt_auth::admit(client, exchange, jwt, &keys.now())?;
    }
    Ok(())
}
