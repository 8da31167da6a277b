//! The wait of a response for its turn under a limit on bandwidth.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_observe::{Failure, Phase};

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::exchange_limits::RuleInForce;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::net::clock;
use crate::state::connections::activity::Activity;

/// How often it is looked whether the client is still there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the next bytes of the response may be sent; neither the client nor the server can be too slow meanwhile.
#[cold]
pub(in crate::exchange) fn poll_turn(
    cx: &mut Context<'_>,
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
) -> Poll<Failure> {
    if let Some(cause) = stream.poll_reset(cx, client) {
        return Poll::Ready(Failure::client(Phase::Relay, cause));
    }
    let Some((at, plan)) = exchange.response_relay.turn() else {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    };
    if exchange.limited.by.is_none() {
        plan.state.shards.of(client.worker.index).paced.increment();
        exchange.limited.by = Some(RuleInForce::Limit(Arc::clone(plan)));
    }
    let moved = exchange.response_relay.taken();
    client.report(Activity::Bandwidth, stream, exchange);
    client.deadline.look_again(at.min(clock::now() + LOOK_INTERVAL));
    let over = exchange.waits.poll_over(&mut client.deadline, Activity::Bandwidth, moved);
    if over.is_pending() && clock::now() >= at {
        // Its time has come in between, and the timer may have been before that.
        cx.waker().wake_by_ref();
    }
    over
}
