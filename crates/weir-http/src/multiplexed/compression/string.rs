//! String literals (RFC 7541 section 5.2, RFC 9204 section 4.1.2).

use super::coding_error::CodingError;
use super::{huffman, integer};

/// A string as it was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedString<'a> {
    bytes: &'a [u8],
    is_coded: bool,
}

impl<'a> CodedString<'a> {
    /// Takes the string off the front of `rest`. The byte before has the length in its last `prefix_bits`, and above them the bit that says whether the
    /// string is Huffman-coded.
    #[inline(always)]
    pub(crate) fn take(first: u8, prefix_bits: u32, rest: &mut &'a [u8]) -> Result<Self, CodingError> {
        let len = integer::read(first, prefix_bits, rest)?;
        let Some((bytes, tail)) = rest.split_at_checked(len) else { return Err(CodingError::Truncated) };
        *rest = tail;
        Ok(Self { bytes, is_coded: first & (1 << prefix_bits) != 0 })
    }

    /// Appends what it stands for.
    #[inline]
    pub(crate) fn append(self, text: &mut Vec<u8>) -> Result<(), CodingError> {
        if self.is_coded {
            return huffman::decode(self.bytes, text);
        }
        text.extend_from_slice(self.bytes);
        Ok(())
    }
}

/// Appends the string at the start of `rest`, off which it is taken: see [`CodedString::take`].
#[inline]
pub(crate) fn append(
    first: u8,
    prefix_bits: u32,
    rest: &mut &[u8],
    text: &mut Vec<u8>,
) -> Result<(), CodingError> {
    CodedString::take(first, prefix_bits, rest)?.append(text)
}

/// The same, of a string whose first byte has nothing but its length.
#[inline]
pub(crate) fn append_whole(rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), CodingError> {
    let Some((&first, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
    *rest = tail;
    append(first, 7, rest, text)
}

/// Appends a string, Huffman-coded where that is allowed and shorter. `pattern` has the bits above the length and the bit before it.
#[inline(always)]
pub(crate) fn write(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, string: &[u8], may_be_coded: bool) {
    if may_be_coded {
        let len = huffman::encoded_len(string);
        if len < string.len() {
            integer::write(out, pattern | 1 << prefix_bits, prefix_bits, len);
            return huffman::encode(string, out);
        }
    }
    integer::write(out, pattern, prefix_bits, string.len());
    out.extend_from_slice(string);
}

/// The same, of a string whose first byte has nothing but its length.
#[inline]
pub(crate) fn write_whole(out: &mut Vec<u8>, string: &[u8], may_be_coded: bool) {
    write(out, 0, 7, string, may_be_coded);
}
