//! Integers with a prefix (RFC 7541 section 5.1).

use super::coding_error::CodingError;

/// Most bytes behind a prefix: 28 bits, which is more than any block here can hold.
const MORE_BYTES_MAX: u32 = 4;

/// Reads the integer whose prefix is the lowest `prefix_bits` of `first`; the bytes behind it are taken off the front of `rest`.
#[inline(always)]
pub(crate) fn read(first: u8, prefix_bits: u32, rest: &mut &[u8]) -> Result<usize, CodingError> {
    let prefix_max = (1 << prefix_bits) - 1;
    let prefix = usize::from(first) & prefix_max;
    if prefix < prefix_max { Ok(prefix) } else { read_more(prefix, rest) }
}

#[inline(never)]
fn read_more(prefix: usize, rest: &mut &[u8]) -> Result<usize, CodingError> {
    let mut value = prefix;
    for index in 0..MORE_BYTES_MAX {
        let Some((&byte, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
        *rest = tail;
        value += usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(CodingError::IntegerTooLong)
}

/// Appends `value` with a prefix of `prefix_bits`; `pattern` has the bits above the prefix.
#[inline(always)]
pub(crate) fn write(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let prefix_max = (1 << prefix_bits) - 1;
    if value < prefix_max {
        out.push(pattern | value as u8);
    } else {
        out.push(pattern | prefix_max as u8);
        write_more(out, value - prefix_max);
    }
}

#[inline(never)]
fn write_more(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn read_all(bytes: &[u8], prefix_bits: u32) -> Result<(usize, usize), CodingError> {
        let (first, mut rest) = bytes.split_first().expect("there is a prefix");
        read(*first, prefix_bits, &mut rest).map(|value| (value, rest.len()))
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541 appendix C.1.
        let rows: &[(usize, u32, &[u8])] =
            &[(10, 5, &[0b01010]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[0b0010_1010])];
        for (value, prefix_bits, bytes) in rows {
            let mut out = Vec::new();
            write(&mut out, 0, *prefix_bits, *value);
            assert_eq!(out, *bytes);
            assert_eq!(read_all(bytes, *prefix_bits), Ok((*value, 0)));
        }
    }

    #[test]
    fn bounds() {
        assert_eq!(read_all(&[0x7f], 7), Err(CodingError::Truncated));
        assert_eq!(read_all(&[0x7f, 0x80], 7), Err(CodingError::Truncated));
        assert_eq!(read_all(&[0x7f, 0x00, 0x01], 7), Ok((127, 1)));
        // Zeros at the end are needless, not wrong.
        assert_eq!(read_all(&[0x7f, 0x80, 0x80, 0x80, 0x00], 7), Ok((127, 0)));
        assert_eq!(read_all(&[0xff, 0xff, 0xff, 0xff, 0x7f], 8), Ok(((1 << 28) - 1 + 255, 0)));
        assert_eq!(read_all(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x00], 7), Err(CodingError::IntegerTooLong));
        assert_eq!(read_all(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], 7), Err(CodingError::IntegerTooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in 0_usize..1 << 28, shift in 0..28, prefix_bits in 1_u32..=8) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, 0, prefix_bits, value);
            prop_assert_eq!(read_all(&out, prefix_bits), Ok((value, 0)));
        }
    }
}
