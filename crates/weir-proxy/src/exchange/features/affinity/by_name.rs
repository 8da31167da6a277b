//! The server that a request names (`dynamic`): what it names, made once; and the wait until that is resolved.

use std::rc::Rc;
use std::time::Duration;

use weir_config::{Feature, Stage};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::names::NameFailure;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::phases::pause;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::state::servers::requested_names::NameQuestion;
use crate::state::snapshot::{RoutePlan, UpstreamPlan};

/// How long a name that is in use may be on its way to a worker, and then again.
const ON_ITS_WAY: Duration = Duration::from_millis(5);

/// How often a name is looked for again that came into use and is not there: others may have made it go.
const TRIES_MAX: usize = 3;

/// Makes the name of the server of the request, in the one form that it has; `false`: the upstream allows no such server.
pub(in crate::exchange) fn find<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
    plan: &UpstreamPlan,
) -> bool {
    let Some(settings) = &plan.config.dynamic else { return false };
    if let Some(known) = context.exchange.named_server() {
        return settings.allow.find(known.as_bytes()).is_some();
    }
    let mut text = Vec::new();
    TemplateValues::new(context, Some(route)).write_own_key(&settings.server, &mut text);
    let Some(address) = settings.allow.find(&text) else { return false };
    context.exchange.set_named_server(address.to_string().into());
    true
}

/// Binds the request to the server that it names, once that is in use.
///
/// # Errors
/// When it names none that it may have, or that cannot be resolved; when the client leaves meanwhile.
pub(in crate::exchange) async fn bind<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
) -> Result<(), Ended> {
    acting::note(Stage::Upstream, Feature::Affinity);
    if !find(context, plans.route, plans.upstream) {
        return Err(refused(Cause::ServerNotAllowed));
    }
    for _ in 0..TRIES_MAX {
        // That of this moment: it may have the name since the request began, and it alone says what is allowed now.
        let present = Rc::clone(&context.client.worker.config.borrow());
        let Some((_, plan)) = present.snapshot.upstream(&plans.upstream.config.name) else { break };
        if context.exchange.hold_named_server(plan) {
            return Ok(());
        }
        match ask(context, plan)? {
            // On the way to this worker.
            NameQuestion::Known => pause::hold(context, ON_ITS_WAY).await?,
            NameQuestion::Refused(failure) => return Err(refused(cause(failure))),
            NameQuestion::Waits(told) => {
                let longest = plan.config.timeouts.connect;
                let told = pause::for_answer(context, told, longest).await?;
                context.client.now = clock::now();
                context.exchange.record.spend(Phase::Connect, context.client.now);
                match told {
                    None => return Err(refused(Cause::ResolveTimedOut)),
                    Some(Err(failure)) => return Err(refused(cause(failure))),
                    Some(Ok(())) => {}
                }
            }
        }
    }
    Err(refused(Cause::NoServer))
}

/// Asks for the name of the request, which is not in use.
fn ask<S, U>(context: &Context<'_, S, U>, plan: &UpstreamPlan) -> Result<NameQuestion, Ended> {
    let name = context.exchange.named_server().unwrap_or_default();
    let (Some(named), Some(settings)) = (&plan.named, &plan.config.dynamic) else {
        return Err(refused(Cause::NoServer));
    };
    let Some(address) = settings.allow.find(name.as_bytes()) else {
        return Err(refused(Cause::ServerNotAllowed));
    };
    Ok(named.names.ask(name, &address, |name| plan.is_busy(name)))
}

fn refused(cause: Cause) -> Ended {
    Failure::weir(Phase::Connect, cause).into()
}

const fn cause(failure: NameFailure) -> Cause {
    match failure {
        NameFailure::NotFound => Cause::NameNotFound,
        NameFailure::NoAnswer => Cause::ResolverFailed,
        NameFailure::NotAllowed => Cause::AddressNotAllowed,
        NameFailure::TooMany => Cause::TooManyNames,
    }
}
