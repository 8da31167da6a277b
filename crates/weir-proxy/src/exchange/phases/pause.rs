//! An exchange that waits for nothing but time, before it goes on.

use std::task::Poll;
use std::time::Duration;

use weir_observe::{Cause, Failure, Phase};

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::AttemptHistory;
use crate::net::clock;
use crate::state::connections::activity::Activity;

/// Waits before an attempt that follows another, if that is wanted.
///
/// # Errors
/// When the client leaves meanwhile, or the time of the exchange is over.
#[inline(always)]
pub(in crate::exchange) async fn before_retry(
    client: &mut Client,
    stream: &mut impl ClientEnd,
    exchange: &mut Exchange,
    history: &mut AttemptHistory,
) -> Result<(), Ended> {
    match history.pause.take() {
        // On the heap, since it is rare and would make every exchange larger.
        Some(time) => Box::pin(hold(client, stream, exchange, time)).await,
        None => Ok(()),
    }
}

/// Waits for so long.
///
/// # Errors
/// When the client leaves meanwhile, or the time of the exchange is over.
pub(in crate::exchange) async fn hold(
    client: &mut Client,
    stream: &mut impl ClientEnd,
    exchange: &mut Exchange,
    time: Duration,
) -> Result<(), Ended> {
    client.deadline.set(clock::now(), Some(time));
    std::future::poll_fn(|cx| {
        if let Some(cause) = stream.poll_gone(cx, client) {
            return Poll::Ready(Err(Failure::client(Phase::Queue, cause)));
        }
        client.report(Activity::Queue, stream, exchange);
        client.deadline.poll_passed().map(|()| match client.deadline.cut_failure(Phase::Queue) {
            Some(failure) => Err(failure),
            None if client.deadline.ends_with_ceiling() => {
                Err(Failure::weir(Phase::Queue, Cause::ExchangeTimedOut))
            }
            None => Ok(()),
        })
    })
    .await
    .map_err(Ended::Failed)?;
    client.now = clock::now();
    exchange.record.spend(Phase::Queue, client.now);
    Ok(())
}
