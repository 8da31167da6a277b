//! Texts and their values, close together: a million of them take tens of bytes each.

use hashbrown::HashTable;
use weir_traffic::hash_bytes;

/// A text, by where its bytes stand.
#[derive(Debug, Clone, Copy)]
struct TextEntry {
    start: u32,
    len: u32,
    value: u32,
}

/// A map from texts to numbers.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    bytes: Vec<u8>,
    entries: Vec<TextEntry>,
    table: HashTable<u32>,
}

/// Why a text cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is there already.
    Known,
    /// There are too many bytes.
    Full,
}

impl TextTable {
    pub(super) fn insert(&mut self, text: &[u8], value: u32) -> Result<(), Refused> {
        let start = u32::try_from(self.bytes.len()).map_err(|_| Refused::Full)?;
        let len = u32::try_from(text.len()).map_err(|_| Refused::Full)?;
        let index = u32::try_from(self.entries.len()).map_err(|_| Refused::Full)?;
        let Self { bytes, entries, table } = self;
        let text_of = |index: &u32| text_of(bytes, entries, *index);
        let is_same = |index: &u32| text_of(index) == text;
        match table.entry(hash_bytes(text), is_same, |index| hash_bytes(text_of(index))) {
            hashbrown::hash_table::Entry::Occupied(_) => return Err(Refused::Known),
            hashbrown::hash_table::Entry::Vacant(place) => _ = place.insert(index),
        }
        bytes.extend_from_slice(text);
        entries.push(TextEntry { start, len, value });
        Ok(())
    }

    /// Makes room for so many texts of so many bytes together.
    pub(super) fn reserve(&mut self, texts: usize, bytes_sum: usize) {
        self.bytes.reserve(bytes_sum);
        self.entries.reserve(texts);
        let Self { bytes, entries, table } = self;
        table.reserve(texts, |index| hash_bytes(text_of(bytes, entries, *index)));
    }

    pub(super) fn get(&self, text: &[u8]) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        let is_same = |index: &u32| text_of(&self.bytes, &self.entries, *index) == text;
        let index = self.table.find(hash_bytes(text), is_same)?;
        self.entries.get(*index as usize).map(|entry| entry.value)
    }

    /// The text that was added after so many others.
    pub(super) fn nth(&self, index: u32) -> &[u8] {
        text_of(&self.bytes, &self.entries, index)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Gives back what is not needed once all texts are there.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
        let Self { bytes, entries, table } = self;
        table.shrink_to_fit(|index| hash_bytes(text_of(bytes, entries, *index)));
    }

    /// Bytes that it takes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.entries.capacity() * size_of::<TextEntry>()
            + self.table.allocation_size()
    }
}

fn text_of<'a>(bytes: &'a [u8], entries: &[TextEntry], index: u32) -> &'a [u8] {
    let range =
        entries.get(index as usize).map(|entry| entry.start as usize..(entry.start + entry.len) as usize);
    range.and_then(|range| bytes.get(range)).unwrap_or_default()
}
