//! An exchange has failed, at whichever stage, and the client has nothing of a response yet.

use weir_observe::Failure;

use crate::exchange::context::Context;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::cache;
use crate::exchange::features::error_pages::remote_page;
use crate::exchange::phases::end::End;
use crate::upstream::stream::Servers;

/// Answers with the page of a failure, or with what is stored for that case.
#[cold]
pub(in crate::exchange) async fn answer(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    failure: Failure,
) -> End {
    let failure = match cache::response::instead_of_failure(context, failure).await {
        Some(Ok(end)) => return end,
        Some(Err(failure)) => failure,
        None => failure,
    };
    let fetched = remote_page::for_failure(context, failure).await;
    answer::failure(context, (failure, fetched)).await
}
