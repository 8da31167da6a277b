//! End of phase Route: what a route asks of its clients before it takes their requests.
//!
//! Rare and on the heap: an exchange of a route that asks for nothing never comes here.

mod alternatives;
pub(crate) mod key_fetch;
pub(in crate::exchange) mod basic_auth;
pub(in crate::exchange) mod jwt_auth;
pub(in crate::exchange) mod forward_auth;
mod kept_answers;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization::Authorization;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::cors;
use crate::exchange::phases::end::EarlyEnd;
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;
use weir_config::{Feature, Satisfy, Stage};

/// Asks for everything that the route wants to know of the client of a request.
///
/// # Errors
/// When something is missing or wrong, or the client leaves meanwhile.
pub(in crate::exchange) async fn admit(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    route: &RoutePlan,
) -> EarlyEnd {
    let (Some(access), Some(settings)) = (route.access.as_deref(), &route.config.access) else {
        return Ok(None);
    };
    if cors::is_preflight_on(route, context.exchange) {
        return Ok(None);
    }
    if settings.satisfy == Satisfy::Any {
        return alternatives::admit(context, route, (access, settings)).await;
    }
    context.exchange.authorization = Some(Box::new(Authorization::default()));
    acting::note(Stage::Identity, Feature::Authentication);
    // Until it is admitted, no upstream has seen the request.
    let upstream = context.exchange.record.upstream.take();
    if let (Some(basic), Some(users)) = (&settings.basic, &access.users) {
        basic_auth::admit(context, basic, &users.now()).await?;
    }
    if let (Some(jwt), Some(keys)) = (&settings.jwt, &access.keys) {
        jwt_auth::admit(context, jwt, keys).await?;
    }
    if let (Some(forward), Some(auth_route)) = (&settings.forward, route.auth_route.as_deref())
        && let Some(denial) = forward_auth::admit(context, access, (auth_route, forward)).await?
    {
        return answer::pass_on(context, &denial.answer()).await.map(Some);
    }
    context.exchange.record.upstream = upstream;
    Ok(None)
}
