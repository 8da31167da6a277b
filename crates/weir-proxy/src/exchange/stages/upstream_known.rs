//! Stage upstream known: before the first attempt, no server has been chosen.

use std::pin::Pin;

use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::buffering;
use crate::exchange::features::{affinity, grpc};
use crate::exchange::phases::retry;
use crate::state::crashes::faults;
use crate::state::crashes::faults::FaultPoint;

/// Prepares for attempts on servers of the upstream. The body that is to be taken in first, to be waited for: on the heap, since it is large and most
/// routes have none.
#[inline(always)]
pub(in crate::exchange) fn begin<'a, U>(
    context: &'a mut Context<'_, impl ClientStream, U>,
    plans: Plans<'a>,
) -> Option<Pin<Box<impl Future<Output = Result<(), Ended>>>>> {
    let (client, exchange, listener) = (&mut *context.client, &mut *context.exchange, context.listener);
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Route);
    exchange.waits.begin(&plans.wait_limits(listener));
    if exchange.grpc.is_some() {
        grpc::begin(exchange, listener, plans.upstream);
    }
    if plans.upstream.affinity.is_some() {
        affinity::begin(exchange, plans.upstream, client.now);
    }
    retry::begin(context, plans);
    let takes_body = buffering::request::is_wanted(context.exchange, plans.route);
    takes_body.then(|| Box::pin(buffering::request::take_request(context, plans)))
}
