//! What can be wrong with a field section, or with an instruction on a stream of QPACK.

use crate::multiplexed::compression::coding_error::CodingError;

/// Why a field section cannot be decoded, or an instruction not be followed. The connection is lost: QPACK_DECOMPRESSION_FAILED,
/// QPACK_ENCODER_STREAM_ERROR or QPACK_DECODER_STREAM_ERROR (RFC 9204 section 6), by where it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QpackError {
    /// The section ends within a field.
    Truncated,
    /// An integer is too long (section 4.1.1).
    IntegerTooLong,
    /// A string holds the end-of-string symbol (section 4.1.2).
    EndOfString,
    /// The padding of a string has more than seven bits, or a bit that is not set (section 4.1.2).
    BadPadding,
    /// An index is beyond the end of a table, or behind what the section says that it needs (sections 2.2.3 and 3.2).
    BadIndex,
    /// The required insert count is one that no encoder can mean (section 4.5.1.1).
    BadInsertCount,
    /// The base is before the first entry (section 4.5.1.2).
    BadBase,
    /// More streams wait for entries than we allow (section 2.1.2).
    TooManyBlocked,
    /// The sections that wait for entries are larger than the limit.
    BlockedTooLarge,
    /// The table becomes larger than it may be (section 4.3.1).
    CapacityTooLarge,
    /// An entry is larger than the table (section 3.2.2).
    EntryTooLarge,
    /// An instruction is longer than any that could be followed.
    InstructionTooLong,
    /// There were more instructions than the limit.
    TooManyInstructions,
    /// A section is acknowledged that was not sent, or that refers to no entry of the dynamic table (section 4.4.1).
    UnknownSection,
    /// The insert count rises by nothing, or beyond what was inserted (section 4.4.3).
    BadIncrement,
    /// The peer does not read what we acknowledge.
    TooMuchUnsent,
}

impl From<CodingError> for QpackError {
    fn from(error: CodingError) -> QpackError {
        match error {
            CodingError::Truncated => QpackError::Truncated,
            CodingError::IntegerTooLong => QpackError::IntegerTooLong,
            CodingError::EndOfString => QpackError::EndOfString,
            CodingError::BadPadding => QpackError::BadPadding,
        }
    }
}
