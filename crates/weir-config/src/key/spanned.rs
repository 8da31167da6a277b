//! Values with their positions.

use super::ConfigValue;
use super::bounds::OutOfBounds;
use super::reader::TreeReader;
use super::schema::{Bounds, ValueKind};
use super::section::ConfigSection;
use crate::diagnostic::SourceSpan;
use crate::source::{Tree, TreeNode};

/// A value and its span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: SourceSpan,
}

impl<T: ConfigValue> ConfigValue for Spanned<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        T::kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        Some(Self { value: T::read(node, bounds, reader)?, span: node.span })
    }

    fn write(&self) -> String {
        self.value.write()
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        self.value.check_bounds(key, bounds, found);
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.value.lines(path, lines);
    }
}

/// A table, its span and the spans of its keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpannedTable<T> {
    pub(crate) value: T,
    pub(crate) span: SourceSpan,
    /// Whether everything in it could be read: otherwise it is not worth comparing with others.
    pub(crate) is_sound: bool,
    keys: Vec<(String, SourceSpan)>,
    /// Keys that something in it is probably a slip of.
    misspelt: Vec<&'static str>,
}

impl<T> SpannedTable<T> {
    /// A table that no text has.
    pub(crate) fn unwritten(value: T, span: SourceSpan) -> Self {
        Self { value, span, is_sound: true, keys: Vec::new(), misspelt: Vec::new() }
    }

    /// The span of a key; `None` when the text does not set it.
    pub(crate) fn written(&self, key: &str) -> Option<SourceSpan> {
        self.keys.iter().find(|(known, _)| known == key).map(|(_, at)| *at)
    }

    /// The keys that the text sets, in its order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(key, _)| &**key)
    }

    /// Whether the text does not even try to set a key.
    pub(crate) fn is_missing(&self, key: &str) -> bool {
        self.written(key).is_none() && !self.misspelt.contains(&key)
    }

    /// The span of a key; `None` when the text does not set it, or sets it to its default.
    pub(crate) fn changed(&self, key: &str) -> Option<SourceSpan>
    where
        T: ConfigSection + Default,
    {
        let entry =
            |table: &T| table.entries().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        self.written(key).filter(|_| entry(&self.value) != entry(&T::default()))
    }

    /// The span of a key; that of the table when it is not set.
    pub(crate) fn key_at(&self, key: &str) -> SourceSpan {
        self.written(key).unwrap_or(self.span)
    }
}

impl<T: ConfigSection> ConfigValue for SpannedTable<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        T::kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let found = reader.found();
        let value = T::read(node, bounds, reader)?;
        let is_sound = reader.found() == found;
        let entries = match &node.tree {
            Tree::Table(table) => table.entries.as_slice(),
            _ => &[],
        };
        let keys = entries.iter().map(|entry| (entry.key.clone(), entry.key_at)).collect();
        let misspelt = entries.iter().filter_map(|entry| reader.meant_by(T::SECTION, &entry.key)).collect();
        Some(Self { value, span: node.span, is_sound, keys, misspelt })
    }

    fn write(&self) -> String {
        self.value.write()
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        self.value.check_bounds(key, bounds, found);
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.value.lines(path, lines);
    }
}
