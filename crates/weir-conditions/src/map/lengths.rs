//! Beginnings and ends of texts: the longest one counts.

use super::keys::{KeyRefused, KeyTable};

/// The most lengths that the beginnings, or the ends, of one map may have: a lookup asks once for each.
pub(super) const LENGTHS_MAX: usize = 128;

/// Texts that others begin or end with.
#[derive(Debug, Default)]
pub(super) struct AffixTable {
    pub(super) keys: KeyTable,
    /// The lengths that occur, longest first.
    lengths: Vec<usize>,
}

/// Why a text cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AffixRefused {
    Key(KeyRefused),
    /// It would have a length too many.
    Lengths,
}

impl AffixTable {
    pub(super) fn insert(&mut self, affix: &[u8], value: u32) -> Result<(), AffixRefused> {
        if let Err(at) = self.lengths.binary_search_by(|len| affix.len().cmp(len)) {
            if self.lengths.len() == LENGTHS_MAX {
                return Err(AffixRefused::Lengths);
            }
            self.lengths.insert(at, affix.len());
        }
        self.keys.insert(affix, value).map_err(AffixRefused::Key)
    }

    /// The value of the longest one that `text` begins with.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<u32> {
        self.longest(text.len(), |len| Some(&text[..len]))
    }

    /// The value of the longest one that `text` ends with.
    pub(super) fn longest_suffix(&self, text: &[u8]) -> Option<u32> {
        self.longest(text.len(), |len| Some(&text[text.len() - len..]))
    }

    /// The same where all begin with a dot: no more is looked up than the text has dots.
    pub(super) fn longest_domain(&self, text: &[u8]) -> Option<u32> {
        self.longest(text.len(), |len| Some(&text[text.len() - len..]).filter(|end| end.starts_with(b".")))
    }

    fn longest<'t>(&self, len_max: usize, part: impl Fn(usize) -> Option<&'t [u8]>) -> Option<u32> {
        let lengths = self.lengths.iter().filter(|len| **len <= len_max);
        lengths.into_iter().find_map(|len| self.keys.get(part(*len)?))
    }
}
