//! The decoder of field sections (RFC 9204 section 2.2): lines appended to a text, one after another.
//!
//! Its table is filled by the encoder stream of the peer. A section that needs entries which have not come yet waits; how many may, and how large they
//! may be together, is bounded.

use super::UNSENT_BYTES_MAX;
use super::acknowledgement::DecoderInstruction;
use super::error::QpackError;
use super::instruction::{EncoderInstruction, InsertedName};
use super::prefix::{SectionPrefix, entries_max};
use super::static_table::static_line;
use crate::multiplexed::bucket::Bucket;
use crate::multiplexed::compression::decoded::{CompressedLines, DecodedLine};
use crate::multiplexed::compression::line_class::{LineClass, counted_bytes};
use crate::multiplexed::compression::line_table::LineTable;
use crate::multiplexed::compression::{TABLE_BYTES_MAX, integer, string};

/// Bytes of all sections together that wait for entries.
const BLOCKED_BYTES_MAX: usize = 128 * 1024;

/// Bytes of an instruction that is not whole: name and value of an entry that fits the table, in the longest code that they can have.
const INSTRUCTION_BYTES_MAX: usize = 4 * TABLE_BYTES_MAX;

/// Decodes the field sections that come in on one connection.
///
/// Nothing is allocated until a peer adds the first line to the table. What is to be sent on the decoder stream waits in it: see
/// [`Http3Connection::unsent`](crate::h3::Http3Connection::unsent).
#[derive(Debug)]
pub struct QpackDecoder {
    table: LineTable<LineClass>,
    /// The size that the peer may give the table.
    capacity_max: usize,
    /// Insertions so far.
    inserted: u64,
    /// Those of them that the encoder knows to have arrived.
    acknowledged: u64,
    blocked: Vec<BlockedSection>,
    blocked_max: usize,
    /// The beginning of an instruction that is not whole.
    partial: Vec<u8>,
    /// The line that is being inserted.
    line: Vec<u8>,
    unsent: Vec<u8>,
}

/// A section that waits for entries.
#[derive(Debug, Clone, Copy)]
struct BlockedSection {
    stream: u64,
    required: u64,
    len: usize,
}

/// A field section, which is complete.
#[derive(Debug, Clone, Copy)]
pub struct FieldSection<'a> {
    /// The stream on which it came.
    pub stream: u64,
    /// The payload of its HEADERS frame.
    pub bytes: &'a [u8],
}

/// What became of a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionProgress {
    /// It was read.
    Read,
    /// It needs entries of the dynamic table that have not come. Nothing was read; it is to be kept, and read again when
    /// [`QpackDecoder::next_unblocked`] names its stream. Nothing behind it on the stream may be read before.
    Blocked,
}

impl QpackDecoder {
    /// A decoder at the start of a connection, with a table of at most `capacity_max` and 4 096 bytes, for which `blocked_max` streams may wait at once: what
    /// the settings say.
    pub fn new(capacity_max: u64, blocked_max: u64) -> QpackDecoder {
        QpackDecoder {
            table: LineTable::new(0),
            capacity_max: usize::try_from(capacity_max).unwrap_or(TABLE_BYTES_MAX).min(TABLE_BYTES_MAX),
            inserted: 0,
            acknowledged: 0,
            blocked: Vec::new(),
            blocked_max: usize::try_from(blocked_max).unwrap_or(usize::MAX),
            partial: Vec::new(),
            line: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// What is to be sent on the decoder stream. The owner takes off what it has sent.
    pub(in crate::h3) fn unsent(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Gives back the memory that is not used, as on an idle connection.
    pub fn shrink(&mut self) {
        self.blocked.shrink_to_fit();
        self.partial.shrink_to_fit();
        self.unsent.shrink_to_fit();
        self.line = Vec::new();
    }

    /// A stream whose section waited and need not wait any more: to be asked after each input of the encoder stream, until there is none. The section is to
    /// be read again.
    pub fn next_unblocked(&mut self) -> Option<u64> {
        let ready = self.blocked.iter().position(|section| section.required <= self.inserted)?;
        Some(self.blocked.remove(ready).stream)
    }

    /// Streams whose section waits.
    pub fn streams_blocked(&self) -> usize {
        self.blocked.len()
    }

    /// The stream is not read any more, though sections may have come on it that were not decoded (section 4.4.2): it was reset, or is not wanted. The
    /// encoder is told so.
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|section| section.stream != stream);
        // Without a table there is nothing to let go of. An encoder that misses one keeps an entry for longer: a fault of its own.
        if self.capacity_max > 0 && self.unsent.len() < UNSENT_BYTES_MAX {
            DecoderInstruction::CancelStream(stream).write(&mut self.unsent);
        }
    }

    /// Decodes a section and calls `take` with each name and value as it was sent: nothing is checked but what the format demands. It is not for messages,
    /// which `read_request` and its like read.
    ///
    /// # Errors
    /// What is wrong with the section, behind the fields that were given already.
    pub fn decode_fields(
        &mut self,
        section: FieldSection<'_>,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<SectionProgress, QpackError> {
        let stream = section.stream;
        let Some(lines) = self.open(section)? else { return Ok(SectionProgress::Blocked) };
        let required = lines.required();
        lines.decode(&mut Vec::new(), |text, line| {
            take(&text[..line.name_len], &text[line.name_len + 2..text.len() - 2]);
            text.clear();
            Ok::<(), QpackError>(())
        })?;
        self.acknowledge(stream, required);
        Ok(SectionProgress::Read)
    }

    /// Reads the prefix of a section; `None` when it has to wait.
    ///
    /// # Errors
    /// What is wrong with it, or too many would wait.
    pub(in crate::h3) fn open<'a>(
        &'a mut self,
        section: FieldSection<'a>,
    ) -> Result<Option<QpackSection<'a>>, QpackError> {
        let mut rest = section.bytes;
        let entries_max = entries_max(self.capacity_max as u64);
        let prefix = SectionPrefix::read(&mut rest, self.inserted, entries_max)?;
        if prefix.required > self.inserted {
            self.block(section, prefix.required)?;
            return Ok(None);
        }
        if prefix.required > 0 && self.unsent.len() >= UNSENT_BYTES_MAX {
            return Err(QpackError::TooMuchUnsent);
        }
        Ok(Some(QpackSection { decoder: self, prefix, bytes: rest }))
    }

    /// Lets a section wait.
    #[cold]
    fn block(&mut self, section: FieldSection<'_>, required: u64) -> Result<(), QpackError> {
        let others = self.blocked.iter().filter(|other| other.stream != section.stream);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), other| (count + 1, bytes + other.len));
        if count >= self.blocked_max {
            return Err(QpackError::TooManyBlocked);
        }
        if bytes + section.bytes.len() > BLOCKED_BYTES_MAX {
            return Err(QpackError::BlockedTooLarge);
        }
        self.blocked.retain(|other| other.stream != section.stream);
        self.blocked.push(BlockedSection { stream: section.stream, required, len: section.bytes.len() });
        Ok(())
    }

    /// A section was dealt with that needed so many insertions: the encoder is told so (section 4.4.1).
    #[inline]
    pub(in crate::h3) fn acknowledge(&mut self, stream: u64, required: u64) {
        if required > 0 {
            DecoderInstruction::AcknowledgeSection(stream).write(&mut self.unsent);
            self.acknowledged = self.acknowledged.max(required);
        }
    }

    /// Takes in what came on the encoder stream. Each instruction draws from `budget`; `now` is in milliseconds.
    ///
    /// # Errors
    /// What is wrong with it; the connection is lost.
    pub(in crate::h3) fn receive(
        &mut self,
        input: &[u8],
        budget: &mut Bucket,
        now: u64,
    ) -> Result<(), QpackError> {
        if self.partial.is_empty() {
            let left = self.follow(input, budget, now)?;
            self.partial.extend_from_slice(&input[input.len() - left..]);
        } else {
            let mut partial = std::mem::take(&mut self.partial);
            partial.extend_from_slice(input);
            let left = self.follow(&partial, budget, now)?;
            partial.drain(..partial.len() - left);
            self.partial = partial;
        }
        if self.partial.len() > INSTRUCTION_BYTES_MAX {
            return Err(QpackError::InstructionTooLong);
        }
        if self.partial.is_empty() && self.partial.capacity() > INSTRUCTION_BYTES_MAX {
            self.partial = Vec::new();
        }
        self.announce_insertions()
    }

    /// Tells the encoder what has come (section 4.4.3).
    fn announce_insertions(&mut self) -> Result<(), QpackError> {
        if self.inserted > self.acknowledged {
            if self.unsent.len() >= UNSENT_BYTES_MAX {
                return Err(QpackError::TooMuchUnsent);
            }
            DecoderInstruction::Increment(self.inserted - self.acknowledged).write(&mut self.unsent);
            self.acknowledged = self.inserted;
        }
        Ok(())
    }

    /// Follows all instructions that are whole; how many bytes are left.
    fn follow(&mut self, input: &[u8], budget: &mut Bucket, now: u64) -> Result<usize, QpackError> {
        let mut rest = input;
        while let Some(instruction) = EncoderInstruction::read(&mut rest)? {
            if !budget.take(now) {
                return Err(QpackError::TooManyInstructions);
            }
            match instruction {
                EncoderInstruction::SetCapacity(capacity) if capacity > self.capacity_max => {
                    return Err(QpackError::CapacityTooLarge);
                }
                EncoderInstruction::SetCapacity(capacity) => self.table.set_size_max(capacity),
                EncoderInstruction::Insert { name, value } => {
                    self.line.clear();
                    let (name_len, class) = self.begin_insertion(name)?;
                    value.append(&mut self.line)?;
                    self.line.extend_from_slice(b"\r\n");
                    let class = match class {
                        Some(class) => class.with_value(&self.line, name_len),
                        None => LineClass::new(&self.line, name_len),
                    };
                    self.insert(name_len, class)?;
                }
                EncoderInstruction::Duplicate(age) => {
                    let entry = self.table.get(age).ok_or(QpackError::BadIndex)?;
                    let (name_len, class) = (entry.name_len, entry.detail);
                    self.line.clear();
                    self.line.extend_from_slice(entry.line);
                    self.insert(name_len, class)?;
                }
            }
        }
        Ok(rest.len())
    }

    /// Puts the name of an entry into the line; its length, and its class if it is known already.
    fn begin_insertion(&mut self, name: InsertedName<'_>) -> Result<(usize, Option<LineClass>), QpackError> {
        let (line, name_len, class) = match name {
            InsertedName::Literal(name) => {
                name.append(&mut self.line)?;
                let name_len = self.line.len();
                self.line.extend_from_slice(b": ");
                return Ok((name_len, None));
            }
            InsertedName::Static(index) => {
                let entry = static_line(index).ok_or(QpackError::BadIndex)?;
                (entry.line, entry.name_len, entry.class)
            }
            InsertedName::Dynamic(age) => {
                let entry = self.table.get(age).ok_or(QpackError::BadIndex)?;
                (entry.line, entry.name_len, entry.detail)
            }
        };
        self.line.extend_from_slice(&line[..name_len + 2]);
        // The rule may be broken by the other value.
        Ok((name_len, Some(class).filter(|class| class.broken.is_none())))
    }

    /// Inserts the line.
    fn insert(&mut self, name_len: usize, class: LineClass) -> Result<(), QpackError> {
        if counted_bytes(self.line.len()) > self.table.size_max() {
            return Err(QpackError::EntryTooLarge);
        }
        self.table.insert(&self.line, name_len, class);
        self.inserted += 1;
        Ok(())
    }
}

/// The lines of a section whose entries are all there.
pub(in crate::h3) struct QpackSection<'a> {
    decoder: &'a QpackDecoder,
    prefix: SectionPrefix,
    bytes: &'a [u8],
}

/// A line of a table.
type FoundLine<'a> = (&'a [u8], usize, LineClass);

impl QpackSection<'_> {
    /// The insertions that it needs.
    pub(in crate::h3) const fn required(&self) -> u64 {
        self.prefix.required
    }

    /// The entry of the dynamic table with this absolute index.
    #[inline]
    fn dynamic(&self, index: Option<u64>) -> Result<FoundLine<'_>, QpackError> {
        let index = index.filter(|index| *index < self.prefix.required).ok_or(QpackError::BadIndex)?;
        // All that it may refer to was inserted.
        let age = usize::try_from(self.decoder.inserted - 1 - index).map_err(|_| QpackError::BadIndex)?;
        let entry = self.decoder.table.get(age).ok_or(QpackError::BadIndex)?;
        Ok((entry.line, entry.name_len, entry.detail))
    }

    /// The entry that came so many before the base.
    #[inline]
    fn before_base(&self, index: usize) -> Result<FoundLine<'_>, QpackError> {
        self.dynamic(self.prefix.base.checked_sub(index as u64 + 1))
    }

    /// The entry that came so many behind the base.
    fn behind_base(&self, index: usize) -> Result<FoundLine<'_>, QpackError> {
        self.dynamic(self.prefix.base.checked_add(index as u64))
    }

    #[inline]
    fn fixed(index: usize) -> Result<FoundLine<'static>, QpackError> {
        let entry = static_line(index).ok_or(QpackError::BadIndex)?;
        Ok((entry.line, entry.name_len, entry.class))
    }

    /// Appends the line of the representation (section 4.5) that begins with `first`.
    #[inline]
    fn append(&self, first: u8, rest: &mut &[u8], text: &mut Vec<u8>) -> Result<DecodedLine, QpackError> {
        let (line, name_len, class) = match first {
            0xc0.. => Self::fixed(integer::read(first, 6, rest)?)?,
            0x80..0xc0 => self.before_base(integer::read(first, 6, rest)?)?,
            0x10..0x20 => self.behind_base(integer::read(first, 4, rest)?)?,
            _ => return self.append_literal(first, rest, text),
        };
        let start = text.len();
        text.extend_from_slice(line);
        Ok(DecodedLine { start, name_len, class })
    }

    #[inline(never)]
    fn append_literal(
        &self,
        first: u8,
        rest: &mut &[u8],
        text: &mut Vec<u8>,
    ) -> Result<DecodedLine, QpackError> {
        let start = text.len();
        let named = match first {
            0x50..0x60 | 0x70..0x80 => Some(Self::fixed(integer::read(first, 4, rest)?)?),
            0x40..0x80 => Some(self.before_base(integer::read(first, 4, rest)?)?),
            0x20..0x40 => None,
            _ => Some(self.behind_base(integer::read(first, 3, rest)?)?),
        };
        let (name_len, name_class) = match named {
            None => {
                string::append(first, 3, rest, text)?;
                let name_len = text.len() - start;
                text.extend_from_slice(b": ");
                (name_len, None)
            }
            Some((line, name_len, class)) => {
                text.extend_from_slice(&line[..name_len + 2]);
                // The rule may be broken by the other value.
                (name_len, Some(class).filter(|class| class.broken.is_none()))
            }
        };
        string::append_whole(rest, text)?;
        text.extend_from_slice(b"\r\n");
        let line = &text[start..];
        let class = match name_class {
            Some(class) => class.with_value(line, name_len),
            None => LineClass::new(line, name_len),
        };
        Ok(DecodedLine { start, name_len, class })
    }
}

impl CompressedLines for &QpackSection<'_> {
    type Error = QpackError;

    const CHANGE_TABLE: bool = false;

    #[inline(always)]
    fn decode<E: From<QpackError>>(
        self,
        text: &mut Vec<u8>,
        mut take: impl FnMut(&mut Vec<u8>, DecodedLine) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = self.bytes;
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            let line = self.append(first, &mut rest, text)?;
            take(text, line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
