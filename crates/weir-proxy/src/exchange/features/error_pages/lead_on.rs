//! Error pages that are another route, or a redirect: the request goes on in place of the page.
//!
//! Once for each request: what fails on that way has a page of Weir's own, or of a file.

use weir_config::{DotSegments, ErrorPage, ErrorStep, RouteTarget, clean_path};
use weir_observe::{Failure, Party, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::rerouting::{FailedPage, NextStep};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer::error_page::find_page;
use crate::exchange::placeholders::TemplateValues;
use crate::net::buffer::MEMORY_KEPT_MAX;
use crate::state::snapshot::RoutePlan;

/// The step in place of the page of a status, if it has one.
pub(in crate::exchange) fn step_for<'a, U>(
    context: &Context<'_, impl ClientEnd, U>,
    (route, pages): (Option<&RoutePlan>, &'a [ErrorPage]),
    status: u16,
) -> Option<(&'a ErrorPage, &'a ErrorStep)> {
    if pages.iter().all(|page| page.then.is_none()) {
        return None;
    }
    let page = find_page(pages, &TemplateValues { status, ..TemplateValues::new(context, route) })?;
    Some((page, page.then.as_ref()?))
}

/// Whether the request goes on elsewhere in place of the page of its failure; then the exchange says where.
#[cold]
pub(in crate::exchange) fn instead_of_failure<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    failure: Failure,
) -> bool {
    let exchange = &*context.exchange;
    let is_about_credentials = authorization::is_about_credentials(failure.cause);
    let has_head = failure.phase > Phase::Request && !exchange.request_text.is_empty();
    let has_client = failure.party != Party::Client || is_about_credentials || failure.phase == Phase::Route;
    if !has_head
        || !has_client
        || exchange.answered
        || exchange.grpc.is_some()
        || context.client.deadline.is_cut()
    {
        return false;
    }
    let Some(status) = exchange.limits.status_of_refusal().or(failure.status()) else { return false };
    let route = context.route();
    let pages = route.map_or(&context.listener.config.error_pages, |route| &route.config.error_pages);
    let Some((page, step)) = step_for(context, (route, pages), status) else { return false };
    if !is_possible(context, step) {
        return false;
    }
    begin(context, (route, page, step), (status, Some(failure)));
    true
}

/// Whether a request goes on with all of its body, so that nothing of that has to be dropped.
pub(in crate::exchange) fn keeps_body<S, U>(context: &Context<'_, S, U>, step: &ErrorStep) -> bool {
    match step {
        ErrorStep::Redirect(_) => true,
        ErrorStep::Target { target, .. } => {
            matches!(target, RouteTarget::Route(_)) && context.exchange.replay_buffer.is_whole()
        }
    }
}

/// Whether a request may go on in place of a page: once, to a route that is there, and with a body that is whole.
pub(in crate::exchange) fn is_possible<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    step: &ErrorStep,
) -> bool {
    if context.exchange.failed_page().is_some() || !context.exchange.has_path() {
        return false;
    }
    match step {
        ErrorStep::Redirect(_) => true,
        ErrorStep::Target { target: RouteTarget::Route(name), .. } => {
            let is_whole = context.exchange.replay_buffer.is_whole();
            context.listener.route_named(name).is_some()
                && (is_whole || context.stream.discard_body(context.client))
        }
        ErrorStep::Target { .. } => context.stream.discard_body(context.client),
    }
}

/// Sends the request on in place of a page, where that [is possible](is_possible).
pub(in crate::exchange) fn begin<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    (route, page, step): (Option<&RoutePlan>, &ErrorPage, &ErrorStep),
    (status, failure): (u16, Option<Failure>),
) {
    context.exchange.note_tried();
    let (next, sent) = match step {
        ErrorStep::Redirect(to) => {
            let location = render(context, route, status, to);
            (NextStep::PageRedirect(page.new_status.unwrap_or(302), location), None)
        }
        ErrorStep::Target { target, has_own_status } => {
            let next = match target {
                RouteTarget::Route(name) => {
                    NextStep::Route(context.listener.route_named(name).unwrap_or_default())
                }
                RouteTarget::Path(path) => match clean_path(&render(context, route, status, path)) {
                    Ok(target) => NextStep::Target(target),
                    // Text of the client leads elsewhere: there is no page for that.
                    Err(DotSegments) => NextStep::Status(page.new_status.unwrap_or(status)),
                },
            };
            take_body(context, matches!(target, RouteTarget::Route(_)));
            (next, (!has_own_status).then_some(page.new_status.unwrap_or(status)))
        }
    };
    let (retry_after, of_route) = (context.exchange.retry_after, context.exchange.record.route);
    let refusal = context.exchange.limits.refusal();
    let rerouting = context.exchange.rerouting_mut();
    rerouting.next = Some(next);
    rerouting.page =
        Some(FailedPage { failure, replaced: status, status: sent, route: of_route, retry_after, refusal });
    context.exchange.record.failure = failure;
    // The time of the exchange may be over; that of its page begins.
    context.client.deadline.set_ceiling(None);
}

fn render<U>(
    context: &Context<'_, impl ClientStream, U>,
    route: Option<&RoutePlan>,
    status: u16,
    template: &weir_config::Template,
) -> Vec<u8> {
    let mut out = Vec::new();
    let values = TemplateValues { status, ..TemplateValues::new(context, route) };
    values.write_url(template, &mut out);
    out
}

/// Prepares the body for another route: it is sent whole where it can be, and else the request becomes a GET.
pub(in crate::exchange) fn take_body<S, U>(context: &mut Context<'_, S, U>, keeps_method: bool) {
    let exchange = &mut *context.exchange;
    if keeps_method && exchange.replay_buffer.is_whole() {
        exchange.request.drop_conditions(&mut exchange.request_text);
    } else {
        exchange.replay_buffer.reset(MEMORY_KEPT_MAX);
        exchange.request.become_get(&mut exchange.request_text);
    }
    exchange.rewind();
}
