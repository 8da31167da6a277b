//! String literals (RFC 7541 section 5.2, RFC 9204 section 4.1.2).

use super::coding_error::CodingError;
use super::{huffman, integer};

/// Appends the string at the start of `rest`, off which it is taken. The byte before has the length in its last `prefix_bits`, and above them
/// the bit that says whether the string is Huffman-coded.
#[inline]
pub(crate) fn append(
    first: u8,
    prefix_bits: u32,
    rest: &mut &[u8],
    text: &mut Vec<u8>,
) -> Result<(), CodingError> {
    let len = integer::read(first, prefix_bits, rest)?;
    let Some((string, tail)) = rest.split_at_checked(len) else { return Err(CodingError::Truncated) };
    *rest = tail;
    if first & (1 << prefix_bits) != 0 {
        return huffman::decode(string, text);
    }
    text.extend_from_slice(string);
    Ok(())
}

/// The same, of a string whose first byte has nothing but its length.
#[inline]
pub(crate) fn append_whole(rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), CodingError> {
    let Some((&first, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
    *rest = tail;
    append(first, 7, rest, text)
}

/// Appends a string, Huffman-coded where that is allowed and shorter. `pattern` has the bits above the length and the bit before it.
#[inline]
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
