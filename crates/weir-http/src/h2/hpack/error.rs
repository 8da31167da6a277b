//! What can be wrong with a header block as such.

use crate::multiplexed::compression::coding_error::CodingError;

/// Why a header block cannot be decoded. The tables of both sides may differ from then on, so the connection is lost: COMPRESSION_ERROR
/// (RFC 9113 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer has more than four bytes behind its prefix (RFC 7541 section 5.1).
    IntegerTooLong,
    /// An index is 0 or beyond the end of the table (sections 2.3.3 and 6.1).
    BadIndex,
    /// A string holds the end-of-string symbol (section 5.2).
    EndOfString,
    /// The padding of a string has more than seven bits, or a bit that is not set (section 5.2).
    BadPadding,
    /// The size of the table changes behind the first field (section 4.2).
    LateSizeUpdate,
    /// The size of the table changes more than twice in a block (section 4.2).
    TooManySizeUpdates,
    /// The size of the table becomes larger than it may be (section 6.3).
    SizeUpdateTooLarge,
    /// The size of the table had to be lowered, and was not (section 4.2).
    MissingSizeUpdate,
}

impl From<CodingError> for HpackError {
    fn from(error: CodingError) -> HpackError {
        match error {
            CodingError::Truncated => HpackError::Truncated,
            CodingError::IntegerTooLong => HpackError::IntegerTooLong,
            CodingError::EndOfString => HpackError::EndOfString,
            CodingError::BadPadding => HpackError::BadPadding,
        }
    }
}
