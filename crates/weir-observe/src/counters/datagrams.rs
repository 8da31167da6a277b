//! What one worker has received and sent for connections of QUIC.

use serde::Serialize;

use crate::counters::counter::Counter;

/// The counters of one worker for its UDP sockets.
#[derive(Debug, Default)]
pub struct DatagramShard {
    /// Datagrams received.
    pub received: Counter,
    /// The runs that they came in: the kernel joins datagrams of one sender (GRO).
    pub received_runs: Counter,
    /// Datagrams sent.
    pub sent: Counter,
    /// The runs that they were sent in, each with one system call (GSO).
    pub sent_runs: Counter,
    /// Datagrams that came to this worker and belong to another: they were handed over, or lost where too many waited.
    pub handed_over: Counter,
    /// Those that were lost on that way.
    pub handed_over_lost: Counter,
    /// Datagrams for connections of a process before this one.
    pub forwarded: Counter,
    /// Datagrams that the kernel has dropped since the buffer of a socket was full.
    pub dropped: Counter,
}

/// The values of a [`DatagramShard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in DatagramShard")]
pub struct DatagramStats {
    pub received: u64,
    pub received_runs: u64,
    pub sent: u64,
    pub sent_runs: u64,
    pub handed_over: u64,
    pub handed_over_lost: u64,
    pub forwarded: u64,
    pub dropped: u64,
}

impl DatagramStats {
    pub(crate) fn new(shard: &DatagramShard) -> Self {
        Self {
            received: shard.received.value(),
            received_runs: shard.received_runs.value(),
            sent: shard.sent.value(),
            sent_runs: shard.sent_runs.value(),
            handed_over: shard.handed_over.value(),
            handed_over_lost: shard.handed_over_lost.value(),
            forwarded: shard.forwarded.value(),
            dropped: shard.dropped.value(),
        }
    }
}
