//! What a connection sees of QUIC below its streams: whether its client floods it, and whether it takes what it is sent.

use std::cell::Cell;

use quinn_proto::FrameStats;
use weir_http::h3::{Http3Fault, TransportBudgets, TransportSeen};

use crate::net::quic::link::QuicLink;

/// The watch of one connection.
#[derive(Debug, Default)]
pub(super) struct TransportWatch {
    budgets: TransportBudgets,
    moved: Cell<MovedBytes>,
}

/// What has left with data of streams: packets without, as those that acknowledge a PING, show nothing of what a client takes.
#[derive(Debug, Clone, Copy, Default)]
struct MovedBytes {
    frames: u64,
    sent: u64,
    moved: u64,
}

impl TransportWatch {
    /// Holds the frames of the client to their bounds, of which `requests` came with many. `now` is in milliseconds.
    ///
    /// # Errors
    /// The fault of the connection, when there was too much of something.
    pub(super) fn charge(&mut self, link: &QuicLink, requests: u64, now: u64) -> Result<(), Http3Fault> {
        let stats = link.with(|connection| connection.stats());
        let seen = TransportSeen {
            frames: control_frames(&stats.frame_rx),
            acks: stats.frame_rx.acks,
            pieces: stats.frame_rx.stream,
            read_bytes: link.read_bytes(),
            sent_bytes: stats.udp_tx.bytes,
            sent_datagrams: stats.udp_tx.datagrams,
            requests,
        };
        self.budgets.charge(&seen, now)
    }

    /// Bytes that have left for the client with data of streams, as far as can be told from outside.
    pub(super) fn moved_bytes(&self, link: &QuicLink) -> u64 {
        let (stats, packet_max) = link.with(|connection| (connection.stats(), connection.current_mtu()));
        let (frames, sent) = (stats.frame_tx.stream, stats.udp_tx.bytes);
        let before = self.moved.get();
        let with_data = (frames - before.frames) * u64::from(packet_max);
        let moved = before.moved + with_data.min(sent - before.sent);
        self.moved.set(MovedBytes { frames, sent, moved });
        moved
    }
}

/// Frames that carry neither data nor acknowledgements.
fn control_frames(received: &FrameStats) -> u64 {
    [
        received.crypto,
        received.data_blocked,
        received.max_data,
        received.max_stream_data,
        received.max_streams_bidi,
        received.max_streams_uni,
        received.new_connection_id,
        received.path_challenge,
        received.path_response,
        received.ping,
        received.reset_stream,
        received.retire_connection_id,
        received.stream_data_blocked,
        received.streams_blocked_bidi,
        received.streams_blocked_uni,
        received.stop_sending,
    ]
    .iter()
    .sum()
}
