//! A switched protocol, a WebSocket or a CONNECT: the head of the response goes to the client, and the exchange becomes a
//! tunnel.

use std::task::{self, Poll};

use weir_http::Method;
use weir_observe::Failure;

use super::end::End;
use super::tunnel::Tunnelled;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
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

/// Passes the head on, which is staged; what follows are raw bytes.
pub(in crate::exchange) async fn run<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: RespondingServer<T>,
) -> Result<End, Ended> {
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
    context.exchange.record.sent_to_server += responding.server.sent();
    let RespondingServer { server, slot, .. } = responding;
    // The age limit of the connection does not apply to an upgraded one.
    Ok(End::Tunnel(Tunnelled::new(context, plans, server.into_tunnel(), slot, None)))
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
