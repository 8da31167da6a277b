//! Integers with a prefix, of up to 62 bits (RFC 9204 section 4.1.1): ids of streams and counts of insertions.

use crate::h3::varint::VARINT_MAX;
use crate::multiplexed::compression::coding_error::CodingError;

/// Reads the integer whose prefix is the lowest `prefix_bits` of `first`; the bytes behind it are taken off the front of `rest`.
#[inline]
pub(super) fn read(first: u8, prefix_bits: u32, rest: &mut &[u8]) -> Result<u64, CodingError> {
    let prefix_max = (1 << prefix_bits) - 1;
    let prefix = u64::from(first) & prefix_max;
    if prefix < prefix_max { Ok(prefix) } else { read_more(prefix, rest) }
}

fn read_more(prefix: u64, rest: &mut &[u8]) -> Result<u64, CodingError> {
    let mut value = prefix;
    // Nine bytes are 63 bits; needless zeros behind them are not taken.
    for index in 0..9 {
        let Some((&byte, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
        *rest = tail;
        value += u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return if value <= VARINT_MAX { Ok(value) } else { Err(CodingError::IntegerTooLong) };
        }
    }
    Err(CodingError::IntegerTooLong)
}

/// Appends `value` with a prefix of `prefix_bits`; `pattern` has the bits above the prefix.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: u64) {
    let prefix_max = (1 << prefix_bits) - 1;
    if value < prefix_max {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | prefix_max as u8);
    let mut value = value - prefix_max;
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

    fn read_all(bytes: &[u8], prefix_bits: u32) -> Result<(u64, usize), CodingError> {
        let (first, mut rest) = bytes.split_first().expect("there is a prefix");
        read(*first, prefix_bits, &mut rest).map(|value| (value, rest.len()))
    }

    #[test]
    fn bounds() {
        assert_eq!(read_all(&[0x7f], 7), Err(CodingError::Truncated));
        assert_eq!(read_all(&[0x7f, 0xff, 0xff], 7), Err(CodingError::Truncated));
        assert_eq!(read_all(&[0x3f, 0, 0xff], 6), Ok((63, 1)));
        let full = [0xff_u8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let greater = [&[0x3f][..], &full, &[0x00]].concat();
        assert_eq!(read_all(&greater, 6), Err(CodingError::IntegerTooLong));
        assert_eq!(
            read_all(&[&[0x3f][..], &full[..8], &[0x7f]].concat(), 6),
            Err(CodingError::IntegerTooLong)
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in 0..=VARINT_MAX, shift in 0..62, prefix_bits in 1_u32..=8) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, 0, prefix_bits, value);
            prop_assert_eq!(read_all(&out, prefix_bits), Ok((value, 0)));
        }
    }
}
