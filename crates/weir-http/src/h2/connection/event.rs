//! What a connection reports to its owner.

use std::ops::Range;

use crate::h2::fault::StreamFault;
use crate::h2::frame::ErrorCode;

/// The outcome of one step of [`ConnectionCodec::receive`](super::ConnectionCodec::receive).
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the input that are dealt with.
    pub used: usize,
    /// What has happened; `None` when more input is needed.
    pub event: Option<Event>,
}

/// Something that has happened on the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A header block is complete. It has to be decoded in any case, or the table of HPACK is out of step.
    Block {
        /// Its stream.
        stream: u32,
        /// Where it is.
        block: Block,
        /// What it is.
        usage: BlockUse,
        /// Whether nothing follows on the stream.
        ends_stream: bool,
    },
    /// Part of a body.
    Data {
        /// Its stream, which is open and not reset.
        stream: u32,
        /// The bytes, in the input. To be reported as consumed when they have been passed on.
        data: Range<usize>,
        /// Whether nothing follows on the stream.
        ends_stream: bool,
    },
    /// The peer has reset a stream.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// The peer has broken a rule on a stream, which was reset.
    Fault {
        /// The stream.
        stream: u32,
        /// Which rule.
        fault: StreamFault,
    },
    /// More may be sent: on this stream, or on all when it is 0.
    Window {
        /// The stream.
        stream: u32,
    },
    /// The peer has changed its settings.
    Settings,
    /// The answer to a ping.
    Pong {
        /// What was sent.
        payload: [u8; 8],
    },
    /// The peer takes no further streams (RFC 9113 section 6.8).
    GoAway {
        /// The last that it has taken.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// The client wants another order (RFC 9218 section 7.1).
    Priority {
        /// The stream, which may not be open yet.
        stream: u32,
        /// The value of the priority field, in the input.
        value: Range<usize>,
    },
}

/// Where a header block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// In the input.
    Input(Range<usize>),
    /// In the connection, which has put it together: [`ConnectionCodec::take_block`](super::ConnectionCodec::take_block).
    Gathered,
}

/// What a header block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockUse {
    /// The head of a request, or of a response; from a server perhaps an interim one.
    Head,
    /// The trailers of a request. Those of a response are told apart from its head by the caller.
    Trailers,
    /// Nothing: only its effect on the table counts.
    Discard,
    /// The same, since there are as many streams as there may be: its stream was reset.
    Refused,
    /// The same, since it broke a rule: its stream was reset.
    Fault(StreamFault),
}
