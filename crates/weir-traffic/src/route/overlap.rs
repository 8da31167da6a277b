//! Whether two regular expressions can be found in one and the same text: what makes two regex routes a tie.
//!
//! Exact: both become automata and are run in parallel over every text there can be, until both have matched or nothing new comes. Used
//! while a table is built, never for a request. Bounded: beyond a size the answer is the careful one, that they can.

use std::collections::{HashMap, HashSet};

use regex_automata::dfa::dense::{self, DFA};
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// The largest automaton that is built, in bytes: `[a-z0-9-]{1,200}` takes a tenth of it.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;

/// The most pairs of states that are visited for two expressions.
const PAIRS_MAX: usize = 1 << 14;

/// Answers questions about pairs of expressions and keeps the automata it has built.
#[derive(Default)]
pub(super) struct Overlaps {
    /// `None` when the automaton would be too large.
    automata: HashMap<String, Option<Language>>,
}

/// All texts that an expression is found in.
struct Language(DFA<Vec<u32>>);

/// How far a language has got with a text: `None` when it has matched, whatever follows.
type Progress = Option<StateID>;

/// Bytes that a path can begin with.
fn begins_path(byte: u8) -> bool {
    matches!(byte, b'/' | b'*')
}

/// Bytes that a path can hold (RFC 3986 section 3.3, and those that clients send unencoded).
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#')
}

/// Bytes that the value of a field or a parameter can hold (RFC 9110 section 5.5).
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

impl Overlaps {
    /// Whether both can be found in one path.
    pub(super) fn in_paths(&mut self, a: &str, b: &str) -> bool {
        self.overlap(a, b, begins_path, is_path_byte)
    }

    /// Whether both can be found in one value.
    pub(super) fn in_values(&mut self, a: &str, b: &str) -> bool {
        self.overlap(a, b, is_value_byte, is_value_byte)
    }

    fn overlap(&mut self, a: &str, b: &str, first: fn(u8) -> bool, other: fn(u8) -> bool) -> bool {
        for pattern in [a, b] {
            if !self.automata.contains_key(pattern) {
                self.automata.insert(pattern.to_owned(), Language::build(pattern));
            }
        }
        match (&self.automata[a], &self.automata[b]) {
            (Some(a), Some(b)) => have_common_text(a, b, first, other),
            _ => true,
        }
    }
}

/// Walks all texts whose first byte is `first` and whose other bytes are `other`, and the empty one.
fn have_common_text(a: &Language, b: &Language, first: fn(u8) -> bool, other: fn(u8) -> bool) -> bool {
    let (Some(start_a), Some(start_b)) = (a.start(), b.start()) else { return true };
    let start = (Some(start_a), Some(start_b));
    let mut seen = HashSet::new();
    let mut open = vec![(start, first)];
    while let Some(((at_a, at_b), allowed)) = open.pop() {
        if a.matches_at_end(at_a) && b.matches_at_end(at_b) {
            return true;
        }
        for byte in (0..=u8::MAX).filter(|&byte| allowed(byte)) {
            let next = (a.advance(at_a, byte), b.advance(at_b, byte));
            if a.is_hopeless(next.0) || b.is_hopeless(next.1) || !seen.insert(next) {
                continue;
            }
            if seen.len() > PAIRS_MAX {
                return true;
            }
            open.push((next, other));
        }
    }
    false
}

impl Language {
    fn build(pattern: &str) -> Option<Language> {
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(AUTOMATON_BYTES_MAX))
            .determinize_size_limit(Some(AUTOMATON_BYTES_MAX));
        dense::Builder::new()
            .configure(config)
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(AUTOMATON_BYTES_MAX)))
            .build(pattern)
            .ok()
            .map(Language)
    }

    /// Where every text begins.
    fn start(&self) -> Option<StateID> {
        self.0.start_state_forward(&Input::new(b"").anchored(Anchored::No)).ok()
    }

    fn advance(&self, progress: Progress, byte: u8) -> Progress {
        let next = self.0.next_state(progress?, byte);
        // The automaton reports a match one byte late. It gives up on bytes it cannot judge: taken as a match, to be careful.
        if self.0.is_match_state(next) || self.0.is_quit_state(next) { None } else { Some(next) }
    }

    fn matches_at_end(&self, progress: Progress) -> bool {
        progress.is_none_or(|state| self.0.is_match_state(self.0.next_eoi_state(state)))
    }

    /// Whether nothing that follows can make it match.
    fn is_hopeless(&self, progress: Progress) -> bool {
        progress.is_some_and(|state| self.0.is_dead_state(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_both_match_are_found() {
        let mut overlaps = Overlaps::default();
        for (a, b, expected) in [
            (r"^/a/\d+$", r"^/b/\d+$", false),
            (r"^/a/\d+$", r"^/a/\w+$", true),
            (r"^/a/\d+$", r"^/a/[a-z]+$", false),
            (r"^/a/\d+$", r"^/a/", true),
            (r"\.png$", r"\.jpg$", false),
            (r"\.png$", r"^/static/", true),
            (r"\.png", r"\.jpg", true),
            (r"^/v1/", r"^/v\d/", true),
            (r"^/v1/", r"^/v2/", false),
            (r"^/a$", r"^/a/$", false),
            (r"^/[^/]+$", r"^/a/b$", false),
            (r"^/[^/]+$", r"^/a", true),
            (r"^/..$", r"^/.$", false),
            (r"^/..$", r"^/[ab]c", true),
            (r"^/a b", r"^/a", false),
            (r"^/\?", r"^/", false),
            (r"^x", r"^x", false),
            (r"", r"^/$", true),
            (r"(?i)^/API$", r"^/api$", true),
            (r"\bfoo\b", r"\bfoobar\b", true),
            (r"^/\bfoo\b$", r"^/\bfoobar\b$", false),
        ] {
            assert_eq!(overlaps.in_paths(a, b), expected, "{a} {b}");
            assert_eq!(overlaps.in_paths(b, a), expected, "{b} {a}");
        }
        assert!(overlaps.in_values("^x", "^x") && overlaps.in_values("^a b", "^a"));
        assert!(!overlaps.in_values("^a\n", "^a"), "a value has no line break");
    }

    #[test]
    fn what_is_too_large_counts_as_overlapping() {
        let large = r"(a|b)*a(a|b){18}$";
        assert!(Overlaps::default().in_paths(large, "^/c$"));
    }
}
