//! The decoder of header blocks (RFC 7541 section 3): lines appended to a text, one after another.
//!
//! It checks what the format demands, and keeps its table in step whatever the reader of the lines thinks of them.

use super::error::HpackError;
use super::static_table::{STATIC_LINES, static_line};
use crate::multiplexed::compression::decoded::{CompressedLines, DecodedLine};
use crate::multiplexed::compression::line_class::LineClass;
use crate::multiplexed::compression::line_table::LineTable;
use crate::multiplexed::compression::{TABLE_BYTES_MAX, integer, string};

/// Most changes of the size of the table in a block: to the lowest size since the last one, and to the present one.
const SIZE_UPDATES_MAX: usize = 2;

/// Decodes the header blocks that come in on one connection.
///
/// Nothing is allocated until a peer adds the first line to the table.
#[derive(Debug, Clone)]
pub struct HpackDecoder {
    table: LineTable<LineClass>,
    /// The size that the peer may give the table.
    size_max: usize,
}

/// A header block, which is complete, and the decoder of its connection.
pub(in crate::h2) struct HpackBlock<'a> {
    pub(in crate::h2) decoder: &'a mut HpackDecoder,
    pub(in crate::h2) bytes: &'a [u8],
}

impl CompressedLines for HpackBlock<'_> {
    type Error = HpackError;

    const CHANGE_TABLE: bool = true;

    #[inline(always)]
    fn decode<E: From<HpackError>>(
        self,
        text: &mut Vec<u8>,
        take: impl FnMut(&mut Vec<u8>, DecodedLine) -> Result<(), E>,
    ) -> Result<(), E> {
        self.decoder.decode(self.bytes, text, take)
    }
}

impl Default for HpackDecoder {
    fn default() -> HpackDecoder {
        HpackDecoder::new()
    }
}

impl HpackDecoder {
    /// A decoder at the start of a connection.
    pub const fn new() -> HpackDecoder {
        HpackDecoder { table: LineTable::new(TABLE_BYTES_MAX), size_max: TABLE_BYTES_MAX }
    }

    /// Takes a SETTINGS_HEADER_TABLE_SIZE of ours into force, at most 4 096, once the peer has acknowledged it. When its table may be
    /// larger now, the peer has to lower the size at the start of its next block (RFC 7541 section 4.2).
    pub fn set_table_bytes_max(&mut self, bytes: usize) {
        self.size_max = bytes.min(TABLE_BYTES_MAX);
    }

    /// Decodes `block`, which is complete. `take` is called for each line, which was appended to `text`; it may take the line off again.
    ///
    /// # Errors
    ///
    /// What is wrong with the block, or what `take` says.
    #[inline(always)]
    fn decode<E: From<HpackError>>(
        &mut self,
        block: &[u8],
        text: &mut Vec<u8>,
        mut take: impl FnMut(&mut Vec<u8>, DecodedLine) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = block;
        if self.table.size_max() > self.size_max || matches!(block, [0x20..0x40, ..]) {
            self.read_size_updates(&mut rest)?;
        }
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            let line = match first {
                0x80.. => self.append_indexed(first, &mut rest, text)?,
                0x20..0x40 => return Err(HpackError::LateSizeUpdate.into()),
                _ => self.append_literal(first, &mut rest, text)?,
            };
            take(text, line)?;
        }
        Ok(())
    }

    /// Decodes `block`, which is complete, and calls `take` with each name and value as it was sent: nothing is checked but what the format
    /// demands. It is not for messages, which `read_request` and its like read.
    ///
    /// # Errors
    ///
    /// What is wrong with the block, behind the fields that were given already.
    pub fn decode_fields(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        self.decode(block, &mut Vec::new(), |text, line| {
            take(&text[..line.name_len], &text[line.name_len + 2..text.len() - 2]);
            text.clear();
            Ok(())
        })
    }

    #[cold]
    fn read_size_updates(&mut self, rest: &mut &[u8]) -> Result<(), HpackError> {
        let mut updates = 0;
        while let [first @ 0x20..0x40, tail @ ..] = *rest {
            *rest = tail;
            let size = integer::read(*first, 5, rest)?;
            updates += 1;
            if updates > SIZE_UPDATES_MAX {
                return Err(HpackError::TooManySizeUpdates);
            }
            if size > self.size_max {
                return Err(HpackError::SizeUpdateTooLarge);
            }
            self.table.set_size_max(size);
        }
        if self.table.size_max() > self.size_max {
            return Err(HpackError::MissingSizeUpdate);
        }
        Ok(())
    }

    /// The line of an index with its class and the length of its name.
    #[inline(always)]
    fn look_up(&self, index: usize) -> Result<(&[u8], usize, LineClass), HpackError> {
        if let Some(entry) = static_line(index) {
            return Ok((entry.line, entry.name_len, entry.class));
        }
        let age = index.wrapping_sub(STATIC_LINES + 1);
        let entry = self.table.get(age).ok_or(HpackError::BadIndex)?;
        Ok((entry.line, entry.name_len, entry.detail))
    }

    /// Appends an indexed field (section 6.1).
    #[inline(always)]
    fn append_indexed(
        &self,
        first: u8,
        rest: &mut &[u8],
        text: &mut Vec<u8>,
    ) -> Result<DecodedLine, HpackError> {
        let index = integer::read(first, 7, rest)?;
        let (line, name_len, class) = self.look_up(index)?;
        let start = text.len();
        text.extend_from_slice(line);
        Ok(DecodedLine { start, name_len, class })
    }

    /// Appends a literal field (section 6.2), and adds it to the table when it says so.
    #[inline(never)]
    fn append_literal(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        text: &mut Vec<u8>,
    ) -> Result<DecodedLine, HpackError> {
        let is_kept = first & 0x40 != 0;
        let index = integer::read(first, if is_kept { 6 } else { 4 }, rest)?;
        let start = text.len();
        let (name_len, name_class) = if index == 0 {
            string::append_whole(rest, text)?;
            let name_len = text.len() - start;
            text.extend_from_slice(b": ");
            (name_len, None)
        } else {
            let (line, name_len, class) = self.look_up(index)?;
            text.extend_from_slice(&line[..name_len + 2]);
            // The rule may be broken by the other value.
            (name_len, Some(class).filter(|class| class.broken.is_none()))
        };
        string::append_whole(rest, text)?;
        text.extend_from_slice(b"\r\n");
        let line = &text[start..];
        let class = match name_class {
            Some(class) => class.with_value(line, name_len),
            None => LineClass::new(line, name_len),
        };
        if is_kept {
            self.table.insert(line, name_len, class);
        }
        Ok(DecodedLine { start, name_len, class })
    }
}

#[cfg(test)]
mod tests;
