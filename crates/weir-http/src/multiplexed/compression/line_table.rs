//! A dynamic table (RFC 7541 section 2.3.2): the last lines that one side sent, in one buffer.
//!
//! Lines stand one behind the other and are never cut in two: when the end of the buffer is reached, those that are left move to its
//! front. Nothing is allocated before the first line, and nothing per line.

use std::collections::VecDeque;

use super::line_class::counted_bytes;

/// The last lines, each with a detail of its own.
#[derive(Debug, Clone)]
pub(crate) struct LineTable<T> {
    /// The lines, oldest first, behind those that are gone already.
    text: Vec<u8>,
    lines: VecDeque<TableLine<T>>,
    /// Position of the start of `text` among all bytes that ever came in.
    text_start: u32,
    /// By the count of RFC 7541 section 4.1.
    size: usize,
    size_max: usize,
}

/// Where a line stands.
#[derive(Debug, Clone, Copy)]
struct TableLine<T> {
    /// Among all bytes that ever came in, modulo 2^32.
    start: u32,
    len: u16,
    name_len: u16,
    detail: T,
}

/// A line of a table.
pub(crate) struct StoredLine<'a, T> {
    pub(crate) line: &'a [u8],
    pub(crate) name_len: usize,
    pub(crate) detail: T,
}

impl<T: Copy> LineTable<T> {
    /// An empty table, nothing allocated. `size_max` is below 2^16.
    pub(crate) const fn new(size_max: usize) -> LineTable<T> {
        LineTable { text: Vec::new(), lines: VecDeque::new(), text_start: 0, size: 0, size_max }
    }

    /// Number of lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    #[inline]
    pub(crate) const fn size_max(&self) -> usize {
        self.size_max
    }

    /// The line that came in as the last but `age`.
    #[inline(always)]
    pub(crate) fn get(&self, age: usize) -> Option<StoredLine<'_, T>> {
        let line = self.lines.get(self.lines.len().wrapping_sub(age).wrapping_sub(1))?;
        let start = line.start.wrapping_sub(self.text_start) as usize;
        let text = self.text.get(start..start + usize::from(line.len))?;
        Some(StoredLine { line: text, name_len: usize::from(line.name_len), detail: line.detail })
    }

    /// Adds a line, for which the oldest ones go. One that is larger than the table empties it and is not kept.
    pub(crate) fn insert(&mut self, line: &[u8], name_len: usize, detail: T) {
        let size = counted_bytes(line.len());
        if size > self.size_max {
            self.shrink(0);
            return;
        }
        self.shrink(self.size_max - size);
        // What is left fits with the line: the buffer needs fewer bytes for a line than the table counts.
        if self.text.len() + line.len() > self.size_max {
            self.move_to_front();
        }
        let start = self.text_start.wrapping_add(self.text.len() as u32);
        self.text.extend_from_slice(line);
        self.lines.push_back(TableLine { start, len: line.len() as u16, name_len: name_len as u16, detail });
        self.size += size;
    }

    /// How many lines go when one that counts so much is added, of at most the size of the table.
    pub(crate) fn evicted_by(&self, size: usize) -> usize {
        let mut left = self.size;
        let goes = self.lines.iter().take_while(|line| {
            let is_too_much = left + size > self.size_max;
            left -= counted_bytes(usize::from(line.len));
            is_too_much
        });
        goes.count()
    }

    /// Changes the size that the table may have, for which the oldest lines go.
    pub(crate) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.shrink(size_max);
    }

    /// Drops the oldest lines until the size is at most this.
    #[inline]
    fn shrink(&mut self, size: usize) {
        while self.size > size {
            let Some(line) = self.lines.pop_front() else { return };
            self.size -= counted_bytes(usize::from(line.len));
        }
    }

    /// Moves the lines that are left to the front of the buffer.
    #[cold]
    fn move_to_front(&mut self) {
        let gone = match self.lines.front() {
            Some(line) => line.start.wrapping_sub(self.text_start),
            None => self.text.len() as u32,
        };
        self.text.drain(..gone as usize);
        self.text_start = self.text_start.wrapping_add(gone);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn lines(table: &LineTable<u8>) -> Vec<(Vec<u8>, u8)> {
        let line = |age| table.get(age).map(|stored| (stored.line.to_vec(), stored.detail));
        (0..).map_while(line).collect()
    }

    #[test]
    fn a_line_that_is_larger_than_the_table_empties_it() {
        let mut table = LineTable::new(70);
        assert_eq!(table.text.capacity(), 0);
        table.insert(b"a: b\r\n", 1, 1);
        table.insert(b"c: d\r\n", 1, 2);
        assert_eq!(lines(&table), [(b"c: d\r\n".to_vec(), 2), (b"a: b\r\n".to_vec(), 1)]);
        table.insert(b"e: f\r\n", 1, 3);
        assert_eq!(lines(&table), [(b"e: f\r\n".to_vec(), 3), (b"c: d\r\n".to_vec(), 2)]);
        table.set_size_max(67);
        assert_eq!(lines(&table), [(b"e: f\r\n".to_vec(), 3)]);
        table.insert(&[b'x'; 40], 1, 4);
        assert_eq!((lines(&table), table.size, table.len()), (vec![], 0, 0));
        table.set_size_max(0);
        table.insert(b"a: b\r\n", 1, 1);
        assert_eq!(lines(&table), []);
    }

    proptest! {
        #[test]
        fn lines_are_those_of_a_plain_list(
            size_max in 0_usize..400,
            steps in vec((4_usize..120, 0_u8..20), 0..200),
            start: u32,
        ) {
            let mut table = LineTable::new(size_max);
            table.text_start = start;
            let mut list: VecDeque<(Vec<u8>, u8)> = VecDeque::new();
            for (number, (len, what)) in steps.into_iter().enumerate() {
                if what == 0 {
                    table.set_size_max(size_max / 2);
                    table.set_size_max(size_max);
                } else {
                    let line = vec![number as u8; len];
                    table.insert(&line, 1, what);
                    list.push_front((line, what));
                }
                let bound = if what == 0 { size_max / 2 } else { size_max };
                while list.iter().map(|(line, _)| line.len() + 28).sum::<usize>() > bound {
                    list.pop_back();
                }
                prop_assert_eq!(lines(&table), Vec::from(list.clone()));
                prop_assert!(table.text.len() <= size_max);
            }
        }
    }
}
