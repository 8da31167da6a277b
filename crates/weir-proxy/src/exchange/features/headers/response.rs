//! The head of a response on its way from a server to the client: what the features of the route make of it, and of the body behind it.

use std::time::Duration;

use weir_config::ResponseOrigin;
use weir_http::Framing;
use weir_observe::Phase;

use super::fields;
use super::rewriting;
use super::rules::IncomingFacts;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::has_values;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::response::response_outline::{ReceivedFields, ResponseFields as _};
use crate::exchange::exchange_state::response::rewritten_fields;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::features::{affinity, grpc};
use crate::exchange::phases::attempt::private;
use crate::exchange::phases::respond;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::upstream::stream::ServerStream;

/// Accounts for the head and stages it for the client.
pub(in crate::exchange) fn begin<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
) {
    respond::account(context, plans, responding);
    context.exchange.show_status_of_page();
    context.exchange.answered = true;
    let method = context.exchange.request.method();
    let length =
        responding.server.begin_body(&context.exchange.response, method, plans.upstream.chunked_limits);
    // An answer that is whole already, to part of the request: nothing waits for what is left of that.
    let is_early = !context.exchange.request_relay.is_done() && responding.server.is_body_here();
    if private::may_challenge(&context.exchange.response)
        && private::has_challenge(&context.exchange.response, responding.server.head())
    {
        responding.server.set_private();
    }
    let mut head = responding.server.head();
    let length = match context.exchange.grpc {
        None => length,
        Some(_) => grpc::web::begin_response_body(context.exchange, head, length),
    };
    // One question for most routes, which have nothing for the fields of responses.
    let acts = plans.route.acts_on_response_fields();
    let length = match acts && rewriting::body::is_wanted(plans.route) {
        false => length,
        true => rewriting::body::begin_received(context, plans, head, length),
    };
    if context.listener.logs_response_fields {
        context.exchange.response_text.extend_from_slice(head);
    }
    let server = responding.slot.server;
    if plans.upstream.affinity.is_some() {
        affinity::learn(context, plans, server, head);
        affinity::count(context.exchange, plans, server);
    }
    if acts {
        context.exchange.limit_rate_as_kept();
        prepare_fields(context, plans, responding);
        head = responding.server.head();
    }
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
    responding.server.take_head();
}

/// Prepares for what the route has for the fields of the response.
fn prepare_fields<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
) {
    if plans.route.changes_responses() {
        prepare_changes(context, plans, responding);
    }
    if rewritten_fields::is_wanted(plans.route) {
        prepare_rewritten(context, plans, responding);
    }
}

/// Prepares for what the route changes in the fields of the response, in its head and behind its body.
fn prepare_changes<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
) {
    let changes = &plans.route.config.response_headers;
    if let Some(stripped) = &plans.route.stripped_from_responses {
        responding.server.strip_trailers(stripped);
    }
    if has_values(changes) {
        let mut rendered = std::mem::take(&mut context.exchange.rendered_headers);
        let (head, server) = (responding.server.head(), responding.slot.server);
        let values = TemplateValues::for_attempt(context, plans, server);
        let (status, fields) = (context.exchange.record.status, context.exchange.response.fields());
        let values = TemplateValues { response: Some((fields, head)), status, ..values };
        let kept = fields::kept_with(context.exchange, status, (fields, head));
        let fields = &ReceivedFields { fields, text: head, kept };
        let (origin, age) = (ResponseOrigin::Server, age_of(fields));
        rendered.render(changes, &IncomingFacts { values, origin, fields, media_type: None, age });
        context.exchange.rendered_headers = rendered;
    }
}

/// Prepares for what the route rewrites in the fields of the server.
#[cold]
pub(in crate::exchange) fn prepare_rewritten<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) {
    let marking = plans.upstream.affinity.as_ref().filter(|affinity| affinity.changes_responses());
    let server = responding.slot.server;
    let response = std::mem::take(&mut context.exchange.response);
    let head = (response.status(), response.fields(), responding.server.head());
    rewriting::fields::prepare(context, plans.route, head, |value, out| {
        marking.is_some_and(|affinity| affinity.mark_set_cookie(out, value, server))
    });
    context.exchange.response = response;
}

/// How old a response of a server says it is: of another cache on the way.
fn age_of(fields: &ReceivedFields<'_>) -> Duration {
    let age = fields.first("age").and_then(|age| std::str::from_utf8(age).ok()?.trim().parse().ok());
    // As much as a cache takes for the age of a response at most (RFC 9111 section 1.2.2).
    Duration::from_secs(age.unwrap_or(0_u64).min(1 << 31))
}

/// The same for one that turns the connection into a tunnel.
pub(in crate::exchange) fn begin_tunnel<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
) {
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    context.exchange.record.status = context.exchange.response.status();
    context.exchange.answered = true;
    let shard = &plans.server(responding.slot.server.index()).shard;
    shard.responses.record(context.exchange.record.status);
    let head = responding.server.head();
    let server = responding.slot.server;
    affinity::learn(context, plans, server, head);
    affinity::count(context.exchange, plans, server);
    if plans.route.changes_responses() {
        prepare_changes(context, plans, responding);
    }
    if rewritten_fields::is_wanted(plans.route) {
        prepare_rewritten(context, plans, responding);
    }
    let head = responding.server.head();
    let response = FinalHead {
        status: Status::received(&context.exchange.response, head),
        content: Content::Tunnel,
        is_early: false,
        text: head,
    };
    let Context { client, stream, exchange, listener, .. } = context;
    stream.respond(client, exchange, &response, |out| {
        fields::write_response(out, (client, exchange, listener), plans, server, head);
    });
    responding.server.take_head();
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
