//! A switched protocol, a WebSocket or a CONNECT: the head of the response goes to the client, and the exchange becomes a
//! tunnel.

use std::task::{self, Poll};

use weir_http::Method;
use weir_observe::{Failure, Phase};

use super::end::End;
use super::tunnel::Tunnelled;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::heads::{affinity, fields};
use crate::net::clock;
use crate::relay::ends::Sink as _;
use crate::relay::failure::of_response_body;
use crate::state::connections::activity::Activity;
use crate::upstream::stream::ServerStream;

impl Exchange {
    /// Whether the response turns the connection into a tunnel: 101, or 2xx to CONNECT (RFC 9110 section 9.3.6).
    #[inline]
    pub(crate) fn switches_protocols(&self) -> bool {
        let status = self.response.status();
        status == 101 || (self.request.method() == Method::Connect && (200..300).contains(&status))
    }
}

/// Passes the head on; what follows are raw bytes.
pub(in crate::exchange) async fn run<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    mut serving: RespondingServer<T>,
) -> Result<End, Ended> {
    begin(context, plans, &mut serving);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(outcome) = poll_head(cx, context.stream) {
            return Poll::Ready(outcome);
        }
        let sent = context.stream.sent();
        context.report(Activity::ClientTakes);
        context.poll_over(Activity::ClientTakes, sent).map(Err)
    })
    .await
    .map_err(Ended::Failed)?;
    context.exchange.record.sent_to_server += serving.server.sent();
    let RespondingServer { server, slot, .. } = serving;
    // The age limit of the connection does not apply to an upgraded one.
    Ok(End::Tunnel(Tunnelled::new(context, plans, server.into_tunnel(), slot, None)))
}

fn begin<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
) {
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    context.exchange.record.status = context.exchange.response.status();
    context.exchange.answered = true;
    let shard = &plans.server(serving.slot.server.index()).shard;
    shard.responses.record(context.exchange.record.status);
    let head = serving.server.head();
    let server = serving.slot.server;
    affinity::learn(context.exchange, plans.upstream, server, head, now);
    affinity::count(context.exchange, plans, server);
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
    serving.server.take_head();
}

fn poll_head(cx: &mut task::Context<'_>, stream: &mut impl ClientStream) -> Poll<Result<(), Failure>> {
    let mut head = stream.reply();
    while head.is_waiting() {
        match head.poll_write(cx, &[]) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(of_response_body(&error))),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(Ok(()))
}
