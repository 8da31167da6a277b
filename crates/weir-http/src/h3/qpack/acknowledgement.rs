//! The instructions of a decoder (RFC 9204 section 4.4), which arrive in pieces of any size.

use super::long_integer;
use crate::multiplexed::compression::coding_error::CodingError;

/// Most bytes of an instruction.
pub(super) const DECODER_INSTRUCTION_BYTES_MAX: usize = 10;

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecoderInstruction {
    /// The oldest section of this stream that refers to the dynamic table was decoded.
    AcknowledgeSection(u64),
    /// No section of this stream will be decoded any more.
    CancelStream(u64),
    /// So many more insertions were received.
    Increment(u64),
}

impl DecoderInstruction {
    /// Takes an instruction off the front of `rest`.
    ///
    /// # Errors
    /// [`CodingError::Truncated`] while it is not whole.
    pub(super) fn read(rest: &mut &[u8]) -> Result<DecoderInstruction, CodingError> {
        let Some((&first, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
        *rest = tail;
        Ok(match first {
            0x80.. => DecoderInstruction::AcknowledgeSection(long_integer::read(first, 7, rest)?),
            0x40.. => DecoderInstruction::CancelStream(long_integer::read(first, 6, rest)?),
            _ => DecoderInstruction::Increment(long_integer::read(first, 6, rest)?),
        })
    }

    /// Appends the instruction.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            DecoderInstruction::AcknowledgeSection(stream) => long_integer::write(out, 0x80, 7, stream),
            DecoderInstruction::CancelStream(stream) => long_integer::write(out, 0x40, 6, stream),
            DecoderInstruction::Increment(by) => long_integer::write(out, 0, 6, by),
        }
    }
}
