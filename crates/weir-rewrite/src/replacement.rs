//! What replaces a match: text, and what groups of a regular expression have matched.

/// A piece of what replaces a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplacementPiece {
    /// This text.
    Text(Box<[u8]>),
    /// What a group has matched; 0 is the whole match.
    Group(usize),
}

/// What replaces a match.
pub type MatchReplacement = Vec<ReplacementPiece>;
