//! Fields on their way into a message, whatever the protocol that writes them.
//!
//! The caller decides once which fields pass, are dropped, set or added; a writer of a protocol gives them their form on the wire.

use super::fields::Field;

/// Neighbouring fields of a parsed head, to be copied as they are.
#[derive(Debug, Clone, Copy)]
pub struct FieldRun<'a> {
    /// The text that the spans of the fields refer to.
    pub text: &'a [u8],
    /// The fields, of which there is at least one.
    pub fields: &'a [Field],
    /// Where the last one ends in `text`, its line end included.
    pub end: usize,
}

/// Takes the fields of one head, in their order.
pub trait FieldWriter {
    /// The text to which fields may be added as lines of HTTP/1, each with its line end, where that is the form of this head.
    #[inline]
    fn as_lines(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Adds a field.
    fn field(&mut self, name: &[u8], value: &[u8]);

    /// Adds a field whose value `write` appends.
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>));

    /// Adds a field whose value `write` appends; no field when that is empty.
    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>));

    /// Adds a field with a decimal value.
    fn decimal_field(&mut self, name: &[u8], value: u64);

    /// Copies fields of another head.
    fn copy(&mut self, run: FieldRun<'_>);
}
