//! The point at which an exchange has failed, and the client has nothing of a response yet.

use weir_observe::Failure;

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::cache;
use crate::exchange::features::error_pages::remote_page;
use crate::exchange::phases::answer;
use crate::exchange::phases::end::End;
use crate::upstream::stream::Servers;

/// Answers with the page of a failure, or with what is stored for that case.
#[cold]
pub(in crate::exchange) async fn answer(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    failure: Failure,
) -> End {
    let failure = match cache::response::instead_of_failure(client, stream, exchange, failure).await {
        Some(Ok(end)) => return end,
        Some(Err(failure)) => failure,
        None => failure,
    };
    let fetched = remote_page::of_failure(client, stream, servers, exchange, failure).await;
    answer::failure(client, stream, exchange, (failure, fetched)).await
}
