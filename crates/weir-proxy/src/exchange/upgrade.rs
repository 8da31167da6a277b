//! A switched protocol, a WebSocket or a CONNECT: the head of the response goes to the client, and the exchange becomes a
//! tunnel.

use std::task::{Context, Poll};

use weir_http::Method;
use weir_observe::{Failure, Phase};

use super::attempt::{Plans, Serving};
use super::tunnelled::Tunnelled;
use super::{After, Ended, Exchange, fields, persistence};
use crate::downstream::session::Session;
use crate::net::clock;
use crate::relay::Sink as _;
use crate::relay::failure::of_response_body;
use crate::relay::reframe::Writer;
use crate::state::activity::Activity;

impl Exchange {
    /// Whether the response turns the connection into a tunnel: 101, or 2xx to CONNECT (RFC 9110 section 9.3.6).
    pub(crate) fn switches_protocols(&self) -> bool {
        let status = self.response.status();
        status == 101 || (self.request.method() == Method::Connect && (200..300).contains(&status))
    }
}

/// Passes the head on; what follows are raw bytes.
pub(crate) async fn run(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    mut serving: Serving,
) -> Result<After, Ended> {
    begin(session, exchange, plans, &mut serving);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(outcome) = poll_head(cx, session, exchange) {
            return Poll::Ready(outcome);
        }
        let sent = exchange.to_client.sent;
        session.tell(Activity::ClientTakes, Some(exchange));
        exchange.waits.poll_over(&mut session.deadline, Activity::ClientTakes, sent).map(Err)
    })
    .await
    .map_err(Ended::Failed)?;
    let Serving { server, slot, .. } = serving;
    // Its age does not end it: whoever upgrades means to stay.
    Ok(After::Tunnel(Tunnelled::new(session, exchange, plans, server, slot, None)))
}

fn begin(session: &mut Session, exchange: &mut Exchange, plans: Plans<'_>, serving: &mut Serving) {
    let now = clock::now();
    session.now = now;
    exchange.record.spend(Phase::Response, now);
    exchange.record.status = exchange.response.status();
    exchange.answered = true;
    exchange.keep_alive = false;
    let shard = &plans.server(serving.slot.server.index()).shard;
    shard.responses.record(exchange.record.status);
    let normal = exchange.response.take_normal_text();
    let received = &serving.server.connection.received()[..serving.head_len];
    let head = if normal.is_empty() { received } else { &normal };
    let server = serving.slot.server;
    persistence::learn(exchange, plans.upstream, server, head, now);
    fields::write_switching(exchange, plans, server, head);
    serving.server.connection.consume(serving.head_len);
}

fn poll_head(
    cx: &mut Context<'_>,
    session: &mut Session,
    exchange: &mut Exchange,
) -> Poll<Result<(), Failure>> {
    let mut head = Writer { connection: &mut session.client, outgoing: &mut exchange.to_client };
    while head.is_waiting() {
        match head.poll_write(cx, &[]) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_response_body(&error))),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(Ok(()))
}
