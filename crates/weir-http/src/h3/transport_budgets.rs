//! What a peer may do below HTTP/3: the frames of QUIC that cost it little, and data in so many pieces that they cost more than they carry.
//!
//! The owner says from time to time what the connection has seen in all. Each budget is a level that falls with time and with what makes such frames
//! necessary, and that must not rise too high.

use super::fault::Http3Fault;
use crate::message::rule::Rule;

/// Frames without data, and acknowledgements, that may come at once; and those of each 10 ms besides.
const FRAMES_MAX: u64 = 4_000;
const FRAMES_PER_TICK: u64 = 4;
const TICK: u64 = 10;

/// Bytes that were sent to the peer for which it may send a frame, as it does to open its windows.
const SENT_BYTES_PER_FRAME: u64 = 1_000;

/// Frames that a request may come with.
const FRAMES_PER_REQUEST: u64 = 4;

/// Acknowledgements that a datagram to the peer may lead to: frames of ACK come with others that acknowledge the same again.
const ACKS_PER_DATAGRAM: u64 = 4;

/// Pieces of data that were not read, on all streams: windows of 1 MiB in frames of 64 bytes.
const PIECES_MAX: u64 = 16_384;

/// What a connection of QUIC has seen since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransportSeen {
    /// Frames that were received, but for STREAM and ACK.
    pub frames: u64,
    /// ACK frames that were received.
    pub acks: u64,
    /// STREAM frames that were received.
    pub pieces: u64,
    /// Bytes of streams that were read, or that will not be.
    pub read_bytes: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Datagrams that were sent.
    pub sent_datagrams: u64,
    /// Requests that have begun.
    pub requests: u64,
}

/// The budgets of one peer. Time is given by the caller, in milliseconds from any fixed moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransportBudgets {
    seen: TransportSeen,
    at: u64,
    frames: u64,
    acks: u64,
    pieces: u64,
}

impl TransportBudgets {
    /// Charges what has come since it was last charged.
    ///
    /// # Errors
    /// The fault of the connection, when there was too much of something.
    pub fn charge(&mut self, seen: &TransportSeen, now: u64) -> Result<(), Http3Fault> {
        let before = std::mem::replace(&mut self.seen, *seen);
        let ticks = now.saturating_sub(self.at) / TICK;
        self.at += ticks * TICK;
        let by_time = ticks * FRAMES_PER_TICK;
        let earned = (seen.sent_bytes - before.sent_bytes) / SENT_BYTES_PER_FRAME
            + (seen.requests - before.requests) * FRAMES_PER_REQUEST;
        let acknowledged = (seen.sent_datagrams - before.sent_datagrams) * ACKS_PER_DATAGRAM;
        let level = |level: u64, came: u64, earned: u64| (level + came).saturating_sub(earned + by_time);
        self.frames = level(self.frames, seen.frames - before.frames, earned);
        self.acks = level(self.acks, seen.acks - before.acks, acknowledged);
        self.pieces = level(self.pieces, seen.pieces - before.pieces, seen.read_bytes - before.read_bytes);
        match () {
            () if self.frames > FRAMES_MAX => Err(Http3Fault::excessive_load(Rule::QuicFrameFlood)),
            () if self.acks > FRAMES_MAX => Err(Http3Fault::excessive_load(Rule::QuicAckFlood)),
            () if self.pieces > PIECES_MAX => Err(Http3Fault::excessive_load(Rule::QuicTooManyPieces)),
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of 100 000 steps, each of a millisecond, that is too much.
    fn bound(mut step: impl FnMut(&mut TransportSeen)) -> Option<(u64, Rule)> {
        let (mut budgets, mut seen) = (TransportBudgets::default(), TransportSeen::default());
        (1..=100_000).find_map(|number| {
            step(&mut seen);
            budgets.charge(&seen, number).err().map(|fault| (number, fault.rule()))
        })
    }

    #[test]
    fn floods_end_the_connection() {
        let frames = bound(|seen| seen.frames += 40);
        assert_eq!(frames, Some((102, Rule::QuicFrameFlood)));
        let answered = bound(|seen| {
            // What PING frames are answered by earns next to nothing.
            (seen.frames, seen.sent_bytes) = (seen.frames + 40, seen.sent_bytes + 50);
        });
        assert_eq!(answered, Some((102, Rule::QuicFrameFlood)));
        let acks = bound(|seen| seen.acks += 40);
        assert_eq!(acks, Some((102, Rule::QuicAckFlood)));
        let pieces = bound(|seen| {
            (seen.pieces, seen.read_bytes) = (seen.pieces + 100, seen.read_bytes + 20);
        });
        assert_eq!(pieces, Some((206, Rule::QuicTooManyPieces)));
    }

    #[test]
    fn what_transfers_and_requests_bring_is_no_flood() {
        let download = bound(|seen| {
            // 1 GB a second, with a window opened for each 10 kB and an ACK for each datagram.
            (seen.sent_bytes, seen.sent_datagrams) = (seen.sent_bytes + 1_000_000, seen.sent_datagrams + 700);
            (seen.frames, seen.acks) = (seen.frames + 100, seen.acks + 700);
        });
        assert_eq!(download, None);
        let upload = bound(|seen| {
            (seen.pieces, seen.read_bytes) = (seen.pieces + 800, seen.read_bytes + 800_000);
            (seen.sent_datagrams, seen.sent_bytes) = (seen.sent_datagrams + 400, seen.sent_bytes + 20_000);
            (seen.acks, seen.frames) = (seen.acks + 400, seen.frames + 4);
        });
        assert_eq!(upload, None);
        let requests = bound(|seen| {
            (seen.requests, seen.pieces, seen.read_bytes) =
                (seen.requests + 50, seen.pieces + 100, seen.read_bytes + 1_000);
            (seen.sent_datagrams, seen.sent_bytes) = (seen.sent_datagrams + 10, seen.sent_bytes + 10_000);
            (seen.frames, seen.acks) = (seen.frames + 100, seen.acks + 10);
        });
        assert_eq!(requests, None);
        let held = bound(|seen| (seen.frames, seen.acks) = (seen.frames + 1, seen.acks + 1));
        assert_eq!(held, Some((6_665, Rule::QuicFrameFlood)), "1 000 a second");
    }
}
