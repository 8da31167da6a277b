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
use crate::state::servers::upstream::Binding;

/// Prepares for attempts on servers of the upstream. The body that is to be taken in first, to be waited for: on the heap, since it is large and most
/// routes have none.
#[inline(always)]
pub(in crate::exchange) fn begin<'a, U>(
    context: &'a mut Context<'_, impl ClientStream, U>,
    plans: Plans<'a>,
) -> Option<Pin<Box<impl Future<Output = Result<(), Ended>>>>> {
    let (client, exchange, listener) = (&*context.client, &mut *context.exchange, context.listener);
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Route);
    exchange.waits.begin(&plans.wait_limits(listener));
    if exchange.grpc.is_some() {
        grpc::begin(exchange, listener, plans.upstream);
    }
    let asked = match plans.upstream.binding {
        None => None,
        Some(Binding::Affinity) => affinity::begin(context, plans).map(BindingWait::Key),
        Some(Binding::Name) => Some(BindingWait::Name),
    };
    retry::begin(context, plans);
    let takes_body = buffering::request::is_wanted(context.exchange, plans.route);
    (takes_body || asked.is_some()).then(|| Box::pin(wait(context, plans, asked, takes_body)))
}

/// What is waited for until it is known to which server the request belongs.
enum BindingWait {
    /// What other nodes know of its key.
    Key(affinity::AskedKey),
    /// The server that it names.
    Name,
}

/// Waits for what other nodes know of the request, then for its body.
async fn wait<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    asked: Option<BindingWait>,
    takes_body: bool,
) -> Result<(), Ended> {
    match asked {
        None => {}
        Some(BindingWait::Key(asked)) => affinity::take_over(context, plans, asked).await?,
        Some(BindingWait::Name) => affinity::by_name::bind(context, plans).await?,
    }
    if takes_body {
        buffering::request::take_request(context, plans).await?;
    }
    Ok(())
}
