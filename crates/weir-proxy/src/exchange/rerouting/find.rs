//! The route of a request on a listener with rewrites, routes that lead to others, internal routes, conditions, or routes in the order of the file.

use weir_config::{Feature, RewriteFlag, RewriteRule, RouteAction, Stage};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::route::RouteId;

use super::rewrites;
use super::rewrites::Rewritten;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::rerouting::NextStep;
use crate::exchange::features::conditions;

/// The route that a request takes.
///
/// # Errors
/// When the request goes round in circles, asks for an internal route, or its client is to be redirected.
#[inline(always)]
pub(in crate::exchange) fn find<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
) -> Result<Option<RouteId>, Ended> {
    if context.listener.looks_up_apart {
        return find_apart(context);
    }
    Ok(context.listener.routes.lookup_most_specific(&context.routable()))
}

#[cold]
fn find_apart<U>(context: &mut Context<'_, impl ClientEnd, U>) -> Result<Option<RouteId>, Ended> {
    let has_path = context.exchange.has_path();
    let mut is_inside = false;
    if !has_path && context.listener.config.rewrites.iter().any(leads_elsewhere) {
        return Ok(None);
    }
    if has_path && !context.listener.config.rewrites.is_empty() {
        acting::note(Stage::RequestHead, Feature::Rewrite);
        match rewrites::apply(context, &context.listener.config.rewrites, None)? {
            Rewritten::Unchanged => {}
            // As in nginx, what the list of the listener has made is still what its client has asked for.
            Rewritten::Changed | Rewritten::Stays => {}
            Rewritten::Redirect(status, location) => return redirect(context, status, location),
        }
    }
    loop {
        let Some(found) = look_up(context) else {
            context.exchange.record.route = None;
            return Ok(None);
        };
        match enter(context, found, is_inside)? {
            Entered::Here(route) => return Ok(Some(route)),
            Entered::OtherPath => is_inside = true,
            Entered::Nowhere => return Ok(None),
        }
    }
}

/// The route for the path that the request has by now.
fn look_up<U>(context: &Context<'_, impl ClientEnd, U>) -> Option<RouteId> {
    conditions::find_route(context)
}

/// Where a request has come to.
enum Entered {
    /// To the route that takes it.
    Here(RouteId),
    /// Its path is another one, by which it is routed anew.
    OtherPath,
    /// Nowhere: the route sends paths to other routes, and the request has none.
    Nowhere,
}

/// Whether a rewrite takes requests to other routes. One without a path cannot follow, and must not stay where nothing else would have.
fn leads_elsewhere(rule: &RewriteRule) -> bool {
    matches!(rule.flag, RewriteFlag::Continue | RewriteFlag::Last)
}

/// Goes by the rewrites of a route, and on to the one that it names.
///
/// # Errors
/// As [`find`].
fn enter<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    found: RouteId,
    mut is_inside: bool,
) -> Result<Entered, Ended> {
    let listener = context.listener;
    let mut at = found;
    loop {
        let route = &listener.route_plans[at.index()];
        context.exchange.record.route = Some(at.index());
        if route.config.internal && !is_inside {
            return Err(Failure::client(Phase::Route, Cause::InternalRoute).into());
        }
        if !context.exchange.has_path() && route.config.rewrites.iter().any(leads_elsewhere) {
            return Ok(Entered::Nowhere);
        }
        if !route.config.rewrites.is_empty() && context.exchange.has_path() {
            acting::note(Stage::Route, Feature::Rewrite);
            match rewrites::apply(context, &route.config.rewrites, Some(route))? {
                Rewritten::Unchanged | Rewritten::Stays => {}
                Rewritten::Changed => {
                    context.exchange.rerouting_mut().leave(at.index())?;
                    return Ok(Entered::OtherPath);
                }
                Rewritten::Redirect(status, location) => return redirect(context, status, location),
            }
        }
        let RouteAction::Then(name) = &route.config.action else { return Ok(Entered::Here(at)) };
        context.exchange.rerouting_mut().leave(at.index())?;
        // The config check has seen that there is one.
        let place = listener.route_named(name).ok_or(Failure::weir(Phase::Route, Cause::NoRoute))?;
        at = RouteId(u32::try_from(place).unwrap_or(u32::MAX));
        is_inside = true;
    }
}

/// The route of a request that comes from inside of the listener: by its path, or by the place of the route.
///
/// # Errors
/// As [`find`], and when there is none.
pub(in crate::exchange) fn find_inside<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: Option<usize>,
) -> Result<Option<RouteId>, Ended> {
    context.exchange.rerouting_mut().count()?;
    let mut next = place.map(|place| RouteId(u32::try_from(place).unwrap_or(u32::MAX)));
    loop {
        let Some(found) = next.take().or_else(|| look_up(context)) else { return Ok(None) };
        match enter(context, found, true)? {
            Entered::Here(route) => return Ok(Some(route)),
            Entered::OtherPath => {}
            Entered::Nowhere => return Ok(None),
        }
    }
}

/// Leaves the phases, for a redirect.
fn redirect<T, S, U>(context: &mut Context<'_, S, U>, status: u16, location: Vec<u8>) -> Result<T, Ended> {
    context.exchange.rerouting_mut().next = Some(NextStep::Redirect(status, location));
    Err(Ended::Rerouted)
}
