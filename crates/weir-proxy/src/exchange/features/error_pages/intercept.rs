//! Pages of the config in place of responses of servers, where that is wanted of their status.

use std::future::poll_fn;
use std::task::Poll;

use weir_config::{ErrorPage, ErrorStep, Feature, PageText, Stage};
use weir_observe::status_text;

use super::lead_on;
use super::remote_page;
use super::remote_page::PageScope;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::answer::error_page::{body, format_for, with_new_status};
use crate::exchange::phases::end::End;
use crate::exchange::phases::{finish, respond};
use crate::relay::Relay;
use crate::relay::memory::NullSink;
use crate::responder::Answer;
use crate::responder::error_page::{FetchedPage, PageValues, page_of};
use crate::upstream::stream::{ServerStream, Servers};

/// Fields of a server that a client needs to understand its status (RFC 9110 sections 11.6.1, 10.2.3 and 10.2.1).
const KEPT: [&str; 3] = ["WWW-Authenticate", "Retry-After", "Allow"];

/// Whether the response of the server has a status for which there are pages, and is to be replaced.
fn is_wanted(exchange: &Exchange, plans: Plans<'_>) -> bool {
    let pages = &plans.route.config.error_pages;
    let is_for = |page: &ErrorPage| page.of_servers && page.is_for(exchange.response.status());
    // What a call of gRPC fails with is a matter of its own.
    !pages.is_empty() && exchange.grpc.is_none() && pages.iter().any(is_for)
}

/// The page of a file that is sent in place of the response of the server; `None` when there is none in this format.
pub(in crate::exchange) fn page<'a>(exchange: &Exchange, plans: Plans<'a>) -> Option<&'a PageText> {
    page_of(&plans.route.config.error_pages, exchange.response.status(), format_for(exchange))
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
pub(in crate::exchange) async fn find<'a>(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    plans: Plans<'a>,
) -> Replacement<'a> {
    if !is_wanted(context.exchange, plans) {
        return Replacement::None;
    }
    acting::note(Stage::ResponseHead, Feature::ErrorPages);
    let (Plans { config, route, .. }, listener) = (plans, context.listener);
    let (scope, status) =
        (PageScope { config, listener, route: Some(route) }, context.exchange.response.status());
    let pages = &plans.route.config.error_pages;
    if let Some((page, step)) = lead_on::step_for(pages, status) {
        let can_go_on = lead_on::is_possible(context, step);
        return if can_go_on { Replacement::GoesOn(page, step) } else { Replacement::None };
    }
    let text = page(context.exchange, plans).map(InterceptPage::Text).map(Replacement::Page);
    let Some(remote) = scope.remote(status) else { return text.unwrap_or(Replacement::None) };
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
    (mut responding, page): (RespondingServer<U::Stream>, InterceptPage<'_>),
) -> Result<End, Ended> {
    respond::account(context, plans, &responding);
    let status = context.exchange.response.status();
    let (fields, text) = (context.exchange.response.fields(), responding.server.head());
    let kept = KEPT.map(|name| fields.get_by_name(text, name).map(|field| field.value.of(text).to_vec()));
    let mut answer = Answer::new(status).with(b"Cache-Control", &b"no-store"[..]);
    answer = match page {
        InterceptPage::Fetched(page) => page.instead_of(answer),
        InterceptPage::Text(page) => {
            let format = format_for(context.exchange);
            let values = PageValues { status, detail: status_text(status), reason: "" };
            answer.body = body(context, Some(plans.route), (page, format, values)).into();
            answer.with(b"Content-Type", format.content_type().as_bytes())
        }
    };
    answer = with_new_status(&plans.route.config.error_pages, answer);
    for (name, value) in KEPT.iter().zip(kept) {
        if let Some(value) = value {
            answer = answer.with(name.as_bytes(), value);
        }
    }
    let is_read = read_out(context, plans, &mut responding).await;
    if is_read && context.exchange.request_relay.is_done() {
        finish::run(context, plans, responding);
    } else {
        context.exchange.record.sent_to_server += responding.server.sent();
        context.servers.drop_stream(responding.server);
    }
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    answer::send(context, &answer).await.map_err(Ended::Failed)?;
    Ok(End::Done)
}

/// Lets go of a response in place of which the request goes on elsewhere.
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
