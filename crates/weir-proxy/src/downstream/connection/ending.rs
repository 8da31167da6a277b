//! The end of a client connection: our direction first, then, for a limited time, what the client still sends.
//!
//! A connection that is closed on unread bytes is reset by the kernel, and the client loses the end of its answer. Must not
//! decide why a connection ends.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_observe::{Cause, Failure, Party};

use super::ClientConnection;
use crate::downstream::http1::AfterStream;
use crate::exchange::exchange_state::lingering;
use crate::exchange::exchange_state::lingering::{FAREWELL_TIME, LINGER_SILENCE, LINGER_TIME};
use crate::exchange::phases::tunnel::Tunnelled;
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::quantum::Quantum;
use crate::relay::tunnel::end::TunnelEnd as _;
use crate::state::connections::activity::Activity;

/// After an answer that leaves request bytes unread, they are still taken in, so that the client reads the answer before it sees a reset
/// (RFC 9112 section 9.6): until it has ended its direction, is silent for [`LINGER_SILENCE`], or for [`LINGER_TIME`] in all. Many a client
/// writes all of its body before it reads, so the bound in bytes is what fast networks carry in that time.
const LINGER_BYTES_MAX: usize = 512 << 20;

/// How long a client may be silent instead of [`LINGER_SILENCE`] while other connections wait for a place: what it was sent takes some
/// round trips to it.
const LINGER_SILENCE_AT_LIMIT: Duration = Duration::from_secs(1);

impl ClientConnection {
    /// Ends our direction, within [`FAREWELL_TIME`].
    pub(super) async fn end_writing(&mut self) {
        self.end_direction(Connection::poll_shutdown_write).await;
    }

    /// Ends our direction without `close_notify`, since the response is not complete.
    async fn cut_short(&mut self) {
        self.end_direction(Connection::poll_cut_short).await;
    }

    async fn end_direction(
        &mut self,
        mut poll_end: impl FnMut(&mut Connection, &mut Context<'_>) -> Poll<()>,
    ) {
        self.client.deadline.set_ceiling(None);
        self.client.deadline.set(clock::now(), Some(FAREWELL_TIME));
        std::future::poll_fn(|cx| match poll_end(&mut self.connection, cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => {
                self.client.report_idle(Activity::Ending);
                self.client.deadline.poll_passed()
            }
        })
        .await;
    }

    /// Ends the connection of an exchange after which nothing else comes, or of a tunnel.
    pub(super) async fn end(mut self: Box<Self>, after: AfterStream) {
        match after {
            AfterStream::Linger => {
                self.end_writing().await;
                self.linger().await;
            }
            AfterStream::CutShort => {
                self.cut_short().await;
                self.linger().await;
            }
            AfterStream::Reset => {
                // As soon as the client's system has everything that was sent.
                lingering::wait(&mut self.client, || self.connection.undelivered()).await;
                self.connection.abort();
            }
            AfterStream::Abort => self.connection.abort(),
            // A tunnel has ended both directions itself.
            AfterStream::Close | AfterStream::KeepAlive | AfterStream::Http2 | AfterStream::Tunnel(_) => {}
        }
    }

    /// Ends the connection of a tunnel that is over. A client gets an end instead of a reset where the server has failed: many systems
    /// discard received bytes that are not yet read when a reset follows.
    pub(super) async fn end_tunnel(
        mut self: Box<Self>,
        tunnel: Box<Tunnelled>,
        outcome: Result<(), Failure>,
    ) {
        let party = match outcome {
            Ok(()) => return,
            Err(failure) if failure.cause == Cause::Drained => return,
            Err(failure) => failure.party,
        };
        tunnel.abort_server(&mut self.client, party).await;
        self.end(if party == Party::Server { AfterStream::CutShort } else { AfterStream::Abort }).await;
    }

    /// Takes in what the client still sends, for a limited time, before the connection closes. Our direction has ended.
    async fn linger(mut self: Box<Self>) {
        // What comes now is not read, only taken.
        (self.connection.tls, self.connection.input) = (None, None);
        let began = clock::now();
        let (mut left, mut silent_since) = (LINGER_BYTES_MAX, began);
        std::future::poll_fn(|cx| {
            let limit = if self.client.worker.is_stopping() { FAREWELL_TIME } else { LINGER_TIME };
            self.client.deadline.set_ceiling(Some(began + limit));
            match self.poll_take_in(cx, &mut left, &mut silent_since) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => {
                    let silence = self.silence_max(left);
                    self.client.deadline.set(silent_since, Some(silence));
                    // A shortage of places may begin meanwhile.
                    self.client.deadline.look_again(clock::now() + LINGER_SILENCE_AT_LIMIT);
                    self.client.report_idle(Activity::Ending);
                    self.client.deadline.poll_passed()
                }
            }
        })
        .await;
    }

    /// How long the client may be silent.
    fn silence_max(&self, bytes_left: usize) -> Duration {
        if self.client.worker.shared.places.ends.is_awaited() {
            LINGER_SILENCE_AT_LIMIT
        } else if bytes_left > 0 {
            LINGER_SILENCE
        } else {
            FAREWELL_TIME
        }
    }

    /// Takes in what the client sends, up to `left` bytes, and forgets it; ready when there will be no more.
    fn poll_take_in(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut usize,
        silent_since: &mut Instant,
    ) -> Poll<()> {
        let mut quantum = Quantum::new();
        while *left > 0 {
            ready!(quantum.poll_left(cx));
            match ready!(self.connection.poll_fill(cx, &self.client.worker.stock)) {
                Ok(len) if len > 0 => {
                    *left = left.saturating_sub(len);
                    quantum.take(len);
                }
                _ => return Poll::Ready(()),
            }
            self.connection.input = None;
            *silent_since = clock::now();
        }
        Poll::Pending
    }
}
