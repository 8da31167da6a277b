//! Stage server chosen: one attempt on a server, with what the features have for the head of the request.

use crate::exchange::context::Context;
use crate::exchange::exchange_state::outcome::{AttemptFailure, AttemptHistory, RespondingServer};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::headers::request::AllFeatures;
use crate::exchange::phases::attempt;
use crate::upstream::slot::Slot;
use crate::upstream::stream::Servers;

/// Phases Connect, Send and Response.
#[inline(always)]
pub(in crate::exchange) fn attempt<S: ClientStream, U: Servers>(
    context: &mut Context<'_, S, U>,
    plans: &Plans<'_>,
    slot: Slot,
    history: &AttemptHistory,
) -> impl Future<Output = Result<RespondingServer<U::Stream>, AttemptFailure>> {
    attempt::run::<AllFeatures, _, _>(context, plans, slot, history)
}
