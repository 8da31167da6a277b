//! Texts that are values, one behind the other, each once: a thousand backends of a million hosts are a thousand texts.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use weir_traffic::hash_bytes;

/// Bytes before a text that say how long it is.
const LEN_BYTES: usize = 4;

/// Texts, each behind its length. A text has the number of the byte at which that begins.
#[derive(Debug, Default)]
pub(super) struct ValueTexts(Vec<u8>);

/// Texts to which others are added.
#[derive(Debug, Default)]
pub(super) struct ValueTextsBuilder {
    texts: ValueTexts,
    /// The numbers of all of them.
    known: HashTable<u32>,
}

impl ValueTexts {
    /// The text with this number; empty if there is none.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let behind = self.0.get(number as usize..).unwrap_or_default();
        let parts = behind.split_first_chunk::<LEN_BYTES>();
        parts.and_then(|(len, text)| text.get(..u32::from_le_bytes(*len) as usize)).unwrap_or_default()
    }

    /// Bytes that they take on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }
}

impl ValueTextsBuilder {
    /// The number of a text; `None` if it would not be below `end`.
    pub(super) fn insert(&mut self, text: &[u8], end: u32) -> Option<u32> {
        let Self { texts, known } = self;
        let is_same = |number: &u32| texts.get(*number) == text;
        match known.entry(hash_bytes(text), is_same, |number| hash_bytes(texts.get(*number))) {
            Entry::Occupied(place) => Some(*place.get()),
            Entry::Vacant(place) => {
                let len = u32::try_from(text.len()).ok()?;
                let number = u32::try_from(texts.0.len()).ok().filter(|number| *number < end)?;
                place.insert(number);
                texts.0.extend_from_slice(&len.to_le_bytes());
                texts.0.extend_from_slice(text);
                Some(number)
            }
        }
    }

    /// The texts, without what is needed to add others.
    pub(super) fn build(self) -> ValueTexts {
        let ValueTexts(mut bytes) = self.texts;
        bytes.shrink_to_fit();
        ValueTexts(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_there_once() {
        let mut builder = ValueTextsBuilder::default();
        let texts: Vec<Vec<u8>> = (0..300).map(|len| vec![b'x'; len]).chain([vec![0, 255]]).collect();
        let numbers: Vec<Option<u32>> = texts.iter().map(|text| builder.insert(text, u32::MAX)).collect();
        let again: Vec<Option<u32>> = texts.iter().map(|text| builder.insert(text, u32::MAX)).collect();
        assert_eq!(numbers, again);
        assert_eq!(builder.insert(b"new", 1_000), None, "it would begin behind the end");
        let built = builder.build();
        for (text, number) in texts.iter().zip(numbers) {
            assert_eq!(built.get(number.expect("there was room")), text);
        }
        assert_eq!(built.heap_bytes(), texts.iter().map(|text| text.len() + LEN_BYTES).sum::<usize>());
        assert_eq!(built.get(u32::MAX), b"");
    }
}
