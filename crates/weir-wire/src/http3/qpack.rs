//! Field sections and the table that they refer to (RFC 9204), of a sender that has to be exact.

use httlib_hpack::Decoder;

use super::static_table::STATIC;
use crate::fields::{RecordedFields, latin1};

/// What an entry has besides its name and value (RFC 9204 section 3.2.1).
const ENTRY_OVERHEAD: usize = 32;

/// The dynamic table of a sender.
#[derive(Debug, Default)]
pub struct QpackTable {
    /// By absolute index: entries that were dropped as well.
    entries: Vec<(String, String)>,
    /// How many of them were dropped.
    dropped: usize,
    bytes: usize,
    capacity: usize,
    capacity_max: usize,
    /// Instructions that are not whole.
    rest: Vec<u8>,
}

/// Bytes that are read.
struct SectionCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What may end early: more is to come.
type Partial<T> = Result<Option<T>, String>;

impl SectionCursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// An integer with a prefix of so many bits (RFC 7541 section 5.1).
    fn integer(&mut self, prefix: u32) -> Partial<u64> {
        let mask = (1u64 << prefix) - 1;
        let Some(first) = self.peek() else { return Ok(None) };
        let mut at = self.at + 1;
        let mut number = u64::from(first) & mask;
        if number == mask {
            let mut shift = 0;
            loop {
                let Some(byte) = self.bytes.get(at) else { return Ok(None) };
                if shift > 56 {
                    return Err("an integer is too large".to_owned());
                }
                number += u64::from(byte & 0x7f) << shift;
                (shift, at) = (shift + 7, at + 1);
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        self.at = at;
        Ok(Some(number))
    }

    /// A string whose length has a prefix of so many bits, with the bit for Huffman's code before them.
    fn string(&mut self, prefix: u32) -> Partial<String> {
        let Some(first) = self.peek() else { return Ok(None) };
        let is_huffman = first & (1 << prefix) != 0;
        let Some(len) = self.integer(prefix)? else { return Ok(None) };
        let len = usize::try_from(len).map_err(|_| "a string is too long".to_owned())?;
        let Some(bytes) = self.bytes.get(self.at..self.at.saturating_add(len)) else { return Ok(None) };
        self.at += len;
        if is_huffman { expand(bytes).map(Some) } else { Ok(Some(latin1(bytes))) }
    }
}

/// Text in Huffman's code, by way of a field of HPACK that has it as its value.
fn expand(bytes: &[u8]) -> Result<String, String> {
    let mut field = vec![0, 1, b'x'];
    let mut len = bytes.len();
    if len < 127 {
        field.push(0x80 | len as u8);
    } else {
        field.push(0xff);
        len -= 127;
        while len >= 128 {
            field.push(0x80 | (len % 128) as u8);
            len /= 128;
        }
        field.push(len as u8);
    }
    field.extend_from_slice(bytes);
    let mut lines = Vec::new();
    let decoded = Decoder::default().decode(&mut field, &mut lines);
    decoded.map_err(|error| format!("no Huffman code: {error:?}"))?;
    Ok(lines.first().map(|(_, value, _)| latin1(value)).unwrap_or_default())
}

fn static_entry(index: u64) -> Result<(String, String), String> {
    let entry = usize::try_from(index).ok().and_then(|index| STATIC.get(index));
    let (name, value) = entry.ok_or_else(|| format!("no static entry has index {index}"))?;
    Ok(((*name).to_owned(), (*value).to_owned()))
}

impl QpackTable {
    /// A table that may get no larger than so many bytes.
    pub fn new(capacity_max: usize) -> Self {
        Self { capacity_max, ..Self::default() }
    }

    /// How many entries were inserted.
    pub fn insertions(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Takes instructions of the encoder.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn instruct(&mut self, bytes: &[u8]) -> Result<(), String> {
        let rest = std::mem::take(&mut self.rest);
        let all = [&rest[..], bytes].concat();
        let mut cursor = SectionCursor { bytes: &all, at: 0 };
        let mut done = 0;
        while self.instruction(&mut cursor)?.is_some() {
            done = cursor.at;
        }
        self.rest = all[done..].to_vec();
        Ok(())
    }

    fn instruction(&mut self, cursor: &mut SectionCursor<'_>) -> Partial<()> {
        let Some(first) = cursor.peek() else { return Ok(None) };
        if first & 0x80 != 0 {
            let Some(index) = cursor.integer(6)? else { return Ok(None) };
            let (name, _) = if first & 0x40 != 0 { static_entry(index)? } else { self.newest(index)? };
            let Some(value) = cursor.string(7)? else { return Ok(None) };
            return self.insert(name, value).map(Some);
        }
        if first & 0x40 != 0 {
            let Some(name) = cursor.string(5)? else { return Ok(None) };
            let Some(value) = cursor.string(7)? else { return Ok(None) };
            return self.insert(name, value).map(Some);
        }
        let Some(number) = cursor.integer(5)? else { return Ok(None) };
        if first & 0x20 == 0 {
            let (name, value) = self.newest(number)?;
            return self.insert(name, value).map(Some);
        }
        self.capacity = usize::try_from(number).unwrap_or(usize::MAX);
        if self.capacity > self.capacity_max {
            return Err(format!("a table of {number} bytes, where {} may be", self.capacity_max));
        }
        self.evict();
        Ok(Some(()))
    }

    /// An entry by how many were inserted behind it.
    fn newest(&self, index: u64) -> Result<(String, String), String> {
        let at = self.insertions().checked_sub(index + 1);
        at.map_or_else(|| Err(format!("no entry has index {index}")), |at| self.entry(at))
    }

    fn entry(&self, at: u64) -> Result<(String, String), String> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        match self.entries.get(at).filter(|_| at >= self.dropped) {
            Some(entry) => Ok(entry.clone()),
            None => Err(format!("no entry has the absolute index {at}")),
        }
    }

    fn insert(&mut self, name: String, value: String) -> Result<(), String> {
        let len = name.len() + value.len() + ENTRY_OVERHEAD;
        if len > self.capacity {
            return Err(format!("an entry of {len} bytes in a table of {}", self.capacity));
        }
        self.bytes += len;
        self.entries.push((name, value));
        self.evict();
        Ok(())
    }

    fn evict(&mut self) {
        while self.bytes > self.capacity {
            let (name, value) = &self.entries[self.dropped];
            self.bytes -= name.len() + value.len() + ENTRY_OVERHEAD;
            self.dropped += 1;
        }
    }

    /// The number of insertions that a section needs, by its prefix (RFC 9204 section 4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, String> {
        if encoded == 0 {
            return Ok(0);
        }
        let max_entries = (self.capacity_max / ENTRY_OVERHEAD) as u64;
        let (full, max) = (2 * max_entries, self.insertions() + max_entries);
        if full == 0 || encoded > full {
            return Err(format!("an insert count of {encoded}"));
        }
        let required = max / full * full + encoded - 1;
        let required = if required > max { required.saturating_sub(full) } else { required };
        if required == 0 { Err("an insert count of nothing".to_owned()) } else { Ok(required) }
    }

    /// The lines of a section, and whether it uses the dynamic table.
    ///
    /// # Errors
    /// The rule that it breaks: it may need nothing that has not come.
    pub fn section(&self, bytes: &[u8]) -> Result<(RecordedFields, bool), String> {
        let cut = || "a field section is cut".to_owned();
        let mut cursor = SectionCursor { bytes, at: 0 };
        let required = self.required(cursor.integer(8)?.ok_or_else(cut)?)?;
        if required > self.insertions() {
            return Err(format!("it waits for {required} insertions, {} came", self.insertions()));
        }
        let is_negative = cursor.peek().ok_or_else(cut)? & 0x80 != 0;
        let delta = cursor.integer(7)?.ok_or_else(cut)?;
        let base = if is_negative { required.checked_sub(delta + 1) } else { Some(required + delta) };
        let base = base.ok_or_else(|| "a base below nothing".to_owned())?;
        let (mut fields, mut needed) = (Vec::new(), 0);
        while let Some(first) = cursor.peek() {
            let mut dynamic = |at: Option<u64>| {
                let at = at.ok_or_else(|| "an entry before the first".to_owned())?;
                needed = needed.max(at + 1);
                self.entry(at)
            };
            let is_static = first & 0x40 != 0;
            if first & 0x80 != 0 {
                let index = cursor.integer(6)?.ok_or_else(cut)?;
                fields.push(match is_static {
                    true => static_entry(index)?,
                    false => dynamic(base.checked_sub(index + 1))?,
                });
            } else if first & 0x40 != 0 {
                let is_static = first & 0x10 != 0;
                let index = cursor.integer(4)?.ok_or_else(cut)?;
                let (name, _) = match is_static {
                    true => static_entry(index)?,
                    false => dynamic(base.checked_sub(index + 1))?,
                };
                fields.push((name, cursor.string(7)?.ok_or_else(cut)?));
            } else if first & 0x20 != 0 {
                let name = cursor.string(3)?.ok_or_else(cut)?;
                fields.push((name, cursor.string(7)?.ok_or_else(cut)?));
            } else if first & 0x10 != 0 {
                let index = cursor.integer(4)?.ok_or_else(cut)?;
                fields.push(dynamic(Some(base + index))?);
            } else {
                let index = cursor.integer(3)?.ok_or_else(cut)?;
                let (name, _) = dynamic(Some(base + index))?;
                fields.push((name, cursor.string(7)?.ok_or_else(cut)?));
            }
        }
        if needed != required {
            return Err(format!("an insert count of {required}, where {needed} are needed"));
        }
        Ok((RecordedFields(fields), required > 0))
    }
}
