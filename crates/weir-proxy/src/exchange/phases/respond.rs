//! Phase Relay: the response on its way to the client, and what is left of the request on its way to the server.

use std::task::{self, Poll};

use weir_http::Framing;
use weir_observe::{Failure, Party, Phase, ServerShard};

use super::{attempt, pacing};
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::header_changes::has_values;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::heads::placeholders::TemplateValues;
use crate::exchange::heads::{affinity, compression, fields, grpc};
use crate::net::clock;
use crate::relay::WaitingFor;
use crate::relay::ends::RelayError;
use crate::relay::failure::{of_request_body, of_response_body};
use crate::relay::replay::Replay;
use crate::state::connections::activity::Activity;
use crate::upstream::stream::ServerStream;

/// Relays the response that `serving` has begun.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(in crate::exchange) async fn run<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
) -> Result<(), Ended> {
    begin(context, plans, serving);
    // Not by way of `relay`: a future in between takes instructions, too.
    let outcome = std::future::poll_fn(|cx| poll(cx, context, serving)).await;
    count_cut(plans, serving, outcome);
    outcome.map_err(Ended::Failed)
}

/// The same for one whose head is staged.
///
/// # Errors
/// As [`run`].
pub(in crate::exchange) async fn relay<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
) -> Result<(), Ended> {
    let outcome = std::future::poll_fn(|cx| poll(cx, context, serving)).await;
    count_cut(plans, serving, outcome);
    outcome.map_err(Ended::Failed)
}

/// Counts a response that the server has cut short. It was a success when its head came: a server that cuts many short is found by its error
/// rate.
pub(in crate::exchange) fn count_cut<T: ServerStream>(
    plans: Plans<'_>,
    serving: &RespondingServer<T>,
    outcome: Result<(), Failure>,
) {
    if outcome.is_err_and(|failure| failure.party == Party::Server) {
        server_shard(plans, serving).outlier_failures.increment();
    }
}

/// Accounts for the head and stages it for the client.
pub(in crate::exchange) fn begin<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
) {
    account(context, plans, serving);
    context.exchange.answered = true;
    let now = context.client.now;
    let method = context.exchange.request.method();
    let length = serving.server.begin_body(&context.exchange.response, method, plans.upstream.chunked_limits);
    // An answer that is whole already, to part of the request: nothing waits for what is left of that.
    let is_early = !context.exchange.request_relay.is_done() && serving.server.is_body_here();
    if attempt::private::has_challenge(&context.exchange.response, serving.server.head()) {
        serving.server.set_private();
    }
    let head = serving.server.head();
    let length = match context.exchange.grpc {
        None => length,
        Some(_) => grpc::web::begin_response_body(context.exchange, head, length),
    };
    let length = match plans.route.config.compression {
        None => length,
        Some(_) => compression::begin_received(context, plans, head, length),
    };
    if context.listener.logs_response_fields {
        context.exchange.response_text.extend_from_slice(head);
    }
    let server = serving.slot.server;
    affinity::learn(context.exchange, plans.upstream, server, head, now);
    affinity::count(context.exchange, plans, server);
    if !plans.route.config.response_headers.is_empty() {
        prepare_changes(context, plans, serving);
    }
    let head = serving.server.head();
    let response = FinalHead {
        status: Status::received(&context.exchange.response, head),
        content: Content::Body(length, announced_length(context.exchange, length)),
        is_early,
        text: head,
    };
    let Context { client, stream, exchange, listener, .. } = context;
    stream.respond(client, exchange, &response, |out| {
        fields::write_response(out, (client, exchange, listener), plans, server, head);
    });
    serving.server.take_head();
}

/// Prepares for what the route changes in the fields of the response, in its head and behind its body.
fn prepare_changes<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
) {
    let changes = &plans.route.config.response_headers;
    if let Some(stripped) = &plans.route.stripped_from_responses {
        serving.server.strip_trailers(stripped);
    }
    if has_values(changes) {
        let mut rendered = std::mem::take(&mut context.exchange.rendered_headers);
        let (head, server) = (serving.server.head(), serving.slot.server);
        let values = TemplateValues::for_attempt(context, plans, server);
        let status = context.exchange.record.status;
        let values =
            TemplateValues { response: Some((context.exchange.response.fields(), head)), status, ..values };
        rendered.render(changes, |template, out| values.write(template, out));
        context.exchange.rendered_headers = rendered;
    }
}

/// Accounts for the head of the response.
#[inline(always)]
pub(in crate::exchange) fn account<T: ServerStream, S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    serving: &RespondingServer<T>,
) {
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    context.exchange.record.status = context.exchange.response.status();
    context.exchange.replay_buffer.end();
    let shard = server_shard(plans, serving);
    shard.responses.record(context.exchange.record.status);
    shard.response_time.record(u64::from(context.exchange.record.times[Phase::Response]));
}

/// The length that the head of the response announces: that of its body, or what GET would have brought (HEAD, 304). 204 has none.
fn announced_length(exchange: &Exchange, framing: Framing) -> Option<u64> {
    match framing {
        Framing::Length(1..) | Framing::Delimited | Framing::UntilClose => framing.length(),
        Framing::None | Framing::Length(0) if exchange.body_coding.replaces_length() => None,
        Framing::None | Framing::Length(0) => {
            let status = exchange.response.status();
            exchange.response.content_length().filter(|_| status != 204)
        }
    }
}

fn server_shard<'a, T>(plans: Plans<'a>, serving: &RespondingServer<T>) -> &'a ServerShard {
    &plans.server(serving.slot.server.index()).shard
}

#[inline(always)]
fn poll<T: ServerStream, U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    serving: &mut RespondingServer<T>,
) -> Poll<Result<(), Failure>> {
    let (relay, stock) = (&mut context.exchange.response_relay, &context.client.worker.stock);
    match serving.server.poll_response(cx, relay, &mut context.stream.reply(), stock) {
        Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_response_body(&error))),
        Poll::Pending => {}
    }
    let sending = !context.exchange.request_relay.is_done() && !serving.send_failed;
    if sending {
        let mut source =
            Replay { kept: &mut context.exchange.replay_buffer, body: context.stream.body(context.client) };
        match serving.server.poll_request(cx, &mut context.exchange.request_relay, &mut source) {
            // The server has answered and reads no further: its answer counts.
            Poll::Ready(Err(RelayError::Write(_))) => serving.send_failed = true,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_request_body(&error))),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
    }
    let sending = sending && !context.exchange.request_relay.is_done() && !serving.send_failed;
    let (awaited, moved) = match context.exchange.response_relay.waiting {
        WaitingFor::Turn => return pacing::poll_turn(cx, context).map(Err),
        WaitingFor::Sink => (Activity::ClientTakes, context.stream.taken()),
        WaitingFor::Source if sending && context.exchange.request_relay.waiting == WaitingFor::Source => {
            (Activity::RequestBody, context.exchange.request_relay.moved)
        }
        WaitingFor::Source => {
            if let Some(cause) = if sending { None } else { context.stream.poll_reset(cx, context.client) } {
                return Poll::Ready(Err(Failure::client(Phase::Relay, cause)));
            }
            (Activity::ResponseBody, context.exchange.response_relay.taken())
        }
    };
    context.report(awaited);
    context.poll_over(awaited, moved).map(Err)
}
