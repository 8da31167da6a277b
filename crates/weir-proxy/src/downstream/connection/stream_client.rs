//! The client of one stream among several of a connection.

use std::task::Context;

use weir_observe::{Cause, Failure, Phase};

use crate::downstream::stream_driver::DrivenStream;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::phases::tunnel::TunnelClient;

/// A stream, and its client: what is known of it, and its own deadline.
pub(crate) struct StreamClient<S: DrivenStream> {
    pub(crate) client: Client,
    pub(crate) stream: S,
}

impl<S: DrivenStream> StreamClient<S> {
    /// The next stream on the connection of `client`.
    pub(super) fn new(client: &Client, stream: S) -> Box<Self> {
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
        let Client { worker, listener, .. } = &self.client;
        listener.shard.failures.record(failure);
        worker.record_connection(failure, self.client.without_exchange(), listener);
    }
}

impl<S: DrivenStream> TunnelClient for StreamClient<S> {
    type End = S;

    fn split(&mut self) -> (&mut Client, &mut S) {
        (&mut self.client, &mut self.stream)
    }
}

impl<S: DrivenStream> Drop for StreamClient<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.client.worker.shard.panics.increment();
            self.count_failure(Failure::weir(Phase::Relay, Cause::Panicked));
        }
        self.client.listener.shard.streams_open.decrement();
        self.client.leave_task();
    }
}
