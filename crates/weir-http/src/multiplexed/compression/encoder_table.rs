//! The table of an encoder: the lines that the peer has in its table, found by their hash, and which lines were seen before.
//!
//! Nothing depends on the hash but compression: a line that is found is compared byte by byte.

use super::line_table::LineTable;

/// Places to find lines in: more than twice as many as there can be lines, and as many as a byte can count.
const SLOTS: usize = 256;
/// Neighbouring slots that a line may be in.
const PROBES: u32 = 4;
/// How many lines are remembered to have been seen, one per place.
const SEEN: usize = 128;

/// The lines of one side of a connection.
#[derive(Debug, Clone)]
pub(crate) struct EncoderTable {
    /// Each with its hash.
    lines: LineTable<u32>,
    /// The number of a line, by its hash.
    slots: [LineSlot; SLOTS],
    /// Number of lines that were ever added, modulo 256.
    added: u8,
    /// Parts of the hashes of lines that were seen.
    seen: [u16; SEEN],
}

/// Where a line may be: right only when the line has the hash.
#[derive(Debug, Clone, Copy, Default)]
struct LineSlot {
    /// Part of the hash.
    tag: u8,
    number: u8,
}

// A line counts at least 32 bytes, so no two lines have the same number.
const _: () = assert!(super::TABLE_BYTES_MAX / super::ENTRY_OVERHEAD_BYTES <= SLOTS / 2);

impl EncoderTable {
    pub(crate) fn new(size_max: usize) -> EncoderTable {
        EncoderTable {
            lines: LineTable::new(size_max),
            slots: [LineSlot::default(); SLOTS],
            added: 0,
            seen: [0; SEEN],
        }
    }

    pub(crate) fn set_size_max(&mut self, size_max: usize) {
        self.lines.set_size_max(size_max);
    }

    /// How many lines were added since this one; `None` when it is not in the table.
    #[inline(always)]
    pub(crate) fn find(&self, line: &[u8], hash: u32) -> Option<usize> {
        let slots = (0..PROBES).map(|probe| self.slots[slot(hash, probe)]);
        slots.filter(|slot| slot.tag == tag(hash)).map(|slot| self.age(slot)).find(|&age| {
            self.lines.get(age).is_some_and(|stored| stored.detail == hash && stored.line == line)
        })
    }

    /// The age of the line in a slot; any age when there is none.
    #[inline]
    const fn age(&self, slot: LineSlot) -> usize {
        self.added.wrapping_sub(slot.number).wrapping_sub(1) as usize
    }

    /// Adds a line, for which the oldest ones go.
    pub(crate) fn insert(&mut self, line: &[u8], name_len: usize, hash: u32) {
        self.lines.insert(line, name_len, hash);
        let slots = (0..PROBES).map(|probe| slot(hash, probe));
        let oldest = slots.max_by_key(|&slot| self.age(self.slots[slot])).unwrap_or_default();
        self.slots[oldest] = LineSlot { tag: tag(hash), number: self.added };
        self.added = self.added.wrapping_add(1);
    }

    /// Whether a line with this hash was seen lately; from now on it was.
    #[inline]
    pub(crate) fn was_seen(&mut self, hash: u32) -> bool {
        // Zero is no part of any hash.
        let part = (hash >> 16) as u16 | 1;
        std::mem::replace(&mut self.seen[hash as usize % SEEN], part) == part
    }

    /// Number of lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// How many lines go when one that counts so much is added.
    pub(crate) fn evicted_by(&self, size: usize) -> usize {
        self.lines.evicted_by(size)
    }
}

#[inline]
const fn tag(hash: u32) -> u8 {
    (hash >> 24) as u8
}

#[inline]
const fn slot(hash: u32, probe: u32) -> usize {
    (hash >> 8).wrapping_add(probe) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> Vec<u8> {
        format!("x: {number}\r\n").into_bytes()
    }

    /// Adds a thousand lines; of those that are left, the newest ones are found, as many as `findable`.
    fn check(hash: fn(usize) -> u32, findable: usize) {
        let mut table = EncoderTable::new(400);
        for number in 0..1000 {
            table.insert(&line(number), 1, hash(number));
            for age in 0..=number.min(30) {
                let found = table.find(&line(number - age), hash(number - age));
                if age < findable.min(table.len()) {
                    assert_eq!(found, Some(age), "{number}");
                } else if age >= table.len() {
                    assert_eq!(found, None, "{number}");
                }
            }
        }
        assert_eq!(table.len(), 11);
    }

    #[test]
    fn lines_are_found_until_they_are_gone() {
        check(|number| (number as u32).wrapping_mul(0x0101_0101), 11);
        // All the same, and so all in one place.
        check(|_| 7, PROBES as usize);
    }

    #[test]
    fn lines_are_seen_the_second_time() {
        let mut table = EncoderTable::new(0);
        assert!(!table.was_seen(0) && table.was_seen(0));
        assert!(!table.was_seen(0x1_2345_u32 << 12) && table.was_seen(0x1_2345_u32 << 12));
        // Another one in the same place.
        assert!(!table.was_seen(0x0100_0000) && !table.was_seen(0x0200_0000) && !table.was_seen(0x0100_0000));
    }
}
