//! The prefix of a field section (RFC 9204 section 4.5.1): how many insertions it needs, and what its indices count from.

use super::error::QpackError;
use super::long_integer;
use crate::multiplexed::compression::ENTRY_OVERHEAD_BYTES;

/// The prefix, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SectionPrefix {
    /// Insertions without which the section cannot be decoded; 0 when it refers to none.
    pub(super) required: u64,
    /// Indices count down from here, or up.
    pub(super) base: u64,
}

/// As many entries as a table of this capacity can have.
pub(super) const fn entries_max(capacity: u64) -> u64 {
    capacity / ENTRY_OVERHEAD_BYTES as u64
}

impl SectionPrefix {
    /// Takes the prefix off the front of `rest`. `inserted` counts the insertions so far, `entries_max` is that of the largest table.
    pub(super) fn read(
        rest: &mut &[u8],
        inserted: u64,
        entries_max: u64,
    ) -> Result<SectionPrefix, QpackError> {
        let encoded = read_integer(rest, 8)?.1;
        let (is_negative, delta) = read_integer(rest, 7)?;
        let required = required(encoded, inserted, entries_max)?;
        let base = match is_negative {
            false => required.checked_add(delta),
            true => required.checked_sub(delta).and_then(|base| base.checked_sub(1)),
        };
        Ok(SectionPrefix { required, base: base.ok_or(QpackError::BadBase)? })
    }

    /// Appends the prefix.
    pub(super) fn write(self, entries_max: u64, out: &mut Vec<u8>) {
        match self.required {
            0 => out.extend_from_slice(&[0, 0]),
            required => {
                long_integer::write(out, 0, 8, required % (2 * entries_max) + 1);
                long_integer::write(out, 0, 7, self.base.saturating_sub(required));
            }
        }
    }
}

/// An integer, and whether the bit before its prefix is set.
fn read_integer(rest: &mut &[u8], prefix_bits: u32) -> Result<(bool, u64), QpackError> {
    let Some((&first, tail)) = rest.split_first() else { return Err(QpackError::Truncated) };
    *rest = tail;
    let value = long_integer::read(first, prefix_bits, rest)?;
    Ok((u32::from(first) >> prefix_bits != 0, value))
}

/// Section 4.5.1.1.
fn required(encoded: u64, inserted: u64, entries_max: u64) -> Result<u64, QpackError> {
    if encoded == 0 {
        return Ok(0);
    }
    let full_range = 2 * entries_max;
    if encoded > full_range {
        return Err(QpackError::BadInsertCount);
    }
    let greatest = inserted + entries_max;
    let mut required = greatest / full_range * full_range + encoded - 1;
    if required > greatest {
        required = required.checked_sub(full_range).ok_or(QpackError::BadInsertCount)?;
    }
    if required == 0 { Err(QpackError::BadInsertCount) } else { Ok(required) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn read(bytes: &[u8], inserted: u64, capacity: u64) -> Result<SectionPrefix, QpackError> {
        let mut rest = bytes;
        let prefix = SectionPrefix::read(&mut rest, inserted, entries_max(capacity))?;
        assert!(rest.is_empty());
        Ok(prefix)
    }

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 9204 section 4.5.1.1: a table of 100 bytes, 10 insertions received, 4 stands for 9.
        assert_eq!(read(&[4, 0], 10, 100), Ok(SectionPrefix { required: 9, base: 9 }));
        // Section 4.5.1.2: 9 insertions are needed, the base is 6.
        assert_eq!(read(&[4, 0x82], 10, 100), Ok(SectionPrefix { required: 9, base: 6 }));
    }

    #[test]
    fn prefixes_that_cannot_be() {
        for (bytes, inserted, capacity, error) in [
            (&[][..], 0, 4_096, QpackError::Truncated),
            (&[0], 0, 4_096, QpackError::Truncated),
            (&[0xff], 0, 4_096, QpackError::Truncated),
            (&[1, 0], 0, 0, QpackError::BadInsertCount),
            // Of a table with three entries at most.
            (&[7, 0], 10, 100, QpackError::BadInsertCount),
            (&[5, 0], 0, 100, QpackError::BadInsertCount),
            // It would stand for 0.
            (&[1, 0], 0, 100, QpackError::BadInsertCount),
            // The base would be before the first.
            (&[2, 0x81], 0, 100, QpackError::BadBase),
            (&[0, 0x80], 0, 100, QpackError::BadBase),
        ] {
            assert_eq!(read(bytes, inserted, capacity), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            inserted in 1_u64..1 << 40,
            ahead in 0_u64..128,
            behind in 0_u64..300,
            delta in 0_u64..1_000,
        ) {
            // An encoder needs no entry that is gone, and a decoder may lag behind by as many as there can be.
            let required = (inserted + ahead).saturating_sub(behind.min(127)).max(1);
            let mut out = Vec::new();
            let prefix = SectionPrefix { required, base: required + delta };
            prefix.write(128, &mut out);
            prop_assert_eq!(read(&out, inserted, 4_096), Ok(prefix));
        }
    }
}
