//! The way on of a request that a feature of its route has sent elsewhere: to another path, another route, or back to its client with a redirect.

use weir_config::Stage;
use weir_observe::{Cause, Failure, Phase};

use super::{before_server, request_head};
use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::plans::MatchedRoute;
use crate::exchange::exchange_state::rerouting::NextStep;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer::error_page;
use crate::exchange::features::error_pages::{lead_on, remote_page};
use crate::exchange::features::{access_lists, answer};
use crate::exchange::phases::end::End;
use crate::exchange::placeholders::TemplateValues;
use crate::exchange::rerouting::{find, rewrites};
use crate::responder::Answer;
use crate::upstream::stream::Servers;

/// The route that the request goes on with.
///
/// # Errors
/// As [`find::find`], and when that route does not take the request.
#[cold]
#[inline(never)]
pub(in crate::exchange) fn route<'a, U>(
    context: &mut Context<'a, impl ClientStream, U>,
) -> Result<MatchedRoute<'a>, Ended> {
    let next = context.exchange.rerouting_mut().next.take();
    leave_route(context);
    let place = match next {
        Some(NextStep::Route(place)) => Some(place),
        Some(NextStep::TargetOn(place, target)) => {
            rewrites::replace_target(context, &target)?;
            Some(place)
        }
        Some(NextStep::Target(target)) => {
            rewrites::replace_target(context, &target)?;
            None
        }
        Some(NextStep::Redirect(..) | NextStep::PageRedirect(..) | NextStep::Status(_)) | None => {
            return Err(Failure::weir(Phase::Route, Cause::BadRewrite).into());
        }
    };
    let found = find::find_inside(context, place)?;
    let Some(id) = found else {
        context.exchange.record.route = None;
        return Err(Failure::weir(Phase::Route, Cause::NoRoute).into());
    };
    let matched = request_head::enter(context, &context.listener.route_plans[id.index()])?;
    // A server does not know what the client has to present (RFC 9110 section 11.6.1).
    let failure = context.exchange.failed_page().and_then(|page| page.failure);
    match failure.filter(|failure| authorization::is_about_credentials(failure.cause)) {
        Some(failure) if matched.upstream.is_some() => Err(failure.into()),
        _ => Ok(matched),
    }
}

/// Forgets what the route that is left has found out or begun. What it has counted is not counted again.
fn leave_route<S, U>(context: &mut Context<'_, S, U>) {
    if let Some(at) = context.exchange.record.route {
        let way = context.exchange.rerouting_mut();
        way.left.push(at);
        way.matched_path = None;
    }
    let exchange = &mut *context.exchange;
    if exchange.limits.is_asked() {
        let asked = std::mem::take(&mut exchange.limits.asked);
        exchange.rerouting_mut().asked.extend(asked.into_iter().map(|(plan, _)| plan));
        exchange.limits.tag.clear();
    }
    let (attempts, now) = (exchange.record.attempts, exchange.record.accounted);
    exchange.rerouting_mut().before = Some((attempts, now));
    exchange.note_tried();
    exchange.begin_again();
}

/// Answers the client itself, where that is the step; `None`: the step is another route.
///
/// # Errors
/// When the request is refused, or the client does not take the answer.
pub(in crate::exchange) async fn answer(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
) -> Result<Option<End>, Ended> {
    match context.exchange.rerouting_mut().next.take() {
        Some(NextStep::Redirect(status, location)) => redirect(context, status, location).await.map(Some),
        Some(NextStep::PageRedirect(status, location)) => {
            let location = TemplateValues::new(context, context.route()).redirect_url(location);
            let answered = Answer::new(status).with(b"Location", location);
            answer::pass_on(context, &answered).await.map(Some)
        }
        Some(NextStep::Status(status)) => with_status(context, status).await.map(Some),
        next => {
            context.exchange.rerouting_mut().next = next;
            Ok(None)
        }
    }
}

/// Redirects the client, once lists, limits and authentication of the route have let the request pass.
async fn redirect(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    status: u16,
    location: Vec<u8>,
) -> Result<End, Ended> {
    if let Some(seconds) = context.listener.state.maintenance() {
        context.exchange.retry_after = Some(seconds);
        return Err(Failure::weir(Phase::Route, Cause::Maintenance).into());
    }
    match context.route() {
        Some(route) => {
            let matched = MatchedRoute { route, target: route, upstream: None };
            if let Some(end) = before_server::pass_until(context, matched, Stage::Identity).await? {
                return Ok(end);
            }
        }
        None => {
            if let Some(rules) = context.listener.rules.as_ref() {
                access_lists::pass_without_route(context, rules)?;
            }
        }
    }
    let location = TemplateValues::new(context, context.route()).redirect_url(location);
    answer::pass_on(context, &Answer::new(status).with(b"Location", location)).await
}

/// Answers with a status, and its page where the config has one.
async fn with_status(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    status: u16,
) -> Result<End, Ended> {
    let Some(route) = context.route() else { return Err(Failure::weir(Phase::Route, Cause::NoRoute).into()) };
    if let Some((page, step)) = lead_on::step_for(context, (Some(route), &route.config.error_pages), status)
        && lead_on::is_possible(context, step)
    {
        lead_on::begin(context, (Some(route), page, step), (status, None));
        return Err(Ended::Rerouted);
    }
    let fetched = match status {
        400.. => Box::pin(remote_page::for_fixed(context, (route, status))).await,
        _ => None,
    };
    let answered = error_page::for_fixed(context, route, (Answer::new(status), fetched));
    answer::pass_on(context, &answered).await
}
