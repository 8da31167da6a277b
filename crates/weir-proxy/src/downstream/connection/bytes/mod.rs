//! The life of a connection of bytes: PROXY header, TLS, then the exchanges of its driver, one after the other or many at once.

pub(crate) mod exchanges;
mod proxy_header;
mod tls;
mod certificate_wait;
mod tls_refusal;
mod abandoned;
mod ending;

use std::task::Poll;

use weir_observe::{Failure, Phase};

use self::tls_refusal::TlsRefusal;
use super::ClientConnection;
use super::exchange_pool::future_bytes;
use super::lease::Lease;
use super::streams::StreamLoop;
use crate::downstream::byte_driver::{Agreed, ByteDriver};
use crate::downstream::http1::AfterStream;
use crate::downstream::http2::Http2Connection;
use crate::downstream::transport::{ByteTransport, Transport as _};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::phases::tunnel::TunnelClient;
use crate::net::connection::Connection;
use crate::state::connections::activity::Activity;

/// A client connection with a socket of its own.
pub(crate) type ByteConnection = ClientConnection<ByteTransport>;

impl ByteConnection {
    /// Bytes of one that runs, without what the event loop and TLS keep for it.
    pub(crate) fn bytes_min() -> usize {
        size_of::<Self>() + future_bytes(Self::run)
    }

    /// Serves the connection to its end.
    pub(crate) async fn run(mut self: Box<Self>) {
        self.enter().await;
        let has_header = ByteTransport::names_client(&self.client.listener.plan(), self.client.peer);
        if has_header && !proxy_header::receive(&mut self).await {
            return;
        }
        if !self.begin_tls().await {
            return;
        }
        self.transport.driver = ByteDriver::choose(&self.client, self.agreed());
        if self.transport.driver == ByteDriver::Http2 {
            // On the heap, since it would make every connection larger.
            return Box::pin(self.serve_http2()).await;
        }
        while self.next_request().await {
            let Some(mut lease) = Lease::take(&mut self).await else { break };
            let after;
            (self, after) = lease.run(self).await;
            drop(lease);
            match after {
                AfterStream::KeepAlive => {}
                AfterStream::Close => return self.end_writing().await,
                AfterStream::Tunnel(mut tunnel) => {
                    let outcome = tunnel.run(&mut *self).await;
                    // On the heap, since it would make every connection larger.
                    return Box::pin(self.end_tunnel(tunnel, outcome)).await;
                }
                AfterStream::Http2 => return Box::pin(self.serve_http2()).await,
                // On the heap, since it would make every connection larger.
                after => return Box::pin(self.end(after)).await,
            }
        }
        if let Some(cause) = self.client.deadline.cut_cause() {
            self.count_failure(Failure::weir(Phase::Request, cause));
        }
        if self.transport.connection.tls.is_some() {
            // Idle for too long, or Weir stops: nothing was cut off.
            self.end_writing().await;
        }
    }

    /// Serves the streams of HTTP/2 to the end of the connection.
    fn serve_http2(self: Box<Self>) -> impl Future<Output = ()> {
        StreamLoop::<Http2Connection>::run(self)
    }

    /// Does the TLS handshake where the listener has TLS; `false` when the connection is over.
    async fn begin_tls(&mut self) -> bool {
        let Some(tls) = self.client.listener.plan().tls.clone() else { return true };
        // On the heap, since it is short and would make every connection larger.
        match Box::pin(tls::accept(self, &tls)).await {
            Ok(()) => true,
            Err(TlsRefusal::Failed(failure)) => {
                self.transport.refused = Some(failure);
                true
            }
            Err(TlsRefusal::Closed) => false,
        }
    }

    /// What is agreed on before the first byte of a request.
    fn agreed(&self) -> Agreed<'_> {
        match &self.transport.connection.tls {
            Some(tls) => Agreed::Tls(tls.protocol()),
            None if self.transport.refused.is_some() => Agreed::Refused,
            None => Agreed::Nothing,
        }
    }

    /// Waits, without a buffer, until the client sends something; `false` when the connection is over.
    async fn next_request(&mut self) -> bool {
        if self.transport.connection.has_input() {
            if self.client.requests > 0 {
                // Pipelined: a client that never runs out of requests has one of them served per turn.
                tokio::task::yield_now().await;
            }
            return true;
        }
        // On a TCP listener, the server may send first.
        if self.transport.refused.is_some()
            || self.client.requests == 0 && self.transport.connection.fill_at_once(&self.client.worker.stock)
            || self.transport.driver == ByteDriver::Tcp
        {
            return true;
        }
        let idle = self.client.listener.plan().config.timeouts.idle;
        let idle_ends = self.client.now + idle;
        self.client.deadline.set_at(Some(self.client.ends_at().map_or(idle_ends, |end| end.min(idle_ends))));
        let mut has_looked = false;
        std::future::poll_fn(|cx| {
            if self.client.worker.is_ending() {
                // What has arrived by now is a request that was accepted: it has its answer.
                if !self.transport.connection.is_quiet(true) {
                    return Poll::Ready(true);
                }
                if self.client.worker.is_stopping() && self.is_stopped() || self.is_handed_over() {
                    return Poll::Ready(false);
                }
            }
            if let Some(ends_at) = self.client.listener.ends_at() {
                self.client.deadline.set_ceiling(Some(ends_at));
            }
            let mut readable = self.transport.connection.poll_readable(cx);
            // The readiness may be left from the last request: bytes that were moved inside the kernel, or that filled a buffer, do not show that
            // nothing follows. For nothing, the connection would hold an exchange and a buffer.
            if !std::mem::replace(&mut has_looked, true)
                && readable.is_ready()
                && self.transport.connection.is_quiet(false)
            {
                readable = self.transport.connection.poll_readable(cx);
            }
            match readable {
                Poll::Ready(outcome) => {
                    self.client.deadline.end_idle();
                    Poll::Ready(outcome.is_ok())
                }
                Poll::Pending => {
                    self.client.report_idle(Activity::Idle);
                    let (since, is_new) = (self.client.now, self.client.requests == 0);
                    if self.client.begin_idle(since, is_new) {
                        // A request may have come that the event loop has not reported yet.
                        let is_quiet = self.transport.connection.is_quiet(true);
                        if is_quiet {
                            self.client.note_evicted();
                        }
                        self.client.deadline.end_idle();
                        return Poll::Ready(!is_quiet);
                    }
                    self.client.deadline.poll_passed().map(|()| false)
                }
            }
        })
        .await
    }
}

impl TunnelClient for ByteConnection {
    type End = Connection;

    fn split(&mut self) -> (&mut Client, &mut Connection) {
        (&mut self.client, &mut self.transport.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteConnection, future_bytes};

    #[test]
    fn an_idle_connection_is_small() {
        // Nothing is as numerous. The task around the future has some 104 bytes besides and is rounded up to a multiple of 128.
        let future = future_bytes(ByteConnection::run);
        assert!(future <= 256 - 104, "{future}");
        assert!(size_of::<ByteConnection>() <= 256, "{}", size_of::<ByteConnection>());
    }

    #[test]
    fn a_connection_of_http2_adds_little() {
        let future = future_bytes(ByteConnection::serve_http2);
        assert!(future <= 328, "{future}");
    }
}
