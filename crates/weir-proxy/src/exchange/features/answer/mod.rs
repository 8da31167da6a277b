//! Answers that Weir gives itself: failures, redirects and fixed responses, on their way to the client.

pub(in crate::exchange) mod error_page;

use std::task::Poll;
use std::time::Duration;

use weir_config::{RouteAction, TemplateValue};
use weir_http::{FieldName, FieldWriter, Framing, Method};
use weir_observe::{Cause, Failure, Party, Phase, status_text};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::exchange::exchange_state::header_changes::{HeadChanges, has_values};
use crate::exchange::exchange_state::response::body_coding::BodyCoding;
use crate::exchange::exchange_state::response::response_outline::{OwnFields, ResponseOutline};
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::features::forwarded;
use crate::exchange::features::headers::fields;
use crate::exchange::features::headers::rewriting;
use crate::exchange::features::headers::rules::IncomingFacts;
use crate::exchange::features::{compression, cors, grpc};
use crate::exchange::phases::end::End;
use crate::exchange::phases::pacing;
use crate::exchange::placeholders::TemplateValues;
use crate::exchange::telemetry::trace;
use crate::net::clock;
use crate::relay::WaitingFor;
use crate::relay::ends::Source;
use crate::relay::failure::of_response_body;
use crate::relay::memory::{MemoryBody, MemoryTrailers};
use crate::responder::error_page::FetchedPage;
use crate::responder::grpc_failure::GrpcFailure;
use crate::responder::{Answer, failure_page, fixed, last_hop, redirect};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::{ListenerPlan, RoutePlan};

/// Answers with the page of a failure, that which was `fetched` if one was, or aborts the response if one has begun.
pub(in crate::exchange) async fn failure<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    (failure, fetched): (Failure, Option<FetchedPage>),
) -> End {
    context.exchange.record.failure = Some(failure);
    context.client.deadline.set_ceiling(None);
    let mut reported = failure;
    if context.exchange.answered {
        let broken = failure.party == Party::Server && matches!(failure.cause, Cause::Rule(_))
            || failure.cause == Cause::FramingViolation;
        // The body broke a rule before any of its head has left: to the client, that is no different from a bad head.
        if !broken || !context.stream.take_back() {
            if failure.party == Party::Client || context.client.deadline.is_cut() {
                return End::Aborted;
            }
            let has_ended = end_call(context, failure).await;
            return if has_ended { End::Done } else { End::CutShort };
        }
        reported.phase = Phase::Response;
    }
    if context.exchange.record.request_id.is_empty() {
        // A request that is refused before its head could be read has an id, too.
        forwarded::make_late_request_id(context);
        trace::begin_late(context, failure.phase);
    }
    let page = match context.exchange.grpc {
        None => {
            let accept = context.exchange.request.fields().first(FieldName::Accept);
            let accept = accept.map(|field| field.value.of(&context.exchange.request_text));
            let status = context.exchange.limits.status_of_refusal();
            let page = failure_page::answer(
                reported,
                &context.exchange.record.request_id,
                accept,
                context.exchange.retry_after,
                status,
            );

            page.map(|page| error_page::instead_of_own(context, (reported, page), fetched))
        }
        Some(call) => {
            GrpcFailure::from_failure(reported, &context.exchange.record.request_id).map(|failed| {
                context.exchange.grpc = Some(GrpcCall { status: Some(failed.status), ..call });
                failed.into_answer(grpc::fields::own_response_type(context.exchange))
            })
        }
    };
    let Some(mut page) = page else { return End::Closed };
    context.exchange.limits.write_refusal(&mut page, context.exchange.grpc.is_some());
    let ends = context.client.is_ending() || context.client.deadline.is_cut();
    let is_orderly = failure.party != Party::Client || authorization::is_about_credentials(failure.cause);
    if !is_orderly || !context.stream.discard_body(context.client) || ends {
        // After an error of the client it is uncertain where its next request begins.
        context.stream.close_after();
    }
    send(context, &page).await.map_or(End::Closed, |()| End::Done)
}

/// The status of the fixed response of a route that says nothing else, where the config has pages for failures: one of them is its body.
pub(crate) fn status_with_page(exchange: &Exchange, route: &RoutePlan) -> Option<u16> {
    let RouteAction::Respond(fixed) = &route.config.action else { return None };
    let has_page = fixed.body.is_empty() && fixed.status >= 400 && !route.config.error_pages.is_empty();
    let is_preflight = route.config.cors.is_some() && cors::is_preflight(exchange);
    (has_page && exchange.grpc.is_none() && !is_preflight).then_some(fixed.status)
}

/// Answers what needs no server: with the redirect or the fixed response of the route, or what a browser asks before a request of another
/// origin.
///
/// # Errors
/// When the client does not take the answer.
pub(in crate::exchange) async fn without_server<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    (route, fetched): (&RoutePlan, Option<FetchedPage>),
) -> Result<End, Ended> {
    let has_page = status_with_page(context.exchange, route).is_some();
    // What the values refer to is not kept while the answer is sent.
    let mut answer = {
        let values = TemplateValues::new(context, Some(route));
        let preflight = route.config.cors.as_ref().filter(|_| cors::is_preflight(context.exchange));
        match &route.config.action {
            _ if let Some(cors) = preflight => cors::answer_preflight(cors, context.exchange),
            RouteAction::Redirect(to) => {
                let values = TemplateValues { path_rewrite: to.rewrite.as_ref(), ..values };
                let write = |template: &_, out: &mut _| values.write_url(template, out);
                let answered = redirect::answer(to, write, |location| values.redirect_url(location));
                answered.ok_or(Failure::weir(Phase::Route, Cause::NoRoute))?
            }
            RouteAction::Respond(fixed) => {
                let write = |value: &TemplateValue, out: &mut Vec<u8>| values.write_one(value, out);
                fixed::answer(fixed, |template, out| values.write(template, out), write)
            }
            // No upstream is named by what chooses it.
            RouteAction::Split(_) => {
                return Err(Failure::weir(Phase::Route, Cause::UnknownUpstream).into());
            }
            RouteAction::Upstream(_) | RouteAction::Files(_) | RouteAction::Then(_) => {
                unreachable!("only routes without an upstream come here")
            }
        }
    };
    if has_page {
        answer = error_page::for_fixed(context, route, (answer, fetched));
    }
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    let sent = send(context, &answer).await;
    sent.map(|()| End::Done).map_err(Ended::Failed)
}

/// Passes on the answer of a server that has decided against the request.
///
/// # Errors
/// When the client does not take the answer.
pub(in crate::exchange) async fn pass_on<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    answer: &Answer<'_>,
) -> Result<End, Ended> {
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    let sent = send(context, answer).await;
    sent.map(|()| End::Done).map_err(Ended::Failed)
}

/// Answers a TRACE or OPTIONS that may go no further.
///
/// # Errors
/// When the client does not take the answer.
pub(in crate::exchange) async fn as_last_hop<U>(
    context: &mut Context<'_, impl ClientStream, U>,
) -> Result<End, Ended> {
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    let answer = last_hop::answer(context.exchange.request.method());
    let sent = send(context, &answer).await;
    sent.map(|()| End::Done).map_err(Ended::Failed)
}

/// Sends an answer.
pub(in crate::exchange) async fn send<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    answer: &Answer<'_>,
) -> Result<(), Failure> {
    stage_head(context, answer, answer.body.len() as u64);
    let is_head = context.exchange.request.method() == Method::Head;
    let body = if answer.may_have_body() && !is_head { &*answer.body } else { b"" };
    send_body(context, MemoryBody(body)).await
}

/// Sends the head of an answer, and `body` of `len` bytes behind it.
pub(in crate::exchange) async fn send_with<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    answer: &Answer<'_>,
    (len, body): (u64, impl Source),
) -> Result<(), Failure> {
    stage_head(context, answer, len);
    if context.exchange.request.method() == Method::Head {
        return send_body(context, MemoryBody(b"")).await;
    }
    send_body(context, body).await
}

/// Stages the head of an answer with a body of `len` bytes, with the changes that the route makes to the heads of responses; the listener
/// where there is no route.
fn stage_head<U>(context: &mut Context<'_, impl ClientStream, U>, answer: &Answer<'_>, len: u64) {
    let route = context.route();
    let listener_changes = &context.listener.config.response_headers;
    let (acts, changes) = match route {
        Some(route) => (route.changes_responses(), &route.config.response_headers),
        None => (!listener_changes.is_empty(), listener_changes),
    };
    let status = context.exchange.status_of_answer(answer.status);
    let length = answer.may_have_body().then_some(len);
    let framed = length.map_or(Framing::None, Framing::Length);
    let framed = framed.in_response(context.exchange.request.method(), status);
    context.exchange.response_relay.restart();
    context.exchange.limit_rate_as_kept();
    let content_type = answer.field(b"Content-Type");
    let own = OwnFields(&answer.fields, context.exchange.kept_fields(status, content_type));
    context.exchange.body_coding = BodyCoding::AsItIs;
    let (framed, length) = match route
        .filter(|route| route.acts_on_response_fields() && rewriting::body::is_wanted(route))
    {
        None => (framed, length),
        Some(route) => {
            let outline = ResponseOutline::new(status, context.exchange.request.method(), framed, length);
            let coding = rewriting::body::begin(context, (&context.config.snapshot, route), outline, &own);
            (coding.framing_for(framed), length.filter(|_| !coding.replaces_length()))
        }
    };
    let head = FinalHead {
        status: Status { code: status, reason: status_text(status).as_bytes() },
        content: Content::Body(framed, length),
        is_early: false,
        text: b"",
    };
    if acts && has_values(changes) {
        let mut rendered = std::mem::take(&mut context.exchange.rendered_headers);
        let values = TemplateValues { status, ..TemplateValues::new(context, route) };
        let (origin, fields) = (answer.origin, &own);
        let media_type = own.1.values("content-type").next().or(answer.media_type);
        rendered.render(changes, &IncomingFacts { values, origin, fields, media_type, age: Duration::ZERO });
        context.exchange.rendered_headers = rendered;
    }
    context.stream.respond(context.client, context.exchange, &head, |out| {
        let changes = HeadChanges::new(acts, changes, &context.exchange.rendered_headers);
        if changes.leave(b"Date") {
            out.field(b"Date", &context.client.worker.date(clock::now()));
        }
        fields::write_id(out, context.exchange, context.listener, changes);
        context.exchange.limits.write_levels(out, changes);
        // How long a failure may be kept, and what its page is, are not the matter of a route.
        let is_failure = context.exchange.record.failure.is_some();
        let passes = |name: &[u8]| {
            (is_failure || !changes.is_changed_away(name))
                && !compression::is_replaced(context.exchange.body_coding, name)
                && !own.1.replaces(name)
        };
        for (name, value) in answer.fields.iter().filter(|(name, _)| passes(name)) {
            out.field(name, value);
        }
        own.1.write(out, changes);
        write_of_failure(out, (context.exchange, context.listener), route, answer);
        compression::write(out, context.exchange, &own, changes);
        if let Some(cors) = route.and_then(|route| route.config.cors.as_ref()) {
            cors::write(out, cors, context.exchange);
        }
        fields::write_changes_of_response(out, changes, |name| !is_failure || answer.field(name).is_none());
    });
    context.exchange.record.is_own_answer = true;
    context.exchange.record.status = status;
    context.exchange.answered = true;
    context.exchange.waits.begin(&context.listener.client_wait_limits());
}

/// Adds what a client has to present, and how long it is to wait, after a failure: also in place of whose page the request has gone on.
fn write_of_failure(
    out: &mut impl FieldWriter,
    (exchange, listener): (&Exchange, &ListenerPlan),
    route: Option<&RoutePlan>,
    answer: &Answer<'_>,
) {
    let page = exchange.failed_page();
    let retry_after = page.and_then(|page| page.retry_after);
    if let Some(seconds) = retry_after.filter(|_| answer.field(b"Retry-After").is_none()) {
        out.decimal_field(b"Retry-After", seconds.into());
    }
    let asking = page.map_or(route, |page| page.route.map(|place| &listener.route_plans[place]));
    let access = asking.and_then(|route| route.config.access.as_deref());
    if let Some((access, failure)) = access.zip(exchange.record.failure) {
        authorization::write_challenge(out, access, failure.cause);
    }
}

/// Ends a gRPC call whose response has begun, with trailers that tell the failure. `false`: its response can only be cut short, since it is
/// none of gRPC, or its protocol cannot end it here: gRPC-Web not inside a message.
async fn end_call<U>(context: &mut Context<'_, impl ClientStream, U>, failure: Failure) -> bool {
    let relay = &context.exchange.response_relay;
    let is_open = (relay.has_filter() || context.stream.ends_anywhere()) && relay.may_end();
    let is_call =
        context.exchange.response.status() == 200 && context.exchange.response.content_length().is_none();
    let Some(call) = context.exchange.grpc.as_mut().filter(|_| is_open && is_call) else { return false };
    let failed = GrpcFailure::of_broken_response(failure);
    call.status = Some(failed.status);
    context.exchange.waits.begin(&context.listener.client_wait_limits());
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    send_body(context, MemoryTrailers(&failed.fields)).await.is_ok()
}

/// Sends what follows a head of Weir's own, or what it adds to a response.
async fn send_body<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    mut source: impl Source,
) -> Result<(), Failure> {
    std::future::poll_fn(|cx| {
        let polled = context.exchange.response_relay.poll(cx, &mut source, &mut context.stream.reply());
        match polled {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|error| of_response_body(&error))),
            Poll::Pending => {
                let (awaited, moved) = match context.exchange.response_relay.waiting {
                    WaitingFor::Turn => return pacing::poll_turn(cx, context).map(Err),
                    WaitingFor::Sink => (Activity::ClientTakes, context.stream.taken()),
                    WaitingFor::Source => (Activity::Disk, context.exchange.response_relay.taken()),
                };
                context.report(awaited);
                context.poll_over(awaited, moved).map(Err)
            }
        }
    })
    .await
}
