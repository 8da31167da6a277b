//! An exchange that waits for nothing but time, before it goes on.

use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::{AttemptHistory, HandshakeWait};
use crate::net::clock;
use crate::state::connections::activity::Activity;

/// A wait, if there is to be one. On the heap, since it is rare and would make every exchange larger.
pub(in crate::exchange) struct Pause<W>(Option<Pin<Box<W>>>);

impl<W: Future<Output = Result<(), Ended>>> Future for Pause<W> {
    type Output = Result<(), Ended>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().map_or(Poll::Ready(Ok(())), |wait| wait.as_mut().poll(cx))
    }
}

/// Waits before an attempt that follows another, if that is wanted. It fails when the client leaves meanwhile, or the time of the exchange is over.
#[inline(always)]
pub(in crate::exchange) fn before_retry<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    history: &mut AttemptHistory,
) -> Pause<impl Future<Output = Result<(), Ended>>> {
    let awaits_confirmation = history.handshake_wait == HandshakeWait::Awaited;
    if awaits_confirmation {
        history.handshake_wait = HandshakeWait::Had;
    }
    let wait = (history.pause.take(), awaits_confirmation);
    Pause((wait != (None, false)).then(|| Box::pin(before_attempt(context, wait))))
}

async fn before_attempt<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    (time, awaits_confirmation): (Option<Duration>, bool),
) -> Result<(), Ended> {
    if awaits_confirmation {
        for_confirmation(context).await?;
    }
    match time {
        Some(time) => hold(context, time).await,
        None => Ok(()),
    }
}

/// Waits until the handshake of the client is over.
async fn for_confirmation<U>(context: &mut Context<'_, impl ClientEnd, U>) -> Result<(), Ended> {
    context.client.deadline.set(clock::now(), Some(context.listener.config.timeouts.tls));
    let confirmed = std::future::poll_fn(|cx| {
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Tls, cause)));
        }
        if context.stream.poll_confirmed(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        context.report(Activity::Handshake);
        let timed_out = Failure::client(Phase::Tls, Cause::TimedOut);
        let passed = context.client.deadline.poll_passed();
        passed.map(|()| Err(context.client.deadline.failure(Phase::Tls, timed_out)))
    });
    confirmed.await.map_err(Ended::Failed)?;
    context.client.deadline.set_at(None);
    context.client.now = clock::now();
    context.exchange.record.spend(Phase::Tls, context.client.now);
    Ok(())
}

/// Waits for what another task has been asked, at most for so long: its answer, if it has one by then.
///
/// # Errors
/// When the client leaves meanwhile, or the exchange is ended.
pub(in crate::exchange) async fn for_answer<T, U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    mut asked: oneshot::Receiver<Option<T>>,
    longest: Duration,
) -> Result<Option<T>, Ended> {
    context.client.deadline.set(clock::now(), Some(longest));
    let answer = std::future::poll_fn(|cx| {
        if let Poll::Ready(answer) = Pin::new(&mut asked).poll(cx) {
            return Poll::Ready(Ok(answer.ok().flatten()));
        }
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Queue, cause)));
        }
        context.report(Activity::Queue);
        let is_over = context.client.deadline.poll_passed();
        is_over.map(|()| context.client.deadline.cut_failure(Phase::Queue).map_or(Ok(None), Err))
    });
    let answer = answer.await.map_err(Ended::Failed);
    context.client.deadline.set_at(None);
    answer
}

/// Waits for so long.
///
/// # Errors
/// When the client leaves meanwhile, or the time of the exchange is over.
pub(in crate::exchange) async fn hold<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    time: Duration,
) -> Result<(), Ended> {
    context.client.deadline.set(clock::now(), Some(time));
    std::future::poll_fn(|cx| {
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Queue, cause)));
        }
        context.report(Activity::Queue);
        context.client.deadline.poll_passed().map(|()| {
            match context.client.deadline.cut_failure(Phase::Queue) {
                Some(failure) => Err(failure),
                None if context.client.deadline.ends_with_ceiling() => {
                    Err(Failure::weir(Phase::Queue, Cause::ExchangeTimedOut))
                }
                None => Ok(()),
            }
        })
    })
    .await
    .map_err(Ended::Failed)?;
    context.client.now = clock::now();
    context.exchange.record.spend(Phase::Queue, context.client.now);
    Ok(())
}
