//! The client of a TCP listener: raw bytes, of which only the first TLS message may be parsed.
//!
//! What was parsed stays in the input and is forwarded unchanged. Must not take part in TLS.

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloProgress};
use weir_observe::{Cause, Failure, Phase};

use super::abort;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::tcp::TcpClient;
use crate::exchange::{Ended, Exchange};
use crate::net::clock;
use crate::net::connection::Connection;
use crate::net::failure::of_io;
use crate::net::tls::facts::TlsFacts;
use crate::net::tls::records::Records;
use crate::relay::http1::Incoming;
use crate::state::connections::activity::Activity;

/// A connection of a TCP listener, before it is a tunnel.
pub(crate) struct TcpStream<'a> {
    pub(crate) connection: &'a mut Connection,
    /// The failure for which the client is not served, until it has been reported to the client.
    pub(crate) refused: &'a mut Option<Failure>,
    /// Whether the first check for an abort, the one without the event loop, was made.
    pub(crate) looked: &'a mut bool,
}

impl TcpStream<'_> {
    /// The client ended its direction, or reset the connection, before its hello was whole.
    fn closed(&self, outcome: std::io::Result<usize>) -> Ended {
        match outcome {
            Ok(_) if !self.connection.has_input() => Ended::Closed,
            Ok(_) => Ended::Failed(Failure::client(Phase::Tls, Cause::Closed)),
            Err(error) => Ended::Failed(of_io(Phase::Tls, weir_observe::Party::Client, &error)),
        }
    }
}

impl ClientEnd for TcpStream<'_> {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.connection.tls.as_deref().map(Records::facts)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.connection.socket.local_address()
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        // A client of a TCP listener may wait for the server to send first.
        self.connection.has_input()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause> {
        abort::poll_aborted(cx, self.connection, self.looked, client, &Incoming::nothing())
    }

    fn body_received(&self) -> u64 {
        0
    }

    fn sent(&self) -> u64 {
        0
    }

    fn stays_open(&self) -> bool {
        false
    }
}

impl TcpClient for TcpStream<'_> {
    fn take_refusal(&mut self) -> Option<Failure> {
        self.refused.take()
    }

    async fn read_server_name(
        &mut self,
        client: &mut Client,
        exchange: &mut Exchange,
        limit: Duration,
    ) -> Result<(), Ended> {
        let mut hello = ClientHello::new();
        client.deadline.set(client.now, Some(limit));
        std::future::poll_fn(|cx| {
            loop {
                match hello.parse(self.connection.received(), CLIENT_HELLO_BYTES_MAX) {
                    Ok(HelloProgress::Complete | HelloProgress::NotTls) => return Poll::Ready(Ok(())),
                    Ok(HelloProgress::Incomplete { .. }) => {}
                    Err(_fault) => {
                        let failure = Failure::client(Phase::Tls, Cause::TlsHandshakeFailed);
                        return Poll::Ready(Err(Ended::Failed(failure)));
                    }
                }
                if let Some(input) = self.connection.input.as_mut().filter(|input| input.is_full()) {
                    input.grow((input.len() * 2).min(CLIENT_HELLO_BYTES_MAX + 1).max(input.len() + 1));
                }
                match self.connection.poll_fill(cx, &client.worker.stock) {
                    Poll::Ready(Ok(len)) if len > 0 => {}
                    Poll::Ready(outcome) => return Poll::Ready(Err(self.closed(outcome))),
                    Poll::Pending => {
                        let timed_out = Failure::client(Phase::Tls, Cause::TimedOut);
                        client.report(Activity::Hello, self, exchange);
                        let over = client.deadline.poll_passed();
                        return over
                            .map(|()| Err(Ended::Failed(client.deadline.failure(Phase::Tls, timed_out))));
                    }
                }
            }
        })
        .await?;
        exchange.server_name.extend_from_slice(hello.server_name().unwrap_or_default().as_bytes());
        client.now = clock::now();
        exchange.record.spend(Phase::Tls, client.now);
        Ok(())
    }
}
