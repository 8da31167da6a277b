//! What a check found, and where.

use std::fmt;

use super::rule::{FindingLevel, HouseRule};

/// One breach of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) rule: HouseRule,
    /// Relative to the root, with `/`.
    pub(super) path: String,
    /// From 1; 0 when the file as a whole is meant.
    pub(super) line: usize,
    /// The function, type or word that the message is about, for exceptions to name; may be empty.
    pub(super) item: String,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn new(
        rule: HouseRule,
        path: &str,
        line: usize,
        item: &str,
        message: impl Into<String>,
    ) -> Self {
        Self { rule, path: path.to_owned(), line, item: item.to_owned(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.rule.level() {
            FindingLevel::Error => "error",
            FindingLevel::Note => "note",
        };
        write!(f, "{level}: {}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {} [{}]", self.message, self.rule)
    }
}
