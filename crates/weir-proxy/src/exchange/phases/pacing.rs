//! The wait of a response for its turn under a limit on bandwidth.

use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;
use weir_config::{Feature, Stage};

use weir_observe::{Failure, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange_limits::RuleInForce;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::net::clock;
use crate::state::connections::activity::Activity;

/// How often it is looked whether the client is still there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the next bytes of the response may be sent; neither the client nor the server can be too slow meanwhile.
#[cold]
pub(in crate::exchange) fn poll_turn<U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
) -> Poll<Failure> {
    if let Some(cause) = context.stream.poll_reset(cx, context.client) {
        return Poll::Ready(Failure::client(Phase::Relay, cause));
    }
    acting::note(Stage::ResponseBody, Feature::Limits);
    let Some((at, plan)) = context.exchange.response_relay.turn() else {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    };
    if let Some(plan) = plan.filter(|_| context.exchange.limits.by.is_none()) {
        plan.state.shards.of(context.client.worker.index).paced.increment();
        context.exchange.limits.by = Some(RuleInForce::Limit(Arc::clone(plan)));
    }
    let moved = context.exchange.response_relay.taken();
    context.report(Activity::Bandwidth);
    context.client.deadline.look_again(at.min(clock::now() + LOOK_INTERVAL));
    let over = context.poll_over(Activity::Bandwidth, moved);
    if over.is_pending() && clock::now() >= at {
        // Its time has come in between, and the timer may have been before that.
        cx.waker().wake_by_ref();
    }
    over
}
