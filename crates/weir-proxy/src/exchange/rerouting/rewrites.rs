//! A list of rewrites, applied to a request.

use weir_config::{RewriteFlag, RewriteRule};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::features::headers::placeholders::TemplateValues;
use crate::state::snapshot::RoutePlan;

/// What a list of rewrites has made of a request.
pub(super) enum Rewritten {
    /// Nothing: no pattern has matched.
    Unchanged,
    /// It has another target, and is to be routed by that.
    Changed,
    /// It has another target, and stays where it is.
    Stays,
    /// Its client is to be redirected, with this status.
    Redirect(u16, Vec<u8>),
}

/// Applies the rules one after the other.
///
/// # Errors
/// When one makes what is no target.
pub(super) fn apply<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    rules: &[RewriteRule],
    route: Option<&RoutePlan>,
) -> Result<Rewritten, Failure> {
    let mut outcome = Rewritten::Unchanged;
    for rule in rules {
        let Some(target) = target_by(context, rule, route) else { continue };
        if let Some(status) = rule.flag.redirect_status() {
            return Ok(Rewritten::Redirect(status, target));
        }
        replace_target(context, &target)?;
        match rule.flag {
            RewriteFlag::Break => return Ok(Rewritten::Stays),
            RewriteFlag::Last => return Ok(Rewritten::Changed),
            RewriteFlag::Continue | RewriteFlag::Redirect | RewriteFlag::Permanent => {
                outcome = Rewritten::Changed;
            }
        }
    }
    Ok(outcome)
}

/// The target that a rule makes; `None`: the path does not match.
fn target_by<U>(
    context: &Context<'_, impl ClientEnd, U>,
    rule: &RewriteRule,
    route: Option<&RoutePlan>,
) -> Option<Vec<u8>> {
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let values = TemplateValues::new(context, route);
    let query = request.query().map(|query| query.of(text));
    rule.apply(request.normal_path(text), query, |value, out| values.write_one(value, out))
}

/// Gives the request another target, with the one that it had kept for the log.
///
/// # Errors
/// When it is none, or too long.
pub(in crate::exchange) fn replace_target<S, U>(
    context: &mut Context<'_, S, U>,
    target: &[u8],
) -> Result<(), Failure> {
    let limits = context.listener.head_limits;
    let exchange = &mut *context.exchange;
    let received = exchange.request.target().of(&exchange.request_text).into();
    exchange.rerouting_mut().received_target.get_or_insert(received);
    let replaced = exchange.request.replace_target(&mut exchange.request_text, target, &limits);
    replaced.map_err(|_| Failure::weir(Phase::Route, Cause::BadRewrite))
}
