//! What can be wrong with an integer or a string, before anything is known about tables.

/// Why an integer or a string cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CodingError {
    /// It is cut.
    Truncated,
    /// An integer has more than four bytes behind its prefix (RFC 7541 section 5.1).
    IntegerTooLong,
    /// A string holds the end-of-string symbol (section 5.2).
    EndOfString,
    /// The padding of a string has more than seven bits, or a bit that is not set (section 5.2).
    BadPadding,
}
