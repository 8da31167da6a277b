//! The point at which the head of a response is known: it passes, goes again to another server, or is held.

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::{AttemptFailure, AttemptHistory, RespondingServer};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::cache;
use crate::exchange::phases::attempt_response::AttemptResponse;
use crate::exchange::phases::retry;
use crate::state::crashes::faults;
use crate::state::crashes::faults::FaultPoint;
use crate::upstream::stream::{ServerStream, Servers};

use super::response_body;

/// What an attempt has come to; `None` when the request goes to a server again in place of the response at hand.
#[inline(always)]
pub(in crate::exchange) fn judge<S: Servers>(
    client: &mut Client,
    servers: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    attempted: Result<RespondingServer<S::Stream>, AttemptFailure>,
) -> Option<AttemptResponse<S::Stream>> {
    match attempted {
        Ok(serving) if goes_again(client, exchange, plans, history, &serving) => {
            exchange.record.sent_to_server += serving.server.sent();
            servers.drop_stream(serving.server);
            None
        }
        attempted => Some(AttemptResponse::new(attempted)),
    }
}

/// Whether the request goes to a server again in place of the response at hand.
#[inline(always)]
fn goes_again<T: ServerStream>(
    client: &mut Client,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    serving: &RespondingServer<T>,
) -> bool {
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Response);
    retry::instead(client, exchange, plans, history, serving)
        || exchange.cached.is_some()
            && (cache::response::wants_part_instead(client, exchange, plans, serving)
                || cache::response::confirms_other_version(client, exchange, plans, serving))
}

/// Takes the response whole before the client gets any of it, as far as the route wants that: to store it, or to free its server early.
///
/// # Errors
/// The failure that broke it off.
pub(in crate::exchange) async fn hold<S: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    outcome: AttemptResponse<S::Stream>,
) -> Result<AttemptResponse<S::Stream>, Ended> {
    let AttemptResponse::Passes(mut serving) = outcome else { return Ok(outcome) };
    if exchange.cached.is_some() {
        exchange.mirrored = None;
        match cache::response::take(client, stream, servers, exchange, plans, serving).await? {
            AttemptResponse::Passes(response) => serving = response,
            other => return Ok(other),
        }
    }
    match response_body::wanted(exchange, plans) {
        Some(holding) => {
            let held = response_body::run(client, stream, servers, exchange, plans, (serving, holding));
            held.await.map(AttemptResponse::Done)
        }
        None => Ok(AttemptResponse::Passes(serving)),
    }
}
