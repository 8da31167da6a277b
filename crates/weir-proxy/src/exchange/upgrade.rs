//! Phase Relay of a switched protocol: a WebSocket or a CONNECT tunnel, bytes both ways until both sides have ended.

use std::task::{Context, Poll};
use std::time::Instant;

use weir_http::Method;
use weir_observe::{Cause, Failure, Party, Phase};

use super::attempt::{Plans, Serving};
use super::failure::{of_io, of_response_body};
use super::{After, Ended, Exchange, fields, persistence};
use crate::clock;
use crate::downstream::session::Session;
use crate::relay::reframe::Writer;
use crate::relay::tunnel::{Side, Tunnel};
use crate::relay::{RelayError, Sink as _};

impl Exchange {
    /// Whether the response turns the connection into a tunnel: 101, or 2xx to CONNECT (RFC 9110 section 9.3.6).
    pub(crate) fn switches_protocols(&self) -> bool {
        let status = self.response.status();
        status == 101 || (self.request.method() == Method::Connect && (200..300).contains(&status))
    }
}

/// Passes the head on, then relays raw bytes until the tunnel ends.
pub(crate) async fn run(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    mut serving: Serving,
) -> Result<After, Ended> {
    begin(session, exchange, plans, &mut serving);
    session.deadline.set_ceiling(None);
    let idle = plans.upstream.config.timeouts.tunnel;
    // On the heap, since a tunnel is long and an exchange should stay small.
    let mut tunnel = Box::new(Tunnel::new());
    let mut moved_at: Option<(u64, Instant)> = None;
    let outcome = std::future::poll_fn(|cx| {
        if let Poll::Ready(outcome) = poll_bytes(cx, session, exchange, &mut serving, &mut tunnel) {
            return Poll::Ready(outcome);
        }
        let (up, down) = tunnel.moved();
        if let Some(idle) = idle {
            // The clock is read only after bytes have moved.
            if moved_at.is_none_or(|(moved, _)| moved != up + down) {
                let now = clock::now();
                moved_at = Some((up + down, now));
                session.deadline.set(now, Some(idle));
            }
        } else {
            session.deadline.set_at(None);
        }
        session.deadline.poll_passed().map(|()| Err(Failure::weir(Phase::Relay, Cause::TunnelIdle)))
    })
    .await;
    let (up, down) = tunnel.moved();
    exchange.record.bytes_in += up;
    exchange.to_client.sent += down;
    exchange.record.tunnelled = Some((up, down));
    outcome.map_err(Ended::Failed)?;
    Ok(After::Close)
}

fn begin(session: &mut Session, exchange: &mut Exchange, plans: Plans<'_>, serving: &mut Serving) {
    let now = clock::now();
    session.now = now;
    exchange.record.spend(Phase::Response, now);
    exchange.record.status = exchange.response.status();
    exchange.answered = true;
    exchange.keep_alive = false;
    let shard = &plans.view.upstreams[plans.upstream_index].servers[serving.slot.server.index()].shard;
    shard.responses.record(exchange.record.status);
    let head = &serving.server.connection.received()[..serving.head_len];
    let server = serving.slot.server;
    persistence::learn(exchange, plans.upstream, server, head, now);
    fields::write_switching(exchange, plans, server, head);
    serving.server.connection.consume(serving.head_len);
}

fn poll_bytes(
    cx: &mut Context<'_>,
    session: &mut Session,
    exchange: &mut Exchange,
    serving: &mut Serving,
    tunnel: &mut Tunnel,
) -> Poll<Result<(), Failure>> {
    let mut head = Writer { connection: &mut session.client, outgoing: &mut exchange.to_client };
    while head.is_waiting() {
        match head.poll_write(cx, &[]) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_response_body(&error))),
            Poll::Pending => return Poll::Pending,
        }
    }
    let stock = &session.worker.stock;
    tunnel
        .poll(cx, &mut session.client, &mut serving.server.connection, stock)
        .map_err(|(side, error)| of_tunnel(side, &error))
}

fn of_tunnel(side: Side, error: &RelayError) -> Failure {
    let party = match side {
        Side::Client => Party::Client,
        Side::Server => Party::Server,
    };
    match error {
        RelayError::Read(error) | RelayError::Write(error) => of_io(Phase::Relay, party, error),
        // Raw bytes have no framing to break and no length to exceed.
        RelayError::Truncated | RelayError::Broken(_) | RelayError::TooLarge => {
            Failure { phase: Phase::Relay, party, cause: Cause::Closed }
        }
    }
}
