//! The end of a connection of bytes: our direction first, then, for a limited time, what the client still sends.
//!
//! A connection that is closed on unread bytes is reset by the kernel, and the client loses the end of its answer. Must not
//! decide why a connection ends.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::ByteTransport;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::lingering;
use crate::exchange::exchange_state::lingering::{FAREWELL_TIME, LINGER_SILENCE, LINGER_TIME};
use crate::net::buffer::BufferStock;
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

impl ByteTransport {
    /// Ends our direction, within [`FAREWELL_TIME`].
    pub(crate) fn end_writing(&mut self, client: &mut Client) -> impl Future<Output = ()> {
        self.end_direction(client, Connection::poll_shutdown_write)
    }

    /// Ends our direction without `close_notify`, since the response is not complete.
    pub(crate) fn cut_short(&mut self, client: &mut Client) -> impl Future<Output = ()> {
        self.end_direction(client, Connection::poll_cut_short)
    }

    /// Not an `async fn`: all idle connections have room for it.
    fn end_direction(
        &mut self,
        client: &mut Client,
        mut poll_end: impl FnMut(&mut Connection, &mut Context<'_>) -> Poll<()>,
    ) -> impl Future<Output = ()> {
        client.deadline.set_ceiling(None);
        client.deadline.set(clock::now(), Some(FAREWELL_TIME));
        std::future::poll_fn(move |cx| match poll_end(&mut self.connection, cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => {
                client.report_idle(Activity::Ending);
                client.deadline.poll_passed()
            }
        })
    }

    /// Has the drop of the connection reset it, as soon as the client's system has everything that was sent.
    pub(crate) async fn reset_delivered(&mut self, client: &mut Client) {
        lingering::wait(client, || self.connection.undelivered()).await;
        self.connection.abort();
    }

    /// Has the drop of the connection reset it.
    pub(crate) fn abort(&mut self) {
        self.connection.abort();
    }

    /// Takes in what the client still sends, for a limited time, before the connection closes. Our direction has ended.
    pub(crate) async fn linger(&mut self, client: &mut Client) {
        // What comes now is not read, only taken.
        (self.connection.tls, self.connection.input) = (None, None);
        let began = clock::now();
        let (mut left, mut silent_since) = (LINGER_BYTES_MAX, began);
        std::future::poll_fn(|cx| {
            let limit = if client.worker.is_stopping() { FAREWELL_TIME } else { LINGER_TIME };
            client.deadline.set_ceiling(Some(began + limit));
            match self.poll_take_in(cx, &client.worker.stock, &mut left, &mut silent_since) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => {
                    let silence = silence_max(client, left);
                    client.deadline.set(silent_since, Some(silence));
                    // A shortage of places may begin meanwhile.
                    client.deadline.look_again(clock::now() + LINGER_SILENCE_AT_LIMIT);
                    client.report_idle(Activity::Ending);
                    client.deadline.poll_passed()
                }
            }
        })
        .await;
    }

    /// Takes in what the client sends, up to `left` bytes, and forgets it; ready when there will be no more.
    fn poll_take_in(
        &mut self,
        cx: &mut Context<'_>,
        stock: &Rc<BufferStock>,
        left: &mut usize,
        silent_since: &mut Instant,
    ) -> Poll<()> {
        let mut quantum = Quantum::new();
        while *left > 0 {
            ready!(quantum.poll_left(cx));
            match ready!(self.connection.poll_fill(cx, stock)) {
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

/// How long the client may be silent.
fn silence_max(client: &Client, bytes_left: usize) -> Duration {
    if client.worker.shared.places.ends.is_awaited() {
        LINGER_SILENCE_AT_LIMIT
    } else if bytes_left > 0 {
        LINGER_SILENCE
    } else {
        FAREWELL_TIME
    }
}
