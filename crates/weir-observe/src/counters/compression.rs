//! What one worker has compressed: the counters, and the words for responses that passed as they were.

use weir_http::ContentCoding;

use crate::counters::counter::{Counter, Gauge};

/// Why a response passed as it was on a route that compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompressionRefusal {
    /// The client does not accept any of the codings.
    NotAccepted,
    /// It is known to be shorter than it has to be.
    Short,
    /// Its media type is none of those that are compressed.
    MediaType,
    /// It is encoded already.
    Encoded,
    /// It may not be changed, or is part of a body.
    Unchangeable,
    /// Compression takes more of the worker's time than it may.
    Load,
    /// As many are compressed at the moment as may be.
    Limit,
}

impl CompressionRefusal {
    /// How many reasons there are.
    pub const COUNT: usize = 7;

    /// Every reason; `refusal as usize` is its index.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NotAccepted,
        Self::Short,
        Self::MediaType,
        Self::Encoded,
        Self::Unchangeable,
        Self::Load,
        Self::Limit,
    ];

    /// The stable lower-case name: the label of a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAccepted => "not-accepted",
            Self::Short => "short",
            Self::MediaType => "media-type",
            Self::Encoded => "encoded",
            Self::Unchangeable => "unchangeable",
            Self::Load => "load",
            Self::Limit => "limit",
        }
    }
}

/// The counters of one worker for the bodies that it changes.
#[derive(Debug, Default)]
pub struct CompressionShard {
    /// Responses compressed, by coding.
    pub compressed: [Counter; ContentCoding::COUNT],
    /// Responses decompressed, by coding.
    pub decompressed: [Counter; ContentCoding::COUNT],
    /// Responses that passed as they were, by reason.
    pub refused: [Counter; CompressionRefusal::COUNT],
    /// Responses of routes with `rewrite_body` that passed as they were since they could not be decoded, by reason.
    pub not_rewritten: [Counter; CompressionRefusal::COUNT],
    /// Bytes of bodies before they were compressed.
    pub bytes_in: Counter,
    /// The same bodies compressed.
    pub bytes_out: Counter,
    /// Time that compressing and decompressing took, in nanoseconds.
    pub nanos: Counter,
    /// Responses that are compressed or decompressed at the moment.
    pub open: Gauge,
    /// By how many steps levels have fallen: 0 as configured, 3 the lowest.
    pub step: Gauge,
}

/// The counters of a worker at one moment, as [`CompressionShard`] has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in CompressionShard")]
pub struct CompressionStats {
    #[serde(skip)]
    pub compressed: [u64; ContentCoding::COUNT],
    #[serde(skip)]
    pub decompressed: [u64; ContentCoding::COUNT],
    #[serde(skip)]
    pub refused: [u64; CompressionRefusal::COUNT],
    #[serde(skip)]
    pub not_rewritten: [u64; CompressionRefusal::COUNT],
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub micros: u64,
    pub open: i64,
    pub step: i64,
}

impl CompressionStats {
    pub(crate) fn new(shard: &CompressionShard) -> Self {
        Self {
            compressed: shard.compressed.each_ref().map(Counter::value),
            decompressed: shard.decompressed.each_ref().map(Counter::value),
            refused: shard.refused.each_ref().map(Counter::value),
            not_rewritten: shard.not_rewritten.each_ref().map(Counter::value),
            bytes_in: shard.bytes_in.value(),
            bytes_out: shard.bytes_out.value(),
            micros: shard.nanos.value() / 1000,
            open: shard.open.value(),
            step: shard.step.value(),
        }
    }

    /// Whether any response was compressed or decompressed, or would have been.
    pub fn is_used(&self) -> bool {
        let counts = self.compressed.iter().chain(&self.decompressed).chain(&self.refused);
        counts.into_iter().any(|count| *count > 0)
    }
}
