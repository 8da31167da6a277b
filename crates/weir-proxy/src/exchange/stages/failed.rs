//! An exchange has failed, at whichever stage, and the client has nothing of a response yet.

use weir_observe::{Cause, Failure};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::cache;
use crate::exchange::features::error_pages::{lead_on, remote_page};
use crate::exchange::phases::end::End;
use crate::upstream::stream::Servers;

/// Answers with the page of a failure, or with what is stored for that case; `None`: the request goes on elsewhere in place of a page.
#[cold]
pub(in crate::exchange) async fn answer(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    failure: Failure,
) -> Option<End> {
    if failure.cause == Cause::AccessDenied && context.exchange.limits.wants_no_answer() {
        context.exchange.record.failure = Some(failure);
        return Some(End::Closed);
    }
    let failure = match cache::response::instead_of_failure(context, failure).await {
        Some(Ok(end)) => return Some(end),
        Some(Err(failure)) => failure,
        None => failure,
    };
    if lead_on::instead_of_failure(context, failure) {
        return None;
    }
    let failure = give_up_page(context).unwrap_or(failure);
    let fetched = remote_page::for_failure(context, failure).await;
    Some(answer::failure(context, (failure, fetched)).await)
}

/// The failure in place of whose page the request has gone on, where that has failed, too: the client gets its page after all.
fn give_up_page<S, U>(context: &mut Context<'_, S, U>) -> Option<Failure> {
    context.exchange.failed_page()?;
    let page = context.exchange.rerouting_mut().page.as_mut()?;
    page.status = None;
    let (first, retry_after, refusal) = (page.failure, page.retry_after, std::mem::take(&mut page.refusal));
    if first.is_some() && context.exchange.limits.is_asked() {
        context.exchange.limits.restore_refusal(refusal);
    }
    context.exchange.retry_after = retry_after.filter(|_| first.is_some()).or(context.exchange.retry_after);
    first
}
