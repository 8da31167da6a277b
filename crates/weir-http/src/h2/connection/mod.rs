//! One connection of HTTP/2, without I/O: bytes in, events out, frames appended to an output.
//!
//! Keeps the states of streams, both directions of flow control, and the budgets that bound what a peer may make us do. The
//! header blocks are decoded and encoded by the caller, with the tables of HPACK that belong to the connection. Time is given
//! by the caller, in milliseconds from any fixed moment.

mod receive;
mod send;
mod event;

use std::ops::RangeInclusive;

use super::fault::ConnectionFault;
use super::frame::{ErrorCode, FRAME_BYTES_MAX, PREFACE, WINDOW_MAX, write_go_away, write_ping, write_reset};
use super::settings::{INITIAL_WINDOW, Settings};
use super::stream::Streams;
use super::window::{ReceiveWindow, SendWindow};
use crate::message::rule::Rule;
use crate::multiplexed::bucket::Bucket;
use crate::multiplexed::role::Role;
use receive::Receiving;

pub use event::{Block, BlockUse, Event, Received};
pub use send::OpenBlock;

/// Streams that a peer is taken to allow until it says so itself.
const STREAMS_ASSUMED: u32 = 100;

/// Bounds of what a peer may do on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Bytes of one header block. Default 32 KiB.
    pub block_bytes_max: usize,
    /// Bytes of bodies that were received, were not consumed, and yet do not hold up other streams. Default 1 MiB.
    pub held_bytes_max: u32,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { block_bytes_max: 32 * 1024, held_bytes_max: 1 << 20 }
    }
}

/// A connection of HTTP/2.
#[derive(Debug)]
pub struct ConnectionCodec {
    role: Role,
    limits: ConnectionLimits,
    /// Ours, as announced.
    local: Settings,
    /// The peer's.
    remote: Settings,
    /// Whether the peer's first settings have come.
    has_settings: bool,
    /// Our settings frames that the peer has not acknowledged.
    unacknowledged: u8,
    receiving: Receiving,
    /// The fragments of a header block that is not complete.
    block: Vec<u8>,
    streams: Streams,
    /// The greatest number of a stream that was opened.
    last_stream: u32,
    /// The numbers that the peer left out last, which are below that: these streams can never be opened (RFC 9113 section 5.1.1).
    skipped: RangeInclusive<u32>,
    /// The greatest number of a stream that we still take, once we have said so.
    last_taken: u32,
    /// The greatest number that the peer still takes, once it has said so.
    last_granted: Option<u32>,
    send: SendWindow,
    receive: ReceiveWindow,
    /// Bytes of bodies that were received and not consumed.
    held: u32,
    /// Those of them whose room in the window has not been given back.
    owed: u32,
    resets: Bucket,
    /// What the last stream that was charged as a reset counts as.
    last_reset: Rule,
    control: Bucket,
    /// RST_STREAM frames that were written.
    resets_sent: u32,
}

impl ConnectionCodec {
    /// A connection at its beginning. Writes what has to come first: the preface of a client, and our settings.
    pub fn new(role: Role, local: Settings, limits: ConnectionLimits, out: &mut Vec<u8>) -> Self {
        if role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        local.write(out);
        let remote = Settings { max_concurrent_streams: STREAMS_ASSUMED, ..Settings::default() };
        Self {
            role,
            limits,
            local,
            remote,
            has_settings: false,
            unacknowledged: 1,
            receiving: Receiving::first(role),
            block: Vec::new(),
            streams: Streams::default(),
            last_stream: 0,
            skipped: 0..=0,
            last_taken: WINDOW_MAX,
            last_granted: None,
            send: SendWindow::new(INITIAL_WINDOW),
            receive: ReceiveWindow::new(INITIAL_WINDOW),
            held: 0,
            owed: 0,
            resets: Bucket::new(200, 20),
            last_reset: Rule::Http2TooManyResets,
            control: Bucket::new(1_000, 100),
            resets_sent: 0,
        }
    }

    /// The peer's settings, as far as they have come.
    pub fn remote(&self) -> &Settings {
        &self.remote
    }

    /// Streams that are open, or whose exchange is not torn down yet.
    pub fn streams_open(&self) -> usize {
        self.streams.len()
    }

    /// Streams that were opened since the connection began.
    pub fn streams_opened(&self) -> u32 {
        self.last_stream.div_ceil(2)
    }

    /// Gives back the memory that is not used, as on an idle connection.
    pub fn shrink(&mut self) {
        self.streams.shrink();
    }

    /// Whether the peer has acknowledged our settings.
    pub fn is_acknowledged(&self) -> bool {
        self.unacknowledged == 0
    }

    /// Whether a header block has begun and is not complete: nothing else may come before its end.
    pub fn is_in_block(&self) -> bool {
        self.receiving.is_in_block()
    }

    /// Whether the preface and the first settings of the peer have come.
    pub fn has_begun(&self) -> bool {
        self.has_settings
    }

    /// Announces that streams beyond `last_stream` will not be taken; [`ConnectionCodec::last_stream`], or 2^31-1 as a first step, after which
    /// those that are on their way are still taken (RFC 9113 section 6.8).
    pub fn go_away(&mut self, last_stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        self.last_taken = self.last_taken.min(last_stream);
        write_go_away(out, self.last_taken, code);
    }

    /// The greatest number of a stream that was opened; 0 before the first.
    pub fn last_stream(&self) -> u32 {
        self.last_stream
    }

    /// RST_STREAM frames that were written since this was asked last.
    pub fn take_resets_sent(&mut self) -> u32 {
        std::mem::take(&mut self.resets_sent)
    }

    /// Writes RST_STREAM.
    fn write_reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        self.resets_sent = self.resets_sent.saturating_add(1);
        write_reset(out, stream, code);
    }

    /// Asks for a sign of life: an [`Event::Pong`] with the same payload.
    pub fn ping(&mut self, payload: [u8; 8], out: &mut Vec<u8>) {
        write_ping(out, payload, false);
    }

    /// Largest payload of a frame that we send: what every peer takes. Larger ones would make other streams wait.
    const fn frame_bytes_max() -> usize {
        FRAME_BYTES_MAX
    }

    /// Charges a frame that costs the peer little. All draw from one budget; `rule` is broken by the one that exhausts it.
    fn charge_control(&mut self, now: u64, rule: Rule) -> Result<(), ConnectionFault> {
        if self.control.take(now) { Ok(()) } else { Err(ConnectionFault::calm(rule)) }
    }

    /// Charges a stream that ends before its time through the peer, as above.
    fn charge_reset(&mut self, now: u64, rule: Rule) -> Result<(), ConnectionFault> {
        self.last_reset = rule;
        if self.resets.take(now) { Ok(()) } else { Err(ConnectionFault::calm(rule)) }
    }

    /// Whether a stream has not been opened yet.
    const fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id > self.last_stream
    }
}

#[cfg(test)]
mod tests;
