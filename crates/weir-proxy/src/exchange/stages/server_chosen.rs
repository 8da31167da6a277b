//! The point before the first attempt: the upstream is known, and a server is to be chosen.

use std::pin::Pin;

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::buffering;
use crate::exchange::heads::{affinity, grpc};
use crate::exchange::phases::retry;
use crate::state::crashes::faults;
use crate::state::crashes::faults::FaultPoint;

/// Prepares for attempts on servers of the upstream. The body that is to be taken in first, to be waited for: on the heap, since it is large and most
/// routes have none.
#[inline(always)]
pub(in crate::exchange) fn begin<'a>(
    client: &'a mut Client,
    stream: &'a mut impl ClientStream,
    exchange: &'a mut Exchange,
    plans: Plans<'a>,
) -> Option<Pin<Box<impl Future<Output = Result<(), Ended>>>>> {
    let Plans { listener, upstream, route, .. } = plans;
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Route);
    exchange.waits.begin(&plans.wait_limits());
    if exchange.grpc.is_some() {
        grpc::begin(exchange, listener, upstream);
    }
    affinity::begin(exchange, upstream, client.now);
    retry::begin(client, exchange, plans);
    let takes_body = buffering::request::is_wanted(exchange, route);
    takes_body.then(|| Box::pin(buffering::request::take_request(client, stream, exchange, plans)))
}
