//! Phase Relay: the response on its way to the client, and what is left of the request on its way to the server.

use std::task::{Context, Poll};

use weir_http::ResponseBody;
use weir_observe::{Failure, Party, Phase, ServerShard};

use super::attempt::{Plans, Serving};
use super::{Ended, Exchange, fields, persistence, private};
use crate::downstream::session::Session;
use crate::net::clock;
use crate::relay::failure::{of_request_body, of_response_body};
use crate::relay::reframe::{Incoming, Reader, Writer};
use crate::relay::replay::Replay;
use crate::relay::{RelayError, Waiting};
use crate::state::activity::Activity;

/// Relays the response that `serving` has begun.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(crate) async fn run(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    serving: &mut Serving,
) -> Result<(), Ended> {
    begin(session, exchange, plans, serving);
    let outcome = std::future::poll_fn(|cx| poll(cx, session, exchange, serving)).await;
    outcome.map_err(|failure| {
        if failure.party == Party::Server {
            // It was a success when its head came. A server that cuts many short is found by its error rate.
            server_shard(plans, serving).faults.increment();
        }
        Ended::Failed(failure)
    })
}

/// Accounts for the head and stages it for the client.
pub(crate) fn begin(session: &mut Session, exchange: &mut Exchange, plans: Plans<'_>, serving: &mut Serving) {
    let now = clock::now();
    session.now = now;
    exchange.record.spend(Phase::Response, now);
    exchange.record.status = exchange.response.status();
    exchange.answered = true;
    exchange.request_kept.end();
    let shard = server_shard(plans, serving);
    shard.responses.record(exchange.record.status);
    shard.response_time.record(u64::from(exchange.record.times[Phase::Response]));

    exchange.response_body = match exchange.response.body(exchange.request.method()) {
        ResponseBody::None => Incoming::nothing(),
        ResponseBody::Length(len) => Incoming::length(len),
        ResponseBody::Chunked => Incoming::chunked(plans.upstream.chunked_limits),
        ResponseBody::UntilClose => Incoming::until_close(),
    };
    let body = &serving.server.connection.received()[serving.head_len..];
    exchange.keep_alive &= may_go_on(session, exchange, body);
    exchange.to_client.closes = !exchange.keep_alive;
    let until_close = exchange.response.body(exchange.request.method()) == ResponseBody::UntilClose;
    exchange.server_keeps_alive = exchange.response.keep_alive() && !until_close;
    let normal = exchange.response.take_normal_text();
    let received = &serving.server.connection.received()[..serving.head_len];
    let head = if normal.is_empty() { received } else { &normal };
    exchange.keep_alive_announced = exchange.response.keep_alive_timeout(head);
    serving.server.is_private |= private::has_challenge(&exchange.response, head);
    if plans.listener.logs_response_fields {
        exchange.response_text.extend_from_slice(head);
    }
    let server = serving.slot.server;
    persistence::learn(exchange, plans.upstream, server, head, now);
    fields::write_response(session, exchange, plans, server, head);
    serving.server.connection.consume(serving.head_len);
}

fn server_shard<'a>(plans: Plans<'a>, serving: &Serving) -> &'a ServerShard {
    &plans.server(serving.slot.server.index()).shard
}

/// Whether another request may follow this response, as far as is known when its head goes out.
fn may_go_on(session: &Session, exchange: &Exchange, body: &[u8]) -> bool {
    // An early answer that is whole already: nobody waits for what is left of the request.
    let is_early = !exchange.request_relay.is_done() && exchange.response_body.seems_whole(body);
    !is_early && !session.is_ending()
}

fn poll(
    cx: &mut Context<'_>,
    session: &mut Session,
    exchange: &mut Exchange,
    serving: &mut Serving,
) -> Poll<Result<(), Failure>> {
    let stock = &session.worker.stock;
    let server = &mut serving.server.connection;
    let mut source = Reader { connection: server, incoming: &mut exchange.response_body, stock };
    let mut sink = Writer { connection: &mut session.client, outgoing: &mut exchange.to_client };
    match exchange.response_relay.poll(cx, &mut source, &mut sink) {
        Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_response_body(&error))),
        Poll::Pending => {}
    }
    let sending = !exchange.request_relay.is_done() && !serving.send_failed;
    if sending {
        let reader = Reader { connection: &mut session.client, incoming: &mut exchange.request_body, stock };
        let mut source = Replay { kept: &mut exchange.request_kept, reader };
        let mut sink = Writer { connection: server, outgoing: &mut exchange.to_server };
        match exchange.request_relay.poll(cx, &mut source, &mut sink) {
            // The server has answered and reads no further: its answer counts.
            Poll::Ready(Err(RelayError::Write(_))) => serving.send_failed = true,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_request_body(&error))),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
    }
    let sending = sending && !exchange.request_relay.is_done() && !serving.send_failed;
    let (awaited, moved) = match exchange.response_relay.waiting {
        Waiting::Sink => (Activity::ClientTakes, exchange.to_client.sent),
        Waiting::Source if sending && exchange.request_relay.waiting == Waiting::Source => {
            (Activity::RequestBody, exchange.request_relay.moved)
        }
        Waiting::Source => {
            if let Some(cause) = if sending { None } else { session.poll_reset(cx) } {
                return Poll::Ready(Err(Failure::client(Phase::Relay, cause)));
            }
            (Activity::ResponseBody, exchange.response_relay.moved)
        }
    };
    session.tell(awaited, Some(exchange));
    exchange.waits.poll_over(&mut session.deadline, awaited, moved).map(Err)
}
