//! Regular expressions of one author whom others share a process with: each text is compiled once, and what they take is bounded.
//!
//! A text of 20 bytes can be a program of 400 KiB, and an object can have hundreds of them.

use std::collections::HashMap;

use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;

use super::pattern::{AUTOMATON_BYTES_MAX, RouteRegex};

/// The largest program of one of them, in bytes: `^/[a-z0-9-]{1,200}$` takes a fifth of it.
const PROGRAM_BYTES_MAX: usize = 128 << 10;

/// What all of them may take, in bytes: 400 that are as large as `^/api/v[0-9]+/users/[^/]+$`.
const ALL_BYTES_MAX: usize = 4 << 20;

/// The regular expressions of one author.
#[derive(Debug, Default)]
pub struct BoundedRegexes {
    known: HashMap<Box<str>, RouteRegex>,
    bytes: usize,
}

/// Why there is no such regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundedRegexError {
    /// It is malformed; the text says where.
    #[error("{0}")]
    Malformed(String),
    /// Compiled, it alone would be too large.
    #[error("the regular expression is too large: compiled, it takes more than {} KiB", PROGRAM_BYTES_MAX >> 10)]
    TooLarge,
    /// Compiled, it and those before it would be too large.
    #[error("the regular expressions of the object are too large: compiled, they take more than {} MiB together", ALL_BYTES_MAX >> 20)]
    TooMany,
}

impl BoundedRegexes {
    /// Checks the syntax of a text that will be a part of another one.
    ///
    /// # Errors
    /// [`BoundedRegexError::Malformed`].
    pub fn check_part(text: &str) -> Result<(), BoundedRegexError> {
        let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(text);
        parsed.map(drop).map_err(|error| BoundedRegexError::Malformed(error.to_string()))
    }

    /// The regular expression of this text.
    ///
    /// # Errors
    /// All of [`BoundedRegexError`].
    pub fn compile(&mut self, text: &str) -> Result<RouteRegex, BoundedRegexError> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        Self::check_part(text)?;
        if self.bytes >= ALL_BYTES_MAX {
            return Err(BoundedRegexError::TooMany);
        }
        program(text).ok_or(BoundedRegexError::TooLarge)?;
        let made =
            RouteRegex::build_within(text, 2 * PROGRAM_BYTES_MAX).map_err(|_| BoundedRegexError::TooLarge)?;
        // Without an automaton, a regex and what it needs at work take about as much as the largest automaton.
        self.bytes += text.len() + made.automaton().map_or(AUTOMATON_BYTES_MAX, |one| one.memory_usage());
        if self.bytes > ALL_BYTES_MAX {
            return Err(BoundedRegexError::TooMany);
        }
        self.known.insert(text.into(), made.clone());
        Ok(made)
    }
}

/// Its program; `None` when it would be too large.
fn program(text: &str) -> Option<NFA> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(PROGRAM_BYTES_MAX));
    thompson::Compiler::new()
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .configure(config)
        .build(text)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_expressions_are_compiled_once() {
        let mut all = BoundedRegexes::default();
        for text in [
            "^(?:/api/v[0-9]+/.*)$",
            r"^(?:[a-zA-Z0-9._%+-]{1,64}@[a-z0-9.-]{1,100})$",
            "^/[a-z0-9-]{1,200}$",
            r"(a|b)*a(a|b){18}$",
        ] {
            let made = all.compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let bytes = all.bytes;
            assert_eq!(all.compile(text), Ok(made));
            assert_eq!(all.bytes, bytes);
        }
        for number in 0..400 {
            let text = format!("^/api/v[0-9]+/users{number}/[^/]+$");
            assert!(all.compile(&text).is_ok(), "{number}: {} bytes", all.bytes);
        }
    }

    #[test]
    fn large_ones_and_many_are_refused() {
        let mut all = BoundedRegexes::default();
        assert_eq!(all.compile(r"(\w{100}){60}"), Err(BoundedRegexError::TooLarge));
        assert_eq!(all.bytes, 0);
        assert!(matches!(all.compile("("), Err(BoundedRegexError::Malformed(_))));
        assert!(matches!(BoundedRegexes::check_part("a)|(b"), Err(BoundedRegexError::Malformed(_))));
        let refused = (0..100).find_map(|number| all.compile(&format!("{number}(a|b)*a(a|b){{18}}$")).err());
        assert_eq!(refused, Some(BoundedRegexError::TooMany));
        assert!(all.known.len() <= 16, "{}", all.known.len());
    }
}
