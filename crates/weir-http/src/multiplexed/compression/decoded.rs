//! What a decoder of lines offers to the readers of heads.

use super::line_class::LineClass;

/// A line that was appended to a text and ends with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedLine {
    /// Where the line starts.
    pub(crate) start: usize,
    pub(crate) name_len: usize,
    pub(crate) class: LineClass,
}

/// The compressed lines of one head or one trailer section, with the decoder of their connection.
pub(crate) trait CompressedLines {
    /// What can be wrong with them as such.
    type Error;

    /// Whether they must be decoded to their end whatever becomes of the message, since they change the table.
    const CHANGE_TABLE: bool;

    /// Decodes them. `take` is called for each line, which was appended to `text`; it may take the line off again.
    ///
    /// # Errors
    ///
    /// What is wrong with them, or what `take` says.
    fn decode<E: From<Self::Error>>(
        self,
        text: &mut Vec<u8>,
        take: impl FnMut(&mut Vec<u8>, DecodedLine) -> Result<(), E>,
    ) -> Result<(), E>;
}
