//! Integers of variable length (RFC 9000 section 16): one, two, four or eight bytes, whose first two bits say how many.

/// The greatest integer.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Most bytes of an integer.
pub const VARINT_BYTES_MAX: usize = 8;

/// How many bytes the integer has that begins with this byte.
#[inline]
pub(super) const fn len_of(first: u8) -> usize {
    1 << (first >> 6)
}

/// The integer at the front of `bytes`, and how many bytes it has; `None` while it is not whole.
#[inline]
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let &first = bytes.first()?;
    let value = u64::from(first & 0x3f);
    let len = len_of(first);
    let more = bytes.get(1..len)?;
    Some((more.iter().fold(value, |value, byte| value << 8 | u64::from(*byte)), len))
}

/// Appends an integer, which is at most [`VARINT_MAX`], in as few bytes as it needs.
#[inline]
pub fn write_varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => {
            debug_assert!(value <= VARINT_MAX);
            out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        let rows: &[(&[u8], u64)] = &[
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (bytes, value) in rows {
            assert_eq!(read_varint(bytes), Some((*value, bytes.len())));
            let mut out = Vec::new();
            write_varint(&mut out, *value);
            assert_eq!(out, *bytes);
            for len in 0..bytes.len() {
                assert_eq!(read_varint(&bytes[..len]), None);
            }
        }
        assert_eq!(read_varint(&[0x40, 0x25]), Some((37, 2)), "needless bytes are no fault");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in 0..=VARINT_MAX, shift in 0..62) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_varint(&mut out, value);
            prop_assert_eq!(read_varint(&out), Some((value, out.len())));
        }
    }
}
