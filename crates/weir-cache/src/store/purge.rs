//! What a purge is about, and what it makes of responses that are being fetched.

use super::key::key_text;

/// Which responses are purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeScope<'a> {
    /// All.
    All,
    /// Those of this key with its partition, all variants.
    Exact(&'a [u8]),
    /// Those of keys with this text, in all partitions and variants.
    Key(&'a [u8]),
    /// Those whose key begins so.
    Prefix(&'a [u8]),
    /// Those with this tag.
    Tag(&'a [u8]),
}

/// What becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PurgeMode {
    /// They are stale: used only once the server has confirmed them, or as stale responses are.
    Soft,
    /// They are gone.
    Hard,
}

impl PurgeScope<'_> {
    /// Whether it is about a response with this key; `None`: that depends on its tags.
    pub(super) fn covers_key(&self, key: &[u8]) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::Exact(exact) => Some(key == *exact),
            Self::Key(text) => Some(key_text(key) == *text),
            Self::Prefix(text) => Some(key_text(key).starts_with(text)),
            Self::Tag(_) => None,
        }
    }

    /// Whether it is about a response with this key and these tags.
    pub(crate) fn covers<'t>(&self, key: &[u8], mut tags: impl Iterator<Item = &'t [u8]>) -> bool {
        self.covers_key(key)
            .unwrap_or_else(|| matches!(self, Self::Tag(tag) if tags.any(|other| other == *tag)))
    }
}

/// Purges since a fetch began.
#[derive(Debug, Default)]
pub(super) struct PurgeMarks {
    by_key: Option<PurgeMode>,
    by_tag: Vec<(Box<[u8]>, PurgeMode)>,
}

/// Tags that are remembered for one fetch; after more, its response is not stored.
const TAG_MARKS_MAX: usize = 64;

impl PurgeMarks {
    /// Notes a purge. Whether the response will not be stored, whatever it is.
    pub(super) fn add(&mut self, key: &[u8], scope: &PurgeScope<'_>, mode: PurgeMode) -> bool {
        match (scope.covers_key(key), scope) {
            (Some(true), _) => self.by_key = self.by_key.max(Some(mode)),
            (None, PurgeScope::Tag(tag)) if self.by_tag.len() < TAG_MARKS_MAX => {
                self.by_tag.push(((*tag).into(), mode));
            }
            (None, _) => self.by_key = Some(PurgeMode::Hard),
            (Some(false), _) => {}
        }
        self.by_key == Some(PurgeMode::Hard)
    }

    /// What they make of a response with these tags.
    pub(super) fn of<'t>(&self, tags: impl Iterator<Item = &'t [u8]>) -> Option<PurgeMode> {
        if self.by_tag.is_empty() {
            return self.by_key;
        }
        let by_tag =
            |tag: &[u8]| self.by_tag.iter().filter(|(other, _)| **other == *tag).map(|(_, mode)| *mode).max();
        tags.map(by_tag).fold(self.by_key, Option::max)
    }
}
