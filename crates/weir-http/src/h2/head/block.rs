//! A header block as a message: its limits, and what breaks the connection or only the message.
//!
//! Once the message is broken, the rest of its block is decoded all the same, and dropped: the tables of both sides must stay in step
//! (RFC 9113 section 4.3). Only a block that is far too large is given up, and the connection with it.

use crate::h2::fault::ConnectionFault;
use crate::h2::frame::ErrorCode;
use crate::h2::hpack::{DecodedLine, HpackDecoder, HpackError, LineName, counted_bytes};
use crate::message::fields::Field;
use crate::message::limits::HeadLimits;
use crate::message::name::FieldName;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;

/// How often a limit must be exceeded for the block to be given up.
const GIVE_UP_FACTOR: usize = 4;

/// Why a header block gives no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockError {
    /// The block cannot be decoded. The connection is lost: COMPRESSION_ERROR.
    Compression(HpackError),
    /// The block exceeds a limit more than four times. It was not decoded to its end, so the connection is lost: ENHANCE_YOUR_CALM.
    TooLarge,
    /// The message breaks a rule. The stream is lost, or answered with an error; the connection lives on.
    Malformed(Rule),
}

impl BlockError {
    /// Whether the connection is lost.
    pub const fn is_of_connection(self) -> bool {
        self.connection_fault().is_some()
    }

    /// The fault of the connection, if it is lost.
    pub const fn connection_fault(self) -> Option<ConnectionFault> {
        match self {
            BlockError::Compression(_) => {
                Some(ConnectionFault { code: ErrorCode::COMPRESSION_ERROR, rule: Rule::Http2BadHeaderBlock })
            }
            BlockError::TooLarge => Some(ConnectionFault::calm(Rule::Http2BlockTooLarge)),
            BlockError::Malformed(_) => None,
        }
    }
}

impl From<HpackError> for BlockError {
    fn from(error: HpackError) -> BlockError {
        BlockError::Compression(error)
    }
}

/// Decodes a block of which nothing is wanted, as that of a stream that was refused: `text` is used up.
///
/// # Errors
///
/// Only those that break the connection.
pub fn skip_block(
    decoder: &mut HpackDecoder,
    block: &[u8],
    text: &mut Vec<u8>,
    limits: &HeadLimits,
) -> Result<(), BlockError> {
    // Any rule will do: the first line breaks it, and the others go with it.
    let skip = |_: &mut Vec<u8>, _| Err(Rule::HeadTooLarge);
    match read_lines(decoder, block, text, BlockLimits::of_head(limits), skip) {
        Err(error) if error.is_of_connection() => Err(error),
        _ => Ok(()),
    }
}

/// The limits of one block.
#[derive(Clone, Copy)]
pub(super) struct BlockLimits {
    /// Of names and values, and 32 bytes for each (RFC 9113 section 10.5.1).
    pub(super) bytes_max: usize,
    /// Of fields, of which pseudo-fields are none and each part of a cookie is one.
    pub(super) fields_max: usize,
}

impl BlockLimits {
    pub(super) const fn of_head(limits: &HeadLimits) -> BlockLimits {
        BlockLimits { bytes_max: limits.window(), fields_max: limits.fields_max }
    }
}

/// What the lines of a block count so far.
struct BlockCount {
    bytes: usize,
    fields: usize,
}

impl BlockCount {
    /// Counts a line.
    #[inline(always)]
    fn add(&mut self, line_len: usize, name: LineName) {
        self.bytes += counted_bytes(line_len);
        self.fields += usize::from(matches!(name, LineName::Field(_)));
    }

    /// Checks the count.
    #[inline(always)]
    fn check(&self, limits: BlockLimits) -> Result<(), BlockError> {
        if self.bytes <= limits.bytes_max && self.fields <= limits.fields_max {
            return Ok(());
        }
        self.blame(limits)
    }

    #[cold]
    fn blame(&self, limits: BlockLimits) -> Result<(), BlockError> {
        let give_up = |max: usize| max.saturating_mul(GIVE_UP_FACTOR);
        if self.bytes > give_up(limits.bytes_max) || self.fields > give_up(limits.fields_max) {
            return Err(BlockError::TooLarge);
        }
        let is_large = self.bytes > limits.bytes_max;
        Err(BlockError::Malformed(if is_large { Rule::HeadTooLarge } else { Rule::TooManyFields }))
    }
}

/// Decodes a block into `text`, which is emptied first, and calls `read` for each line until one breaks a rule. The line is the last of the
/// text then; `read` may take it off again.
#[inline(always)]
pub(super) fn read_lines(
    decoder: &mut HpackDecoder,
    block: &[u8],
    text: &mut Vec<u8>,
    limits: BlockLimits,
    mut read: impl FnMut(&mut Vec<u8>, DecodedLine) -> Result<(), Rule>,
) -> Result<(), BlockError> {
    text.clear();
    let mut count = BlockCount { bytes: 0, fields: 0 };
    let mut broken = None;
    decoder.decode(block, text, |text, line| {
        count.add(text.len() - line.start, line.class.name);
        let within_limits = match count.check(limits) {
            Err(BlockError::Malformed(rule)) => Err(rule),
            Err(error) => return Err(error),
            Ok(()) => Ok(()),
        };
        if broken.is_none() {
            let outcome = match line.class.broken {
                Some(rule) => Err(rule),
                None => within_limits.and_then(|()| read(text, line)),
            };
            broken = outcome.err();
        }
        if broken.is_some() {
            text.truncate(line.start);
        }
        Ok(())
    })?;
    broken.map_or(Ok(()), |rule| Err(BlockError::Malformed(rule)))
}

/// Where the value of a line is that ends the text.
#[inline(always)]
pub(super) fn value_span(text: &[u8], line: DecodedLine) -> TextSpan {
    TextSpan::new(line.start + line.name_len + 2, text.len() - 2)
}

/// The field of a line that ends the text.
#[inline(always)]
pub(super) fn field(text: &[u8], line: DecodedLine, known: FieldName) -> Field {
    let name = TextSpan::new(line.start, line.start + line.name_len);
    Field { name, value: value_span(text, line), known }
}
