//! `satisfy = "any"`: a list that allows a request, or one kind of authentication that admits it, is enough.
//!
//! What is asked has to say yes: nothing passes because nothing has refused it, nor because a server has given no answer. What a kind has found out of a
//! client that it refuses is forgotten before the next one is asked.

use weir_config::{Access, Feature, Stage, TokenSource};
use weir_observe::Cause;

use super::{basic_auth, forward_auth, jwt_auth};
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization::{self, Authorization};
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::{access_lists, answer};
use crate::exchange::phases::end::EarlyEnd;
use crate::state::routes::access::AccessPlan;
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// Admits a request, or answers it as the first kind that has asked for credentials.
///
/// # Errors
/// When nothing admits it, or the client leaves meanwhile.
pub(super) async fn admit(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    route: &RoutePlan,
    (access, settings): (&AccessPlan, &Access),
) -> EarlyEnd {
    acting::note(Stage::Identity, Feature::Authentication);
    // One that a list lets in has no user. It counts as proven, so that a cache keeps apart what it gets.
    forget(context.exchange);
    if access_lists::admits(context.exchange) {
        return Ok(None);
    }
    // Until it is admitted, no upstream has seen the request.
    let upstream = context.exchange.record.upstream.take();
    let mut refusals = RefusedKinds::default();
    if let (Some(basic), Some(users)) = (&settings.basic, &access.users) {
        let outcome = basic_auth::admit(context, basic, &users.now()).await;
        if refusals.note(context.exchange, outcome)? {
            return admitted(context.exchange, upstream, true);
        }
    }
    if let (Some(jwt), Some(keys)) = (&settings.jwt, &access.keys) {
        let outcome = jwt_auth::admit(context, jwt, keys).await;
        if refusals.note(context.exchange, outcome)? {
            return admitted(context.exchange, upstream, jwt.source == TokenSource::Authorization);
        }
    }
    if let (Some(forward), Some(auth_route)) = (&settings.forward, route.auth_route.as_deref()) {
        let Some(denial) = forward_auth::admit(context, access, (auth_route, forward)).await? else {
            return admitted(context.exchange, upstream, false);
        };
        // As of nginx: a 403 does not take the place of a 401, which tells the client how to get in.
        if denial.status() != 403 || !refusals.asks_for_credentials() {
            put_off(context).await?;
            return answer::pass_on(context, &denial.answer()).await.map(Some);
        }
    }
    put_off(context).await?;
    // The log shows the user that was named; no server gets the request.
    let RefusedKinds { user, first } = refusals;
    if let Some(granted) = &mut context.exchange.authorization {
        granted.user = user;
    }
    Err(first.unwrap_or_else(|| authorization::refused(Cause::CredentialsMissing).into()))
}

/// Nothing is known of the client.
fn forget(exchange: &mut Exchange) {
    exchange.authorization = Some(Box::new(Authorization::default()));
}

/// `is_proven`: by its `Authorization`, which servers get only then.
fn admitted(exchange: &mut Exchange, upstream: Option<usize>, is_proven: bool) -> EarlyEnd {
    exchange.record.upstream = upstream;
    if let Some(granted) = &mut exchange.authorization {
        granted.is_proven = is_proven;
    }
    access_lists::overrule(exchange);
    Ok(None)
}

/// Waits where a list puts off what it refuses.
async fn put_off<U>(context: &mut Context<'_, impl ClientStream, U>) -> Result<(), Ended> {
    match access_lists::tarpit_of(context.exchange) {
        Some(list) => Box::pin(access_lists::delay(context, &list)).await,
        None => Ok(()),
    }
}

/// Why a request has not been admitted so far.
#[derive(Default)]
struct RefusedKinds {
    /// The first that asks for credentials, or else the first of all.
    first: Option<Ended>,
    /// The user that the request names.
    user: Vec<u8>,
}

impl RefusedKinds {
    /// Takes note of what one kind says; whether it admits the request.
    ///
    /// # Errors
    /// Another failure than a refusal: nothing else is asked then.
    fn note(&mut self, exchange: &mut Exchange, outcome: Result<(), Ended>) -> Result<bool, Ended> {
        let Err(ended) = outcome else { return Ok(true) };
        let Ended::Failed(failure) = &ended else { return Err(ended) };
        if !authorization::is_refusal(failure.cause) {
            return Err(ended);
        }
        let asks = is_unauthorized(&ended);
        if self.first.is_none() || asks && !self.asks_for_credentials() {
            self.first = Some(ended);
        }
        if self.user.is_empty()
            && let Some(granted) = &mut exchange.authorization
        {
            self.user = std::mem::take(&mut granted.user);
        }
        forget(exchange);
        Ok(false)
    }

    /// Whether the client gets a 401.
    fn asks_for_credentials(&self) -> bool {
        self.first.as_ref().is_some_and(is_unauthorized)
    }
}

fn is_unauthorized(ended: &Ended) -> bool {
    matches!(ended, Ended::Failed(failure) if failure.status() == Some(401))
}
