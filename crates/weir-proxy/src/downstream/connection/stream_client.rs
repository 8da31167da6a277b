//! The client of one stream among several of a connection.

use std::task::Context;

use weir_observe::{Cause, Failure, Phase};

use crate::downstream::http2::Http2Stream;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::phases::tunnel::TunnelClient;

/// A stream of HTTP/2, and its client: what it is known of, and its own deadline.
pub(crate) struct StreamClient {
    pub(crate) client: Client,
    pub(crate) stream: Http2Stream,
}

impl StreamClient {
    /// The next stream on the connection of `client`.
    pub(super) fn new(client: &Client, stream: Http2Stream) -> Box<Self> {
        let client = client.for_task();
        client.listener.shard.streams_open.increment();
        Box::new(Self { client, stream })
    }

    /// The task of `cx` runs it from now on.
    pub(super) fn enter(&mut self, cx: &Context<'_>) {
        self.client.deadline.enter(cx);
        self.stream.enter(cx);
    }

    /// Counts a failure on which there was no exchange.
    #[cold]
    pub(super) fn count_failure(&self, failure: Failure) {
        let Client { worker, listener, peer, number, opened_at, .. } = &self.client;
        listener.shard.failures.record(failure);
        worker.record_connection(failure, *peer, *number, listener, *opened_at);
    }
}

impl TunnelClient for StreamClient {
    type End = Http2Stream;

    fn split(&mut self) -> (&mut Client, &mut Http2Stream) {
        (&mut self.client, &mut self.stream)
    }
}

impl Drop for StreamClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.client.worker.shard.panics.increment();
            self.count_failure(Failure::weir(Phase::Relay, Cause::Panicked));
        }
        self.client.listener.shard.streams_open.decrement();
        self.client.leave_task();
    }
}
