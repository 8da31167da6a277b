//! Pages of the config in place of responses of servers, where that is wanted of their status.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use weir_config::{ErrorPage, ErrorStep, Feature, PageText, Stage};
use weir_http::Fields;
use weir_observe::status_text;
use weir_traffic::ServerId;

use super::lead_on;
use super::remote_page;
use super::remote_page::PageScope;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::response::kept_fields::{EXPLAINING, KeptResponse};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::answer::error_page::{body, find_page, format_for, with_new_status};
use crate::exchange::phases::end::End;
use crate::exchange::phases::{finish, respond};
use crate::exchange::placeholders::TemplateValues;
use crate::relay::Relay;
use crate::relay::memory::NullSink;
use crate::responder::Answer;
use crate::responder::error_page::{FetchedPage, PageValues, page_of};
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::{ServerStream, Servers};

/// Whether there is something in place of the response of the server.
pub(in crate::exchange) fn is_wanted<U>(
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    response: (ServerId, &[u8]),
) -> bool {
    wanted_page(context, plans, response).is_some()
}

/// The entry for the status of the response of the server, if such responses are replaced.
fn wanted_page<'a, U>(
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'a>,
    (server, head): (ServerId, &[u8]),
) -> Option<&'a ErrorPage> {
    let (exchange, pages) = (&context.exchange, &plans.route.config.error_pages);
    let status = exchange.response.status();
    // What a call of gRPC fails with is a matter of its own.
    if exchange.grpc.is_some() || !pages.iter().any(|page| page.of_servers && page.is_for(status)) {
        return None;
    }
    let values = TemplateValues::for_attempt(context, plans, server);
    let values = TemplateValues { response: Some((exchange.response.fields(), head)), status, ..values };
    find_page(pages, &values)
}

/// What is sent in place of a response.
pub(in crate::exchange) enum Replacement<'a> {
    /// Nothing: it passes.
    None,
    /// A page of another server would have been, and cannot be had: it passes as it comes.
    Missing,
    Page(InterceptPage<'a>),
    /// The request goes on elsewhere.
    GoesOn(&'a ErrorPage, &'a ErrorStep),
}

/// The page in place of the response of the server, which is fetched if another server has it.
pub(in crate::exchange) async fn find<'a, U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'a>,
    responding: &RespondingServer<U::Stream>,
) -> Replacement<'a> {
    let response = (responding.slot.server, responding.server.head());
    let Some(entry) = wanted_page(context, plans, response) else { return Replacement::None };
    acting::note(Stage::ResponseHead, Feature::ErrorPages);
    let (Plans { config, route, .. }, listener) = (plans, context.listener);
    let (scope, status) =
        (PageScope { config, listener, route: Some(route) }, context.exchange.response.status());
    if let Some(step) = &entry.then {
        // While the server takes the body, none of it is dropped: if the response passes in the end, that goes on.
        let is_taken = context.exchange.request_relay.is_done() || responding.send_failed;
        let can_go_on =
            (is_taken || lead_on::keeps_body(context, step)) && lead_on::is_possible(context, step);
        return if can_go_on { Replacement::GoesOn(entry, step) } else { Replacement::None };
    }
    let text = page_of(entry, format_for(context.exchange)).map(InterceptPage::Text).map(Replacement::Page);
    let Some(remote) = &entry.remote else { return text.unwrap_or(Replacement::None) };
    match Box::pin(remote_page::fetch(context, scope, (remote, status))).await {
        Some(page) => Replacement::Page(InterceptPage::Fetched(page)),
        None => text.unwrap_or(Replacement::Missing),
    }
}

/// A page in place of a response.
pub(in crate::exchange) enum InterceptPage<'a> {
    /// Of a file.
    Text(&'a PageText),
    /// Of another server.
    Fetched(FetchedPage),
}

/// Sends a page in place of the response of the server, of which the status and what explains it stay.
pub(in crate::exchange) async fn run<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    (responding, page): (RespondingServer<U::Stream>, InterceptPage<'_>),
) -> Result<End, Ended> {
    respond::account(context, plans, &responding);
    let status = context.exchange.response.status();
    let explaining = explaining_fields(context.exchange.response.fields(), responding.server.head());
    let response = (responding.slot.server, responding.server.head());
    let entry = wanted_page(context, plans, response);
    let answer = answer_of(context, plans.route, (entry, page, status), explaining);
    drop_response(context, plans, responding).await;
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    answer::send(context, &answer).await.map_err(Ended::Failed)?;
    Ok(End::Done)
}

/// The answer with a page in place of a response with this status.
pub(super) fn answer_of<'a, U>(
    context: &Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
    (entry, page, status): (Option<&ErrorPage>, InterceptPage<'_>, u16),
    explaining: Vec<(&'static [u8], Vec<u8>)>,
) -> Answer<'a> {
    let mut answer = Answer::new(status).with(b"Cache-Control", &b"no-store"[..]);
    answer = match page {
        InterceptPage::Fetched(page) => page.instead_of(answer),
        InterceptPage::Text(page) => {
            let format = format_for(context.exchange);
            let values = PageValues { status, detail: status_text(status), reason: "" };
            answer.body = body(context, Some(route), (page, format, values)).into();
            answer.with(b"Content-Type", format.content_type().as_bytes())
        }
    };
    answer = with_new_status(entry, answer);
    explaining.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value))
}

/// The fields of a response that a client needs to understand its status.
pub(super) fn explaining_fields(fields: &Fields, head: &[u8]) -> Vec<(&'static [u8], Vec<u8>)> {
    let lines = fields.iter().filter_map(|field| {
        let name = EXPLAINING.iter().find(|name| field.name.of(head).eq_ignore_ascii_case(name))?;
        Some((*name, field.value.of(head).to_vec()))
    });
    lines.collect()
}

/// Has these fields of a response go with the page in place of it, where that has its status.
pub(in crate::exchange) fn keep_explanation(exchange: &mut Exchange, step: &ErrorStep, head: &[u8]) {
    let explaining = explaining_fields(exchange.response.fields(), head);
    keep_explaining(exchange, step, &explaining);
}

/// The same, of these fields.
pub(super) fn keep_explaining(
    exchange: &mut Exchange,
    step: &ErrorStep,
    explaining: &[(&'static [u8], Vec<u8>)],
) {
    if explaining.is_empty() || !matches!(step, ErrorStep::Target { has_own_status: false, .. }) {
        return;
    }
    let rerouting = exchange.rerouting_mut();
    let mut kept = rerouting.kept.as_deref().map(KeptResponse::of_earlier).unwrap_or_default();
    explaining.iter().for_each(|(name, value)| kept.keep_explaining(name, value));
    rerouting.kept = Some(Rc::new(kept));
}

/// Lets go of a response that the client does not get; its connection is kept where all of it is here.
pub(in crate::exchange) async fn drop_response<S, U: Servers>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    mut responding: RespondingServer<U::Stream>,
) {
    let is_read = read_out(context, plans, &mut responding).await;
    if is_read && context.exchange.request_relay.is_done() {
        finish::run(context, plans, responding);
    } else {
        context.exchange.record.sent_to_server += responding.server.sent();
        context.servers.drop_stream(responding.server);
    }
}

/// Takes what is here of a body that the client does not get; whether that was all.
pub(in crate::exchange) async fn read_out<T: ServerStream, S, U>(
    context: &Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
) -> bool {
    let method = context.exchange.request.method();
    responding.server.begin_body(&context.exchange.response, method, plans.upstream.chunked_limits);
    responding.server.take_head();
    let (mut relay, stock) = (Relay::new(), &context.client.worker.stock);
    poll_fn(|cx| {
        let polled = responding.server.poll_response(cx, &mut relay, &mut NullSink, stock);
        Poll::Ready(matches!(polled, Poll::Ready(Ok(()))))
    })
    .await
}
