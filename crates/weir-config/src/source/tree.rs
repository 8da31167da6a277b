//! Keys and values with their positions, with files joined and variables replaced.

use std::collections::HashMap;

use crate::diagnostic::SourceSpan;

/// A value and its span.
#[derive(Debug, Clone)]
pub(crate) struct TreeNode {
    pub(crate) span: SourceSpan,
    pub(crate) tree: Tree,
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Text(TreeText),
    /// An integer; `None` when it does not fit into 128 bits.
    Integer(Option<i128>),
    Float,
    Bool(bool),
    Datetime,
    /// A string whose value is not known, since a variable in it is not; that has been reported.
    Unknown,
    List(Vec<TreeNode>),
    Table(TreeTable),
}

impl Tree {
    /// The name of the type in messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Tree::Text(_) | Tree::Unknown => "a string",
            Tree::Integer(_) => "an integer",
            Tree::Float => "a number with a fraction",
            Tree::Bool(_) => "a boolean",
            Tree::Datetime => "a date or time",
            Tree::List(_) => "a list",
            Tree::Table(_) => "a table",
        }
    }
}

/// A string value.
#[derive(Debug, Clone)]
pub(crate) struct TreeText {
    /// The text with escapes and variables replaced.
    pub(crate) value: String,
    /// The position of the first byte of `value` in its file, if the file contains `value` verbatim.
    pub(crate) verbatim_start: Option<usize>,
    /// The variables that were replaced in it: then it may also be an integer or a boolean.
    pub(crate) substitution: Option<Box<Substitution>>,
}

impl TreeText {
    /// Whether a variable was replaced in it.
    pub(crate) fn is_substituted(&self) -> bool {
        self.substitution.is_some()
    }
}

/// Variables that were replaced in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Substitution {
    /// The text with its variables.
    pub(crate) written: String,
    /// The variables with their values.
    pub(crate) values: Vec<(String, String)>,
}

/// A table: its entries in the order of the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeTable {
    pub(crate) entries: Vec<TreeEntry>,
    /// Places of the entries by key, once entries of another file have been joined to them.
    places: Option<HashMap<String, usize>>,
}

impl TreeTable {
    pub(crate) fn new(entries: Vec<TreeEntry>) -> Self {
        Self { entries, places: None }
    }

    /// Adds an entry whose key the table does not have; gives it back, with the one that the table has.
    pub(crate) fn add(&mut self, entry: TreeEntry) -> Option<(TreeEntry, &mut TreeEntry)> {
        let places = self
            .places
            .get_or_insert_with(|| self.entries.iter().map(|entry| entry.key.clone()).zip(0..).collect());
        match places.get(&entry.key) {
            Some(&place) => Some((entry, &mut self.entries[place])),
            None => {
                places.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
                None
            }
        }
    }

    pub(crate) fn find(&self, key: &str) -> Option<&TreeEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct TreeEntry {
    pub(crate) key: String,
    pub(crate) key_at: SourceSpan,
    pub(crate) node: TreeNode,
}

impl TreeNode {
    /// Its entries, if it is a table.
    pub(crate) fn entries(&self) -> &[TreeEntry] {
        match &self.tree {
            Tree::Table(table) => &table.entries,
            _ => &[],
        }
    }

    /// The entry of a key, if this is a table that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&TreeEntry> {
        match &self.tree {
            Tree::Table(table) => table.find(key),
            _ => None,
        }
    }

    /// The span of some bytes of a text value; the whole value when they cannot be pointed at.
    pub(crate) fn part(&self, text: &TreeText, range: std::ops::Range<usize>) -> SourceSpan {
        match text.verbatim_start {
            Some(start) if range.end <= text.value.len() => {
                SourceSpan::new(self.span.file, start + range.start..start + range.end)
            }
            _ => self.span,
        }
    }
}
