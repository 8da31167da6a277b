//! What a peer does wrong: faults of a stream end that stream, faults of the connection end all (RFC 9113 section 5.4).

use super::frame::ErrorCode;
use crate::message::rule::Rule;

/// A fault after which the connection can carry nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionFault {
    /// What GOAWAY says.
    pub code: ErrorCode,
    /// The rule that was broken.
    pub rule: Rule,
}

impl ConnectionFault {
    pub(super) const fn protocol(rule: Rule) -> Self {
        Self { code: ErrorCode::PROTOCOL_ERROR, rule }
    }

    /// A frame has a length that its type does not allow.
    pub(super) const fn frame_size() -> Self {
        Self { code: ErrorCode::FRAME_SIZE_ERROR, rule: Rule::Http2BadFrameLength }
    }

    /// The peer does too much of something that costs it little.
    pub(super) const fn calm(rule: Rule) -> Self {
        Self { code: ErrorCode::ENHANCE_YOUR_CALM, rule }
    }
}

/// A fault that ends one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFault {
    /// What RST_STREAM says.
    pub code: ErrorCode,
    /// The rule that was broken.
    pub rule: Rule,
}

impl StreamFault {
    /// Of a message that is malformed (RFC 9113 section 8.1.1).
    pub const fn protocol(rule: Rule) -> Self {
        Self { code: ErrorCode::PROTOCOL_ERROR, rule }
    }
}
