//! The grammar of chunk extensions (RFC 9112 section 7.1.1), one byte at a time.
//!
//! Extensions are dropped, yet they are parsed by their grammar: a parser that skips to the end of the line disagrees with
//! others about where that is (CVE-2025-55315), and the difference allows request smuggling.

use crate::bytes::{is_space, is_token_byte, is_value_byte};
use crate::message::limits::LenientChunks;
use crate::message::rule::Rule;

/// Where in `*( BWS ";" BWS name [ BWS "=" BWS value ] )` the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ChunkExtensionState {
    /// White space behind the size; only `;` may follow.
    #[default]
    Size,
    /// White space before a name.
    BeforeName,
    /// In a name.
    Name,
    /// White space behind a name.
    AfterName,
    /// White space before a value.
    BeforeValue,
    /// In a value that is a token.
    Value,
    /// In a value in quotes.
    Quoted,
    /// Behind a backslash in quotes.
    Escape,
    /// White space behind a value, or right behind the closing quote.
    AfterValue,
}

impl ChunkExtensionState {
    /// Whether the line may end here.
    pub(crate) fn may_end(self, lenient: LenientChunks) -> bool {
        match self {
            ChunkExtensionState::Name | ChunkExtensionState::Value | ChunkExtensionState::AfterValue => true,
            ChunkExtensionState::Size => lenient.padded_size,
            ChunkExtensionState::BeforeName => lenient.empty_extension,
            _ => false,
        }
    }

    /// The rule that a byte breaks which may not stand here.
    pub(crate) fn broken_rule(self) -> Rule {
        match self {
            ChunkExtensionState::Size => Rule::BadChunkSize,
            _ => Rule::BadChunkExtension,
        }
    }

    /// Where the reader stands after `byte`.
    pub(crate) fn next(self, byte: u8) -> Result<ChunkExtensionState, Rule> {
        use ChunkExtensionState as E;
        let next = match (self, byte) {
            (E::Quoted, b'"') => E::AfterValue,
            (E::Quoted, b'\\') => E::Escape,
            (E::Quoted | E::Escape, _) if is_value_byte(byte) => E::Quoted,
            (E::Size | E::BeforeName | E::AfterName | E::BeforeValue | E::AfterValue, _)
                if is_space(byte) =>
            {
                self
            }
            (E::Name, _) if is_space(byte) => E::AfterName,
            (E::Value, _) if is_space(byte) => E::AfterValue,
            (E::Size | E::Name | E::AfterName | E::Value | E::AfterValue, b';') => E::BeforeName,
            (E::Name | E::AfterName, b'=') => E::BeforeValue,
            (E::BeforeName | E::Name, _) if is_token_byte(byte) => E::Name,
            (E::BeforeValue, b'"') => E::Quoted,
            (E::BeforeValue | E::Value, _) if is_token_byte(byte) => E::Value,
            _ => return Err(self.broken_rule()),
        };
        Ok(next)
    }
}
