//! Answers that Weir gives itself: failures, redirects and fixed responses, on their way to the client.

use std::task::Poll;

use weir_config::{RouteAction, TemplateValue};
use weir_http::{FieldName, FieldWriter as _, Framing, Method};
use weir_observe::{Cause, Failure, Party, Phase, status_text};

use super::end::End;
use super::{error_page, pacing};
use crate::exchange::exchange_state::body_coding::BodyCoding;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::grpc_call::GrpcCall;
use crate::exchange::exchange_state::header_changes::{has_values, leave};
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::exchange_state::{authorization, header_changes};
use crate::exchange::forwarded;
use crate::exchange::heads::compression::{OwnFields, ResponseOutline};
use crate::exchange::heads::placeholders::TemplateValues;
use crate::exchange::heads::{compression, cors, fields, grpc};
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
use crate::state::snapshot::RoutePlan;

/// Answers with the page of a failure, that which was `fetched` if one was, or aborts the response if one has begun.
pub(crate) async fn failure(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    (failure, fetched): (Failure, Option<FetchedPage>),
) -> End {
    exchange.record.failure = Some(failure);
    client.deadline.set_ceiling(None);
    let mut reported = failure;
    if exchange.answered {
        let broken = failure.party == Party::Server && matches!(failure.cause, Cause::Rule(_))
            || failure.cause == Cause::FramingViolation;
        // The body broke a rule before any of its head has left: to the client, that is no different from a bad head.
        if !broken || !stream.take_back() {
            if failure.party == Party::Client || client.deadline.is_cut() {
                return End::Aborted;
            }
            let has_ended = end_call(client, stream, exchange, failure).await;
            return if has_ended { End::Done } else { End::CutShort };
        }
        reported.phase = Phase::Response;
    }
    if exchange.record.request_id.is_empty() {
        // A request that is refused before its head could be read has an id, too.
        let config = exchange.record.begin_config(client);
        let listener = &config.snapshot.listeners[exchange.record.listener()];
        forwarded::make_late_request_id(client, exchange, listener);
        trace::begin_late(client, exchange, &config, failure.phase);
    }
    let page = match exchange.grpc {
        None => {
            let accept = exchange.request.fields().first(FieldName::Accept);
            let accept = accept.map(|field| field.value.of(&exchange.request_text));
            let status = exchange.limited.status_of_refusal();
            let page = failure_page::answer(
                reported,
                &exchange.record.request_id,
                accept,
                exchange.retry_after,
                status,
            );
            // That of the request: one of a newer config may have other routes.
            let config = exchange.record.begin_config(client);
            let listener = &*config.snapshot.listeners[exchange.record.listener()];
            page.map(|page| {
                error_page::instead_of_own(client, stream, exchange, listener, (reported, page), fetched)
            })
        }
        Some(call) => GrpcFailure::from_failure(reported, &exchange.record.request_id).map(|failed| {
            exchange.grpc = Some(GrpcCall { status: Some(failed.status), ..call });
            failed.into_answer(grpc::fields::own_response_type(exchange))
        }),
    };
    let Some(mut page) = page else { return End::Closed };
    exchange.limited.write_refusal(&mut page, exchange.grpc.is_some());
    let ends = client.is_ending() || client.deadline.is_cut();
    let is_orderly = failure.party != Party::Client || authorization::is_about_credentials(failure.cause);
    if !is_orderly || !stream.discard_body(client) || ends {
        // After an error of the client it is uncertain where its next request begins.
        stream.close_after();
    }
    send(client, stream, exchange, &page).await.map_or(End::Closed, |()| End::Done)
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
pub(crate) async fn without_server(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    (route, fetched): (&RoutePlan, Option<FetchedPage>),
) -> Result<End, Ended> {
    let config = exchange.record.begin_config(client);
    let listener = &*config.snapshot.listeners[exchange.record.listener()];
    let has_page = status_with_page(exchange, route).is_some();
    // What the values refer to is not kept while the answer is sent.
    let mut answer = {
        let values = TemplateValues::of_request(client, stream, exchange, listener, Some(route));
        let preflight = route.config.cors.as_ref().filter(|_| cors::is_preflight(exchange));
        match &route.config.action {
            _ if let Some(cors) = preflight => cors::answer_preflight(cors, exchange),
            RouteAction::Redirect(to) => {
                let values = TemplateValues { path_rewrite: to.rewrite.as_ref(), ..values };
                redirect::answer(to, |template, out| values.write_url(template, out))
            }
            RouteAction::Respond(fixed) => {
                let write = |value: &TemplateValue, out: &mut Vec<u8>| values.write_one(value, out);
                fixed::answer(fixed, |template, out| values.write(template, out), write)
            }
            RouteAction::Upstream(_) | RouteAction::Split(_) | RouteAction::Files(_) => {
                unreachable!("only routes without an upstream come here")
            }
        }
    };
    if has_page {
        answer = error_page::of_fixed(client, stream, exchange, (listener, route), (answer, fetched));
    }
    if !stream.discard_body(client) {
        stream.close_after();
    }
    let sent = send(client, stream, exchange, &answer).await;
    sent.map(|()| End::Done).map_err(Ended::Failed)
}

/// Passes on the answer of a server that has decided against the request.
///
/// # Errors
/// When the client does not take the answer.
pub(crate) async fn of_other(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    answer: &Answer<'_>,
) -> Result<End, Ended> {
    if !stream.discard_body(client) {
        stream.close_after();
    }
    let sent = send(client, stream, exchange, answer).await;
    sent.map(|()| End::Done).map_err(Ended::Failed)
}

/// Answers a TRACE or OPTIONS that may go no further.
///
/// # Errors
/// When the client does not take the answer.
pub(crate) async fn as_last_hop(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
) -> Result<End, Ended> {
    if !stream.discard_body(client) {
        stream.close_after();
    }
    let answer = last_hop::answer(exchange.request.method());
    let sent = send(client, stream, exchange, &answer).await;
    sent.map(|()| End::Done).map_err(Ended::Failed)
}

/// Sends an answer.
pub(in crate::exchange) async fn send(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    answer: &Answer<'_>,
) -> Result<(), Failure> {
    stage_head(client, stream, exchange, answer, answer.body.len() as u64);
    let is_head = exchange.request.method() == Method::Head;
    let body = if answer.may_have_body() && !is_head { &*answer.body } else { b"" };
    send_body(client, stream, exchange, MemoryBody(body)).await
}

/// Sends the head of an answer, and `body` of `len` bytes behind it.
pub(in crate::exchange) async fn send_with(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    answer: &Answer<'_>,
    (len, body): (u64, impl Source),
) -> Result<(), Failure> {
    stage_head(client, stream, exchange, answer, len);
    if exchange.request.method() == Method::Head {
        return send_body(client, stream, exchange, MemoryBody(b"")).await;
    }
    send_body(client, stream, exchange, body).await
}

/// Stages the head of an answer with a body of `len` bytes, with the changes that the route makes to the heads of responses; the listener
/// where there is no route.
fn stage_head(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    answer: &Answer<'_>,
    len: u64,
) {
    let config = exchange.record.begin_config(client);
    let listener = &*config.snapshot.listeners[exchange.record.listener()];
    let route = exchange.record.route.map(|index| &listener.route_plans[index]);
    let changes = route.map_or(&listener.config.response_headers, |route| &route.config.response_headers);
    let length = answer.may_have_body().then_some(len);
    let framed = length.map_or(Framing::None, Framing::Length);
    let framed = framed.in_response(exchange.request.method(), answer.status);
    exchange.response_relay.restart();
    exchange.body_coding = BodyCoding::AsItIs;
    let (framed, length) = match route.filter(|route| route.config.compression.is_some()) {
        None => (framed, length),
        Some(route) => {
            let outline = ResponseOutline::new(answer.status, exchange.request.method(), framed, length);
            let own = OwnFields(&answer.fields);
            let coding = compression::begin(client, exchange, (&config.snapshot, route), outline, &own);
            (coding.of(framed), length.filter(|_| !coding.replaces_length()))
        }
    };
    let head = FinalHead {
        status: Status { code: answer.status, reason: status_text(answer.status).as_bytes() },
        content: Content::Body(framed, length),
        is_early: false,
        text: b"",
    };
    if has_values(changes) {
        let mut rendered = std::mem::take(&mut exchange.rendered_headers);
        let values = TemplateValues::of_request(client, stream, exchange, listener, route);
        let values = TemplateValues { status: answer.status, ..values };
        rendered.render(changes, |template, out| values.write(template, out));
        exchange.rendered_headers = rendered;
    }
    stream.respond(client, exchange, &head, |out| {
        if leave(changes, b"Date") {
            out.field(b"Date", &client.worker.date(clock::now()));
        }
        fields::write_id(out, exchange, listener, changes);
        exchange.limited.write_levels(out, changes);
        // How long a failure may be kept, and what its page is, are not the matter of a route.
        let is_failure = exchange.record.failure.is_some();
        let passes = |name: &[u8]| {
            (is_failure || leave(changes, name)) && !compression::is_replaced(exchange.body_coding, name)
        };
        for (name, value) in answer.fields.iter().filter(|(name, _)| passes(name)) {
            out.field(name, value);
        }
        if let Some((access, failure)) =
            route.and_then(|route| route.config.access.as_deref()).zip(exchange.record.failure)
        {
            authorization::write_challenge(out, access, failure.cause);
        }
        compression::write(out, exchange, &OwnFields(&answer.fields), changes);
        if let Some(cors) = route.and_then(|route| route.config.cors.as_ref()) {
            cors::write(out, cors, exchange);
        }
        header_changes::write_changes(out, changes, &exchange.rendered_headers, |name| {
            !is_failure || answer.field(name).is_none()
        });
    });
    exchange.record.is_own_answer = true;
    exchange.record.status = answer.status;
    exchange.answered = true;
    exchange.waits.begin(&listener.client_wait_limits());
}

/// Ends a gRPC call whose response has begun, with trailers that tell the failure. `false`: its response can only be cut short, since it is
/// none of gRPC, or its protocol cannot end it here: gRPC-Web not inside a message.
async fn end_call(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    failure: Failure,
) -> bool {
    let relay = &exchange.response_relay;
    let is_open = (relay.has_filter() || stream.ends_anywhere()) && relay.may_end();
    let is_call = exchange.response.status() == 200 && exchange.response.content_length().is_none();
    let Some(call) = exchange.grpc.as_mut().filter(|_| is_open && is_call) else { return false };
    let failed = GrpcFailure::of_broken_response(failure);
    call.status = Some(failed.status);
    let config = exchange.record.begin_config(client);
    let listener = &*config.snapshot.listeners[exchange.record.listener()];
    exchange.waits.begin(&listener.client_wait_limits());
    if !stream.discard_body(client) {
        stream.close_after();
    }
    send_body(client, stream, exchange, MemoryTrailers(&failed.fields)).await.is_ok()
}

/// Sends what follows a head of Weir's own, or what it adds to a response.
async fn send_body(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    mut source: impl Source,
) -> Result<(), Failure> {
    std::future::poll_fn(|cx| {
        let polled = exchange.response_relay.poll(cx, &mut source, &mut stream.reply());
        match polled {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|error| of_response_body(&error))),
            Poll::Pending => {
                let (awaited, moved) = match exchange.response_relay.waiting {
                    WaitingFor::Turn => return pacing::poll_turn(cx, client, stream, exchange).map(Err),
                    WaitingFor::Sink => (Activity::ClientTakes, stream.taken()),
                    WaitingFor::Source => (Activity::Disk, exchange.response_relay.taken()),
                };
                client.report(awaited, stream, exchange);
                exchange.waits.poll_over(&mut client.deadline, awaited, moved).map(Err)
            }
        }
    })
    .await
}
