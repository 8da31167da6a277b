//! A list of rewrites, applied to a request.

use weir_config::{RewriteFlag, RewriteRule};
use weir_http::Rule;
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::rerouting::leads_out;
use crate::exchange::placeholders::TemplateValues;
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
        let Some(target) = target_by(context, rule, route)? else { continue };
        if let Some(status) = rule.flag.redirect_status() {
            return Ok(Rewritten::Redirect(status, target));
        }
        if route.is_some() {
            keep_matched_path(context.exchange);
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

/// Keeps the path by which the request came to the route that gives it another one.
fn keep_matched_path(exchange: &mut Exchange) {
    let path = exchange.request.normal_path(&exchange.request_text).into();
    exchange.rerouting_mut().matched_path.get_or_insert(path);
}

/// The target that a rule makes; `None`: the path does not match.
///
/// # Errors
/// When text of the client leads out of it.
fn target_by<U>(
    context: &Context<'_, impl ClientEnd, U>,
    rule: &RewriteRule,
    route: Option<&RoutePlan>,
) -> Result<Option<Vec<u8>>, Failure> {
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let values = TemplateValues::new(context, route);
    let query = request.query().map(|query| query.of(text));
    rule.apply(request.normal_path(text), query, |value, out| values.write_one(value.of_url(), out))
        .map_err(leads_out)
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
    if exchange.rerouting().is_none_or(|way| way.received_target.is_none()) {
        let mut uri = Vec::new();
        exchange.write_request_uri(context.listener.config.paths.forward, &mut uri);
        let received = exchange.request.target().of(&exchange.request_text).into();
        let way = exchange.rerouting_mut();
        (way.received_target, way.received_uri) = (Some(received), uri.into());
    }
    let replaced = exchange.request.replace_target(&mut exchange.request_text, target, &limits);
    replaced.map_err(|rule| match rule {
        // Text of its client has made it so.
        Rule::TargetTooLong | Rule::BadTarget => Failure::client(Phase::Request, Cause::Rule(rule)),
        _ => Failure::weir(Phase::Route, Cause::BadRewrite),
    })
}
