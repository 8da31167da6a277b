//! Reading the head of an HTTP/1 request from a client.
//!
//! A head is parsed as it arrives and copied out whole when it is complete, so that the input buffer is free for the
//! body and a repeated attempt finds the head untouched.

use std::task::Poll;
use std::time::Duration;

use weir_http::{HeadLimits, HeadProgress};
use weir_observe::{Cause, Failure, Phase};

use super::session::Session;
use crate::exchange::{Ended, Exchange};
use crate::net::clock::{self, Instant};
use crate::net::failure::of_io;
use crate::state::activity::Activity;

/// Reads one request head into the exchange.
///
/// # Errors
/// [`Ended::Quietly`] when the client closed before the first byte; else the failure to answer with.
pub(crate) async fn read_request(
    session: &mut Session,
    exchange: &mut Exchange,
    limits: &HeadLimits,
) -> Result<(), Ended> {
    if let Some(failure) = session.refused.take() {
        return Err(Ended::Failed(failure));
    }
    let timeout = session.listener.plan().config.timeouts.request;
    let mut waited = false;
    std::future::poll_fn(|cx| {
        loop {
            match parse(session, exchange, limits) {
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => {}
                Err(failure) => {
                    if !waited {
                        begin(exchange, clock::now());
                    }
                    return Poll::Ready(Err(Ended::Failed(failure)));
                }
            }
            match session.client.poll_fill(cx, &session.worker.stock) {
                Poll::Ready(Ok(len)) if len > 0 => {}
                Poll::Ready(outcome) => return Poll::Ready(Err(closed(session, outcome))),
                Poll::Pending => return wait(session, exchange, &mut waited, timeout),
            }
        }
    })
    .await?;
    let now = clock::now();
    if waited {
        exchange.record.times.add(Phase::Request, u64::from(clock::micros(now - exchange.record.began)));
    } else {
        exchange.record.began = now;
    }
    session.now = now;
    if session.requests == 0 {
        exchange.record.times.add(Phase::Tls, session.tls_micros().into());
    }
    Ok(())
}

/// Parses what has arrived; `true` when the head is complete and moved into the exchange.
fn parse(session: &mut Session, exchange: &mut Exchange, limits: &HeadLimits) -> Result<bool, Failure> {
    let received = session.client.received();
    if received.is_empty() {
        return Ok(false);
    }
    match exchange.request.parse(received, limits) {
        Ok(HeadProgress::Complete { len }) => {
            exchange.request_text.extend_from_slice(exchange.request.text(&received[..len]));
            exchange.record.bytes_in += len as u64;
            session.client.consume(len);
            Ok(true)
        }
        Ok(HeadProgress::Incomplete) => {
            if let Some(input) = session.client.input.as_mut().filter(|input| input.is_full()) {
                let size = (input.len() * 2).min(limits.head_bytes_max + 1).max(input.len() + 1);
                input.grow(size);
            }
            Ok(false)
        }
        Err(rule) => {
            // For the log: the beginning of what could not be read.
            exchange.record.bytes_in += received.len() as u64;
            Err(Failure::client(Phase::Request, Cause::Rule(rule)))
        }
    }
}

/// The client closed or reset the connection instead of sending (the rest of) a head.
fn closed(session: &Session, outcome: std::io::Result<usize>) -> Ended {
    match outcome {
        _ if !session.client.has_input() => Ended::Quietly,
        Ok(_) => Ended::Failed(Failure::client(Phase::Request, Cause::Closed)),
        Err(error) => Ended::Failed(of_io(Phase::Request, weir_observe::Party::Client, &error)),
    }
}

/// The first bytes are here, and are no whole head.
#[cold]
fn begin(exchange: &mut Exchange, now: Instant) {
    (exchange.record.began, exchange.record.accounted) = (now, now);
}

fn wait(
    session: &mut Session,
    exchange: &mut Exchange,
    waited: &mut bool,
    timeout: Duration,
) -> Poll<Result<(), Ended>> {
    if !*waited {
        *waited = true;
        let now = clock::now();
        begin(exchange, now);
        session.deadline.set(now, Some(timeout));
    }
    session.tell(Activity::Head, Some(exchange));
    session.deadline.poll_passed().map(|()| {
        let timed_out = Failure::client(Phase::Request, Cause::TimedOut);
        Err(Ended::Failed(session.deadline.failure(Phase::Request, timed_out)))
    })
}
