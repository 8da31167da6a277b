//! Regular expressions of the config: compiled once, matched without a lock.
//!
//! Matched by an automaton that needs no working memory, so that workers do not meet in the pool of caches
//! that an ordinary regex keeps. Only what is too large for that, and finding groups, goes the ordinary way.
//! Patterns work on bytes; their classes are ASCII.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

pub use regex::bytes::Captures;
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::dfa::dense::{self, DFA};
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::literal::LiteralEnds;

/// The largest program of one regular expression, in bytes: more than any sensible rule needs.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The largest automaton that is built, in bytes: `^/[a-z0-9-]{1,200}$` takes a hundredth of it.
pub(super) const AUTOMATON_BYTES_MAX: usize = 1 << 18;

/// What the smallest regex for groups takes with its caches, in bytes.
const REGEX_BYTES_MIN: usize = 8 << 10;

/// The largest automaton for a batch of expressions, in bytes.
const BATCH_BYTES_MAX: usize = 1 << 18;

/// A regular expression. Cheap to clone.
#[derive(Clone)]
pub struct RouteRegex(Arc<Inner>);

struct Inner {
    text: Box<str>,
    /// What every match begins with, at the start of the text: most expressions of many are told apart by it.
    prefix: Box<[u8]>,
    /// Where the automaton does not do: it would be too large, or groups are asked for.
    regex: Option<Regex>,
    automaton: Option<Dense>,
    bytes: usize,
}

/// A regular expression that is there as long as another one is.
#[derive(Clone)]
pub(super) struct WeakRegex(Weak<Inner>);

impl WeakRegex {
    pub(super) fn upgrade(&self) -> Option<RouteRegex> {
        self.0.upgrade().map(RouteRegex)
    }
}

impl fmt::Debug for WeakRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakRegex")
    }
}

/// An automaton with a state for every situation, as a table.
pub(super) type Dense = DFA<Vec<u32>>;

impl RouteRegex {
    /// Compiles a regular expression over bytes with ASCII classes, bounded in size.
    pub(crate) fn build(text: &str) -> Result<RouteRegex, regex::Error> {
        Self::build_within(text, REGEX_BYTES_MAX)
    }

    /// The same with a program of so many bytes at most, where there is no automaton.
    pub(super) fn build_within(text: &str, bytes_max: usize) -> Result<RouteRegex, regex::Error> {
        let automaton = build_automaton(&[text], AUTOMATON_BYTES_MAX);
        let regex = if automaton.is_none() { Some(build_regex(text, bytes_max)?) } else { None };
        Ok(Self::of_parts(text, regex, automaton))
    }

    /// The same with groups.
    pub(crate) fn build_with_groups(text: &str) -> Result<RouteRegex, regex::Error> {
        let (regex, automaton) =
            (Some(build_regex(text, REGEX_BYTES_MAX)?), build_automaton(&[text], AUTOMATON_BYTES_MAX));
        Ok(Self::of_parts(text, regex, automaton))
    }

    fn of_parts(text: &str, regex: Option<Regex>, automaton: Option<Dense>) -> RouteRegex {
        // Without an automaton, a regex and what it needs at work take about as much as the largest automaton; beside one, a regex for groups
        // takes some times its program, which grows with the text.
        let of_automaton = automaton.as_ref().map_or(AUTOMATON_BYTES_MAX, |one| one.memory_usage());
        let of_regex =
            if regex.is_some() && automaton.is_some() { REGEX_BYTES_MIN + of_automaton } else { 0 };
        let bytes = text.len() + of_automaton + of_regex;
        let prefix = LiteralEnds::new(text).prefix;
        RouteRegex(Arc::new(Inner { text: text.into(), prefix, regex, automaton, bytes }))
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// What every text in which it is found begins with; empty where it says nothing of that.
    pub fn literal_start(&self) -> &[u8] {
        &self.0.prefix
    }

    /// Whether it is found anywhere in `text`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        if !text.starts_with(&self.0.prefix) {
            return false;
        }
        let input = Input::new(text).anchored(Anchored::No).earliest(true);
        match self.0.automaton.as_ref().map(|automaton| automaton.try_search_fwd(&input)) {
            Some(Ok(found)) => found.is_some(),
            // Without an automaton there is a regex. An automaton that gives up, which none does without Unicode, finds nothing.
            _ => self.0.regex.as_ref().is_some_and(|regex| regex.is_match(text)),
        }
    }

    /// The same with groups, which the expression may have.
    #[must_use]
    pub fn with_groups(&self) -> RouteRegex {
        if self.0.regex.is_some() {
            self.clone()
        } else {
            Self::build_with_groups(&self.0.text).unwrap_or_else(|_| self.clone())
        }
    }

    /// The groups of the first match in `text`, if it was built with them. Allocates when there is one.
    pub fn captures<'a>(&self, text: &'a [u8]) -> Option<Captures<'a>> {
        if self.is_match(text) { self.0.regex.as_ref()?.captures(text) } else { None }
    }

    /// Where the group of this number or name stands in the first match in `text`, if it was built with groups. Allocates when there is a match.
    pub fn group_range(&self, text: &[u8], name: &str) -> Option<Range<usize>> {
        let captures = self.captures(text)?;
        let group = match name.parse() {
            Ok(number) => captures.get(number),
            Err(_) => captures.name(name),
        };
        group.map(|group| group.range())
    }

    /// Whether there is a group of this number or name, if it was built with them.
    pub fn has_group(&self, name: &str) -> bool {
        let Some(regex) = &self.0.regex else { return false };
        match name.parse::<usize>() {
            Ok(number) => number < regex.captures_len(),
            Err(_) => regex.capture_names().flatten().any(|group| group == name),
        }
    }

    pub(super) fn downgrade(&self) -> WeakRegex {
        WeakRegex(Arc::downgrade(&self.0))
    }

    /// What all clones of it have in common, and no other has.
    pub(super) fn place(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// About what it takes in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The automaton; `None` when it would be too large.
    pub(super) fn automaton(&self) -> Option<&Dense> {
        self.0.automaton.as_ref()
    }
}

fn build_regex(text: &str, bytes_max: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).unicode(false).size_limit(bytes_max).build()
}

/// An automaton that finds any of these expressions; `None` when it would be too large.
pub(super) fn build_any(texts: &[&str]) -> Option<Dense> {
    build_automaton(texts, BATCH_BYTES_MAX)
}

fn build_automaton(texts: &[&str], bytes_max: usize) -> Option<Dense> {
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(bytes_max))
        .determinize_size_limit(Some(bytes_max));
    dense::Builder::new()
        .configure(config)
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(REGEX_BYTES_MAX)))
        .build_many(texts)
        .ok()
}

/// Equal when written alike.
impl PartialEq for RouteRegex {
    fn eq(&self, other: &RouteRegex) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RouteRegex {}

impl fmt::Debug for RouteRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.as_str())
    }
}

impl fmt::Display for RouteRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_found_anywhere_in_the_text() {
        for (pattern, text, expected) in [
            ("b", "abc", true),
            ("^b", "abc", false),
            ("", "", true),
            ("^$", "a", false),
            (r"^\d+$", "١٢", false),
            (r"(?i)ABC$", "xabc", true),
            (r"\bb\b", "a b c", true),
            (r"\bb\b", "abc", false),
            ("é", "é", true),
            (".", "\n", false),
            ("^/a/b", "/a/bc", true),
            ("^/a/b", "x/a/b", false),
            ("^/a|/b", "x/b", true),
            ("^/ab?$", "/a", true),
            ("^/ab*", "/a", true),
            ("(^/a)+", "/a", true),
            ("(?m)^/a", "x\n/a", true),
            ("(?i)^/A", "/a", true),
            ("^(/a|/b)c", "/bc", true),
        ] {
            let pattern = RouteRegex::build(pattern).unwrap();
            assert!(pattern.automaton().is_some(), "{pattern}");
            assert_eq!(pattern.is_match(text.as_bytes()), expected, "{pattern} in {text:?}");
        }
    }

    #[test]
    fn what_is_too_large_for_a_table_still_matches() {
        let large = RouteRegex::build(r"(a|b)*a(a|b){18}$").unwrap();
        assert!(large.automaton().is_none());
        assert!(large.is_match(&[b"a".as_slice(), &[b'b'; 18]].concat()));
        assert!(!large.is_match(&[b'b'; 19]));
    }

    proptest! {
        /// Both ways of matching agree.
        #[test]
        fn the_automaton_agrees_with_the_regex(
            pattern in r"(\^)?(a|b|\.|\[ab\]|a\*|b\+|\(a\|b\)\?|\\b|ab){0,6}(\$)?",
            text in prop::collection::vec(prop::sample::select(b"ab/ \n\xff"), 0..8),
        ) {
            let pattern = RouteRegex::build(&pattern).unwrap();
            prop_assert!(pattern.automaton().is_some());
            let regex = build_regex(pattern.as_str(), REGEX_BYTES_MAX).unwrap();
            prop_assert_eq!(pattern.is_match(&text), regex.is_match(&text));
        }
    }
}
