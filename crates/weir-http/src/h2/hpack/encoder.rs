//! The encoder of header blocks (RFC 7541 section 6): lines to indices and literals.
//!
//! A line enters the table when it is seen for the second time, so values that occur once never push out those that recur. Secrets never
//! do (section 7.1). Only what enters the table is Huffman-coded: it is sent once for many times. Coding all else would cost more
//! instructions per response than everything else here.

use super::encoder_table::EncoderTable;
use super::line_class::{counted_bytes, is_connection_field};
use super::sent_line::{hash, make_lower_case};
use super::static_table::{STATIC_LINES, static_name};
use super::{LINE_OVERHEAD_BYTES, TABLE_BYTES_MAX, huffman, integer};
use crate::bytes::{is_space, is_token, is_value_byte, trim};
use crate::message::name::FieldName;

/// Cookies that are shorter could be guessed, if their presence in a table could be found out (RFC 7541 section 7.1.3).
const COOKIE_BYTES_GUESSABLE: usize = 20;

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
pub(in crate::h2) struct LineEncoder<'a> {
    encoder: &'a mut HpackEncoder,
    out: &'a mut Vec<u8>,
}

impl<'a> LineEncoder<'a> {
    /// Begins a block, which is appended to `out`.
    #[inline]
    pub(in crate::h2) fn begin(encoder: &'a mut HpackEncoder, out: &'a mut Vec<u8>) -> LineEncoder<'a> {
        if let Some(lowest) = encoder.lowest_size_max.take() {
            if lowest < encoder.size_max {
                integer::write(out, 0x20, 5, lowest);
            }
            integer::write(out, 0x20, 5, encoder.size_max);
        }
        LineEncoder { encoder, out }
    }

    /// Writes a line of the static table.
    #[inline]
    pub(in crate::h2) fn indexed(&mut self, index: u8) {
        self.out.push(0x80 | index);
    }

    /// Writes a pseudo-field, whose name is that of the static line with this index; 0 when there is none.
    pub(in crate::h2) fn pseudo_field(&mut self, name: &[u8], name_index: usize, value: &[u8]) {
        let line = &mut self.encoder.line;
        line.clear();
        line.extend_from_slice(name);
        line.extend_from_slice(b": ");
        line.extend_from_slice(value);
        line.extend_from_slice(b"\r\n");
        self.write_line(name.len(), name_index);
    }

    /// Writes a field whose value `write_value` appends.
    #[inline]
    pub(in crate::h2) fn field_with(&mut self, name: &[u8], write_value: impl FnOnce(&mut Vec<u8>)) {
        self.begin_field(name);
        write_value(&mut self.encoder.line);
        self.end_field(name.len());
    }

    /// The same, but no field when its value is empty.
    #[inline]
    pub(in crate::h2) fn field_unless_empty(&mut self, name: &[u8], write_value: impl FnOnce(&mut Vec<u8>)) {
        self.begin_field(name);
        write_value(&mut self.encoder.line);
        if self.encoder.line.len() > name.len() + 2 {
            self.end_field(name.len());
        }
    }

    #[inline]
    fn begin_field(&mut self, name: &[u8]) {
        debug_assert!(is_token(name));
        let line = &mut self.encoder.line;
        line.clear();
        line.extend_from_slice(name);
        line.extend_from_slice(b": ");
    }

    #[inline]
    fn end_field(&mut self, name_len: usize) {
        self.encoder.line.extend_from_slice(b"\r\n");
        let line = std::mem::take(&mut self.encoder.line);
        let hash = hash(&line);
        let is_known = self.write_known(&line, hash);
        self.encoder.line = line;
        if !is_known {
            let known = match FieldName::recognise_start(&self.encoder.line) {
                Some((known, len)) if len == name_len => known,
                _ => FieldName::Other,
            };
            self.write_field(name_len, known, hash);
        }
    }

    /// Writes a field that is a line already: `name: value` and the line end.
    #[inline]
    pub(in crate::h2) fn field_line(&mut self, line: &[u8], name_len: usize, known: FieldName) {
        let hash = hash(line);
        if !self.write_known(line, hash) {
            self.encoder.line.clear();
            self.encoder.line.extend_from_slice(line);
            self.write_field(name_len, known, hash);
        }
    }

    /// Writes the index of a line that the peer has; whether it has it.
    #[inline]
    fn write_known(&mut self, line: &[u8], hash: u32) -> bool {
        let Some(age) = self.encoder.table.as_ref().and_then(|table| table.find(line, hash)) else {
            return false;
        };
        integer::write(self.out, 0x80, 7, STATIC_LINES + 1 + age);
        true
    }

    /// Writes the line of a field that the peer does not have. Its name is in any mixture of upper and lower case: it is found in the table
    /// again by the same one.
    fn write_field(&mut self, name_len: usize, known: FieldName, hash: u32) {
        let line = &self.encoder.line;
        let value = &line[name_len + 2..line.len() - 2];
        debug_assert!(value.iter().all(|&byte| is_value_byte(byte)));
        if has_edge_space(value) {
            return self.write_trimmed(name_len, known);
        }
        // Callers leave these out; a message that had one would be refused.
        if is_connection_field(known) || (known == FieldName::Te && !self.is_value(name_len, b"trailers")) {
            return;
        }
        let is_secret = match known {
            FieldName::Authorization | FieldName::ProxyAuthorization | FieldName::SetCookie => true,
            FieldName::Cookie => {
                self.encoder.line.len() - LINE_OVERHEAD_BYTES - name_len < COOKIE_BYTES_GUESSABLE
            }
            _ => false,
        };
        let enters_table = !is_secret && self.enters_table(name_len, hash);
        let line = &mut self.encoder.line;
        make_lower_case(&mut line[..name_len]);
        let name_index = static_name(known, &line[..name_len]);
        match (enters_table, is_secret) {
            (true, _) => self.write_literal(0x40, 6, name_len, name_index),
            (false, true) => self.write_literal(0x10, 4, name_len, name_index),
            (false, false) => self.write_literal(0, 4, name_len, name_index),
        }
    }

    fn is_value(&self, name_len: usize, expected: &[u8]) -> bool {
        let line = &self.encoder.line;
        line[name_len + 2..line.len() - 2].eq_ignore_ascii_case(expected)
    }

    /// Writes the line without the white space around its value, which HTTP/1 and configs may have.
    #[cold]
    fn write_trimmed(&mut self, name_len: usize, known: FieldName) {
        let line = &self.encoder.line;
        let value = trim(&line[name_len + 2..line.len() - 2]);
        let trimmed = [&line[..name_len + 2], value, b"\r\n"].concat();
        self.field_line(&trimmed, name_len, known);
    }

    /// Writes the line of a pseudo-field, by its index where the peer has it.
    #[inline]
    fn write_line(&mut self, name_len: usize, name_index: usize) {
        let line = std::mem::take(&mut self.encoder.line);
        let hash = hash(&line);
        let is_known = self.write_known(&line, hash);
        self.encoder.line = line;
        if is_known {
            return;
        }
        match self.enters_table(name_len, hash) {
            true => self.write_literal(0x40, 6, name_len, name_index),
            false => self.write_literal(0, 4, name_len, name_index),
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
            write_string(out, &line[..name_len], enters_table);
        }
        write_string(out, &line[name_len + 2..line.len() - 2], enters_table);
    }
}

#[inline]
fn has_edge_space(value: &[u8]) -> bool {
    matches!((value.first(), value.last()), (Some(first), Some(last)) if is_space(*first) || is_space(*last))
}

/// Appends a string (section 5.2).
#[inline]
fn write_string(out: &mut Vec<u8>, string: &[u8], may_be_coded: bool) {
    if may_be_coded {
        let len = huffman::encoded_len(string);
        if len < string.len() {
            integer::write(out, 0x80, 7, len);
            return huffman::encode(string, out);
        }
    }
    integer::write(out, 0, 7, string.len());
    out.extend_from_slice(string);
}

#[cfg(test)]
mod tests;
