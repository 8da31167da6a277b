//! The encoder of header blocks (RFC 7541 section 6): lines to indices and literals.
//!
//! A line enters the table when it is seen for the second time, so values that occur once never push out those that recur. Secrets never
//! do (section 7.1). Only what enters the table is Huffman-coded: it is sent once for many times. Coding all else would cost more
//! instructions per response than everything else here.

use super::static_table::{STATIC_LINES, static_name};
use crate::multiplexed::compression::encoder_table::EncoderTable;
use crate::multiplexed::compression::line_class::counted_bytes;
use crate::multiplexed::compression::line_encoder::{LineEncoder, NewLine, lower_name};
use crate::multiplexed::compression::sent_line::hash;
use crate::multiplexed::compression::{TABLE_BYTES_MAX, integer, string};

/// Encodes the header blocks that go out on one connection.
///
/// Nothing is allocated until the first field is written, and [`HpackEncoder::release`] gives it all back.
#[derive(Debug, Clone)]
pub struct HpackEncoder {
    /// The line that is being written.
    line: Vec<u8>,
    table: Option<Box<EncoderTable>>,
    /// The size of the table from the next block on.
    size_max: usize,
    /// The lowest size since the last block, when that block did not know it or `size_max`.
    lowest_size_max: Option<usize>,
    /// The bound of our own.
    own_size_max: usize,
}

impl Default for HpackEncoder {
    fn default() -> HpackEncoder {
        HpackEncoder::new(TABLE_BYTES_MAX)
    }
}

impl HpackEncoder {
    /// An encoder at the start of a connection, with a table of at most `table_bytes_max` and 4 096 bytes.
    pub fn new(table_bytes_max: usize) -> HpackEncoder {
        let own_size_max = table_bytes_max.min(TABLE_BYTES_MAX);
        let mut encoder = HpackEncoder {
            line: Vec::new(),
            table: None,
            size_max: TABLE_BYTES_MAX,
            lowest_size_max: None,
            own_size_max,
        };
        encoder.set_peer_table_bytes_max(TABLE_BYTES_MAX);
        encoder
    }

    /// Obeys the SETTINGS_HEADER_TABLE_SIZE of the peer, which is told so by the next block.
    pub fn set_peer_table_bytes_max(&mut self, bytes: usize) {
        let size_max = bytes.min(self.own_size_max);
        if size_max != self.size_max {
            self.announce(size_max.min(self.size_max));
            self.size_max = size_max;
            if let Some(table) = &mut self.table {
                table.set_size_max(size_max);
            }
        }
    }

    /// Gives all memory back, as on an idle connection. The next block tells the peer that the table is empty.
    pub fn release(&mut self) {
        self.line = Vec::new();
        if self.table.take().is_some() {
            self.announce(0);
        }
    }

    /// The next block has to say that the table had at most this size.
    fn announce(&mut self, size_max: usize) {
        let lowest = self.lowest_size_max.map_or(size_max, |lowest| lowest.min(size_max));
        self.lowest_size_max = Some(lowest);
    }
}

/// Writes the lines of one block.
#[derive(Debug)]
pub(in crate::h2) struct BlockLines<'a> {
    encoder: &'a mut HpackEncoder,
    out: &'a mut Vec<u8>,
}

impl<'a> BlockLines<'a> {
    /// Begins a block, which is appended to `out`.
    #[inline]
    pub(in crate::h2) fn begin(encoder: &'a mut HpackEncoder, out: &'a mut Vec<u8>) -> BlockLines<'a> {
        if let Some(lowest) = encoder.lowest_size_max.take() {
            if lowest < encoder.size_max {
                integer::write(out, 0x20, 5, lowest);
            }
            integer::write(out, 0x20, 5, encoder.size_max);
        }
        BlockLines { encoder, out }
    }

    /// Writes a line of the static table.
    #[inline]
    pub(in crate::h2) fn indexed(&mut self, index: u8) {
        self.out.push(0x80 | index);
    }

    /// Writes a pseudo-field, whose name is that of the static line with this index; 0 when there is none.
    pub(in crate::h2) fn pseudo_field(&mut self, name: &[u8], name_index: usize, value: &[u8]) {
        self.begin_pseudo_field(name, value);
        let hash = hash(&self.encoder.line);
        if self.write_known_buf(hash) {
            return;
        }
        match self.enters_table(name.len(), hash) {
            true => self.write_literal(0x40, 6, name.len(), name_index),
            false => self.write_literal(0, 4, name.len(), name_index),
        }
    }

    /// Whether the line enters the table: when it is seen for the second time.
    fn enters_table(&mut self, name_len: usize, hash: u32) -> bool {
        let HpackEncoder { line, table, size_max, .. } = &mut *self.encoder;
        let table = table.get_or_insert_with(|| Box::new(EncoderTable::new(*size_max)));
        let enters = table.was_seen(hash) && counted_bytes(line.len()) <= *size_max / 2;
        if enters {
            table.insert(line, name_len, hash);
        }
        enters
    }

    /// Writes the line as a literal of the kind that `pattern` says.
    fn write_literal(&mut self, pattern: u8, prefix_bits: u32, name_len: usize, name_index: usize) {
        let (line, out) = (&self.encoder.line, &mut *self.out);
        let enters_table = pattern == 0x40;
        integer::write(out, pattern, prefix_bits, name_index);
        if name_index == 0 {
            string::write_whole(out, &line[..name_len], enters_table);
        }
        string::write_whole(out, &line[name_len + 2..line.len() - 2], enters_table);
    }
}

impl LineEncoder for BlockLines<'_> {
    #[inline]
    fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.encoder.line
    }

    #[inline]
    fn write_known(&mut self, line: &[u8], hash: u32) -> bool {
        let Some(age) = self.encoder.table.as_ref().and_then(|table| table.find(line, hash)) else {
            return false;
        };
        integer::write(self.out, 0x80, 7, STATIC_LINES + 1 + age);
        true
    }

    #[inline]
    fn write_new(&mut self, new: NewLine) {
        let NewLine { name_len, known, is_secret, hash } = new;
        let enters_table = !is_secret && self.enters_table(name_len, hash);
        let name_index = static_name(known, lower_name(&mut self.encoder.line, name_len));
        match (enters_table, is_secret) {
            (true, _) => self.write_literal(0x40, 6, name_len, name_index),
            (false, true) => self.write_literal(0x10, 4, name_len, name_index),
            (false, false) => self.write_literal(0, 4, name_len, name_index),
        }
    }
}

#[cfg(test)]
mod tests;
