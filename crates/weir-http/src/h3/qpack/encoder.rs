//! The encoder of field sections (RFC 9204 section 2.1): lines to indices and literals.
//!
//! A line enters the table when it is seen for the second time, as with HPACK, and is referred to once the peer has acknowledged it: no section ever waits
//! for the table. Secrets never enter it (section 7.1). Only what enters it is Huffman-coded: it is sent once for many times.

use super::acknowledgement::{DECODER_INSTRUCTION_BYTES_MAX, DecoderInstruction};
use super::error::QpackError;
use super::prefix::{SectionPrefix, entries_max};
use super::sent_sections::SentSections;
use super::static_table::{static_name, static_value};
use super::{UNSENT_BYTES_MAX, long_integer};
use crate::multiplexed::compression::coding_error::CodingError;
use crate::multiplexed::compression::encoder_table::EncoderTable;
use crate::multiplexed::compression::line_class::counted_bytes;
use crate::multiplexed::compression::line_encoder::{LineEncoder, NewLine, lower_name};
use crate::multiplexed::compression::sent_line::hash;
use crate::multiplexed::compression::{TABLE_BYTES_MAX, integer, string};

/// Encodes the field sections that go out on one connection.
///
/// Nothing is allocated until the first field is written, and [`QpackEncoder::release`] gives it all back. What is to be sent on the encoder stream waits in
/// it: see [`Http3Connection::unsent`](crate::h3::Http3Connection::unsent).
#[derive(Debug)]
pub struct QpackEncoder {
    /// The line that is being written.
    line: Vec<u8>,
    table: Option<Box<EncoderTable>>,
    /// The size of the table.
    capacity: usize,
    /// The size that the decoder knows.
    announced: usize,
    /// The bound of our own.
    own_capacity_max: usize,
    /// As many entries as the largest table that the peer allows can have: the counts of sections are modulo twice as many.
    entries_max: u64,
    /// Insertions so far.
    inserted: u64,
    /// Those of them that the decoder has acknowledged.
    acknowledged: u64,
    sent: SentSections,
    /// The beginning of an instruction that is not whole.
    partial: [u8; DECODER_INSTRUCTION_BYTES_MAX],
    partial_len: u8,
    unsent: Vec<u8>,
}

impl Default for QpackEncoder {
    fn default() -> QpackEncoder {
        QpackEncoder::new(TABLE_BYTES_MAX)
    }
}

impl QpackEncoder {
    /// An encoder at the start of a connection, with a table of at most `capacity_max` and 4 096 bytes. Without one until the settings of the peer have come.
    pub fn new(capacity_max: usize) -> QpackEncoder {
        QpackEncoder {
            line: Vec::new(),
            table: None,
            capacity: 0,
            announced: 0,
            own_capacity_max: capacity_max.min(TABLE_BYTES_MAX),
            entries_max: 0,
            inserted: 0,
            acknowledged: 0,
            sent: SentSections::default(),
            partial: [0; DECODER_INSTRUCTION_BYTES_MAX],
            partial_len: 0,
            unsent: Vec::new(),
        }
    }

    /// Obeys the SETTINGS_QPACK_MAX_TABLE_CAPACITY of the peer, which comes once.
    pub fn set_peer_capacity_max(&mut self, bytes: u64) {
        self.entries_max = entries_max(bytes);
        self.capacity = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.own_capacity_max);
        if let Some(table) = &mut self.table {
            table.set_size_max(self.capacity);
        }
    }

    /// What is to be sent on the encoder stream. The owner takes off what it has sent.
    pub(in crate::h3) fn unsent(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Gives memory back, as on an idle connection: all of it, once the peer has acknowledged all that it was sent. It is told that the table is empty.
    pub fn release(&mut self) {
        self.line = Vec::new();
        self.sent.shrink();
        self.unsent.shrink_to_fit();
        if !self.sent.is_empty() || self.acknowledged < self.inserted {
            return;
        }
        if self.table.take().is_some() && self.announced > 0 {
            self.announce(0);
        }
    }

    /// Sets the size of the table (section 4.3.1).
    fn announce(&mut self, capacity: usize) {
        long_integer::write(&mut self.unsent, 0x20, 5, capacity as u64);
        self.announced = capacity;
    }

    /// Takes in what came on the decoder stream; gives how many streams were cancelled, which the peer may say of any.
    ///
    /// # Errors
    /// What is wrong with it; the connection is lost.
    pub(in crate::h3) fn receive(&mut self, input: &[u8]) -> Result<usize, QpackError> {
        let (mut rest, mut cancelled) = (input, 0);
        while self.partial_len > 0 {
            let Some((&byte, tail)) = rest.split_first() else { return Ok(cancelled) };
            rest = tail;
            let Some(free) = self.partial.get_mut(usize::from(self.partial_len)) else {
                return Err(QpackError::IntegerTooLong);
            };
            *free = byte;
            self.partial_len += 1;
            match DecoderInstruction::read(&mut &self.partial[..usize::from(self.partial_len)]) {
                Ok(instruction) => {
                    self.partial_len = 0;
                    cancelled += usize::from(self.follow(instruction)?);
                }
                Err(CodingError::Truncated) => {}
                Err(error) => return Err(error.into()),
            }
        }
        while !rest.is_empty() {
            let before = rest;
            match DecoderInstruction::read(&mut rest) {
                Ok(instruction) => cancelled += usize::from(self.follow(instruction)?),
                Err(CodingError::Truncated) => {
                    let partial = self.partial.get_mut(..before.len()).ok_or(QpackError::IntegerTooLong)?;
                    partial.copy_from_slice(before);
                    self.partial_len = before.len() as u8;
                    return Ok(cancelled);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(cancelled)
    }

    /// Follows an instruction; whether it cancels a stream.
    fn follow(&mut self, instruction: DecoderInstruction) -> Result<bool, QpackError> {
        match instruction {
            DecoderInstruction::AcknowledgeSection(stream) => {
                let required = self.sent.acknowledge(stream).ok_or(QpackError::UnknownSection)?;
                self.acknowledged = self.acknowledged.max(required);
            }
            DecoderInstruction::CancelStream(stream) => {
                self.sent.cancel(stream);
                return Ok(true);
            }
            DecoderInstruction::Increment(by) => {
                if by == 0 || by > self.inserted - self.acknowledged {
                    return Err(QpackError::BadIncrement);
                }
                self.acknowledged += by;
            }
        }
        Ok(false)
    }
}

/// Writes the lines of one section.
#[derive(Debug)]
pub(in crate::h3) struct SectionEncoder<'a> {
    encoder: &'a mut QpackEncoder,
    out: &'a mut Vec<u8>,
    stream: u64,
    /// Where the section begins.
    start: usize,
    /// What indices count from. All that the section may refer to is before it.
    base: u64,
    /// Insertions that the section needs; 0 as long as it refers to none.
    required: u64,
    /// The oldest entry that it refers to.
    oldest: u64,
    may_refer: bool,
}

/// Bytes of the prefix of most sections, for which room is left.
const PREFIX_BYTES: usize = 2;

impl<'a> SectionEncoder<'a> {
    /// Begins a section, which is appended to `out`.
    #[inline]
    pub(in crate::h3) fn begin(
        encoder: &'a mut QpackEncoder,
        stream: u64,
        out: &'a mut Vec<u8>,
    ) -> SectionEncoder<'a> {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        let (base, may_refer) = (encoder.acknowledged, !encoder.sent.is_full());
        SectionEncoder { encoder, out, stream, start, base, required: 0, oldest: u64::MAX, may_refer }
    }

    /// Ends the section: its prefix says what it refers to. Gives the output back.
    #[inline]
    pub(in crate::h3) fn finish(self) -> &'a mut Vec<u8> {
        if self.required > 0 {
            let SectionEncoder { encoder, out, stream, start, base, required, oldest, .. } = self;
            encoder.sent.push(stream, required, oldest);
            let mut prefix = Vec::with_capacity(PREFIX_BYTES);
            SectionPrefix { required, base }.write(encoder.entries_max, &mut prefix);
            match out.get_mut(start..start + PREFIX_BYTES) {
                Some(room) if prefix.len() == PREFIX_BYTES => room.copy_from_slice(&prefix),
                _ => drop(out.splice(start..start + PREFIX_BYTES, prefix)),
            }
            return out;
        }
        self.out
    }

    /// Writes a line of the static table.
    #[inline]
    pub(in crate::h3) fn indexed(&mut self, index: usize) {
        integer::write(self.out, 0xc0, 6, index);
    }

    /// Writes a pseudo-field, whose name is that of the static line with this index, if there is one.
    pub(in crate::h3) fn pseudo_field(&mut self, name: &[u8], name_index: Option<usize>, value: &[u8]) {
        self.begin_pseudo_field(name, value);
        let hash = hash(&self.encoder.line);
        if !self.write_known_buf(hash) {
            self.enter_table(name.len(), name_index, hash);
            self.write_literal(name.len(), name_index, false);
        }
    }

    /// Inserts the line, if it is seen for the second time, and there is room for it (section 4.3).
    fn enter_table(&mut self, name_len: usize, name_index: Option<usize>, hash: u32) {
        let encoder = &mut *self.encoder;
        if encoder.capacity == 0 {
            return;
        }
        let table = encoder.table.get_or_insert_with(|| Box::new(EncoderTable::new(encoder.capacity)));
        let size = counted_bytes(encoder.line.len());
        if !table.was_seen(hash)
            || size > encoder.capacity / 2
            || encoder.unsent.len() + encoder.line.len() > UNSENT_BYTES_MAX
            // It may be there and not be acknowledged.
            || table.find(&encoder.line, hash).is_some()
        {
            return;
        }
        // Only entries that were acknowledged, and that no section needs, may go.
        let goes = encoder.inserted - table.len() as u64 + table.evicted_by(size) as u64;
        let needed = encoder.sent.oldest().unwrap_or(u64::MAX).min(self.oldest).min(encoder.acknowledged);
        if goes > needed {
            return;
        }
        table.insert(&encoder.line, name_len, hash);
        encoder.inserted += 1;
        if encoder.announced != encoder.capacity {
            encoder.announce(encoder.capacity);
        }
        let (out, line) = (&mut encoder.unsent, &encoder.line);
        match name_index {
            Some(index) => integer::write(out, 0xc0, 6, index),
            None => string::write(out, 0x40, 5, &line[..name_len].to_ascii_lowercase(), true),
        }
        string::write_whole(out, &line[name_len + 2..line.len() - 2], true);
    }

    /// Writes the line as a literal, which no proxy may index if it is secret (section 4.5.4).
    fn write_literal(&mut self, name_len: usize, name_index: Option<usize>, is_secret: bool) {
        let (line, out) = (&self.encoder.line, &mut *self.out);
        let never = if is_secret { 1 } else { 0 };
        match name_index {
            Some(index) => integer::write(out, 0x50 | never << 5, 4, index),
            None => string::write(out, 0x20 | never << 4, 3, &line[..name_len], false),
        }
        string::write_whole(out, &line[name_len + 2..line.len() - 2], false);
    }
}

impl LineEncoder for SectionEncoder<'_> {
    #[inline]
    fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.encoder.line
    }

    #[inline]
    fn write_known(&mut self, line: &[u8], hash: u32) -> bool {
        let encoder = &*self.encoder;
        let Some(table) = encoder.table.as_ref().filter(|_| self.may_refer) else { return false };
        let Some(age) = table.find(line, hash) else { return false };
        let index = encoder.inserted - 1 - age as u64;
        // Those behind the base were not acknowledged when the section began.
        let Some(before) = self.base.checked_sub(index + 1) else { return false };
        self.required = self.required.max(index + 1);
        self.oldest = self.oldest.min(index);
        long_integer::write(self.out, 0x80, 6, before);
        true
    }

    #[inline]
    fn write_new(&mut self, new: NewLine) {
        let NewLine { name_len, known, is_secret, hash } = new;
        let line = &self.encoder.line;
        let name_index = static_name(known, &line[..name_len]);
        let value = &line[name_len + 2..line.len() - 2];
        if let Some(index) = name_index.and_then(|first| static_value(first, value)) {
            return self.indexed(index);
        }
        if !is_secret {
            self.enter_table(name_len, name_index, hash);
        }
        if name_index.is_none() {
            lower_name(&mut self.encoder.line, name_len);
        }
        self.write_literal(name_len, name_index, is_secret);
    }
}

#[cfg(test)]
mod tests;
