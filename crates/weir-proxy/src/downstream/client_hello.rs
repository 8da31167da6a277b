//! Looking at the first message of a TLS connection that passes through: which server does the client ask for?
//!
//! What was looked at stays in the input and goes to the server untouched. Must not take part in TLS.

use std::task::Poll;
use std::time::Duration;

use weir_http::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloProgress};
use weir_observe::{Cause, Failure, Phase};

use super::session::Session;
use crate::exchange::{Ended, Exchange};
use crate::net::clock;
use crate::net::failure::of_io;
use crate::state::activity::Activity;

/// Reads the name into the exchange; it stays empty when the client names none or does not speak TLS.
///
/// # Errors
/// [`Ended::Quietly`] when the client closed before its first byte; else what is wrong with the hello, or that it did not
/// come within `limit`.
pub(crate) async fn read_name(
    session: &mut Session,
    exchange: &mut Exchange,
    limit: Duration,
) -> Result<(), Ended> {
    let mut hello = ClientHello::new();
    session.deadline.set(session.now, Some(limit));
    std::future::poll_fn(|cx| {
        loop {
            match hello.parse(session.client.received(), CLIENT_HELLO_BYTES_MAX) {
                Ok(HelloProgress::Complete | HelloProgress::NotTls) => return Poll::Ready(Ok(())),
                Ok(HelloProgress::Incomplete { .. }) => {}
                Err(_fault) => {
                    let failure = Failure::client(Phase::Tls, Cause::TlsHandshakeFailed);
                    return Poll::Ready(Err(Ended::Failed(failure)));
                }
            }
            if let Some(input) = session.client.input.as_mut().filter(|input| input.is_full()) {
                input.grow((input.len() * 2).min(CLIENT_HELLO_BYTES_MAX + 1).max(input.len() + 1));
            }
            match session.client.poll_fill(cx, &session.worker.stock) {
                Poll::Ready(Ok(len)) if len > 0 => {}
                Poll::Ready(outcome) => return Poll::Ready(Err(closed(session, outcome))),
                Poll::Pending => {
                    let timed_out = Failure::client(Phase::Tls, Cause::TimedOut);
                    session.tell(Activity::Hello, Some(exchange));
                    let over = session.deadline.poll_passed();
                    return over
                        .map(|()| Err(Ended::Failed(session.deadline.failure(Phase::Tls, timed_out))));
                }
            }
        }
    })
    .await?;
    exchange.server_name.extend_from_slice(hello.server_name().unwrap_or_default().as_bytes());
    session.now = clock::now();
    exchange.record.spend(Phase::Tls, session.now);
    Ok(())
}

/// The client ended its direction, or reset the connection, before its hello was whole.
fn closed(session: &Session, outcome: std::io::Result<usize>) -> Ended {
    match outcome {
        Ok(_) if !session.client.has_input() => Ended::Quietly,
        Ok(_) => Ended::Failed(Failure::client(Phase::Tls, Cause::Closed)),
        Err(error) => Ended::Failed(of_io(Phase::Tls, weir_observe::Party::Client, &error)),
    }
}
