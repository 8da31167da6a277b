//! Whether two patterns can match one and the same text: if so, two regex routes are a tie.
//!
//! Exact: the automata of both are run in parallel over every text there can be, until both have matched or
//! nothing new comes. Used while a table is built, never for a request. Bounded: beyond a size the answer is
//! the careful one, that they can.

use std::collections::HashSet;

use regex_automata::dfa::Automaton;
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input};

use super::pattern::{Dense, RouteRegex};

/// The most pairs of states that are visited for two patterns.
const PAIRS_MAX: usize = 1 << 14;

/// How far an automaton has got with a text: `None` when it has matched, whatever follows.
type MatchState = Option<StateID>;

/// Whether both can be found in one path.
pub(super) fn in_paths(a: &RouteRegex, b: &RouteRegex) -> bool {
    overlap(a, b, begins_path, is_path_byte)
}

/// Whether both can be found in one value.
pub(super) fn in_values(a: &RouteRegex, b: &RouteRegex) -> bool {
    overlap(a, b, is_value_byte, is_value_byte)
}

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

/// Walks all texts whose first byte is `first` and whose other bytes are `other`, and the empty one.
fn overlap(a: &RouteRegex, b: &RouteRegex, first: fn(u8) -> bool, other: fn(u8) -> bool) -> bool {
    let (Some(a), Some(b)) = (a.automaton(), b.automaton()) else { return true };
    let (Some(start_a), Some(start_b)) = (start(a), start(b)) else { return true };
    let mut seen = HashSet::new();
    let mut open = vec![((Some(start_a), Some(start_b)), first)];
    while let Some(((at_a, at_b), allowed)) = open.pop() {
        if matches_at_end(a, at_a) && matches_at_end(b, at_b) {
            return true;
        }
        let mut classes = None;
        for byte in (0..=u8::MAX).filter(|&byte| allowed(byte)) {
            // Neighbours that neither automaton tells apart lead to the same place.
            let class = Some((a.byte_classes().get(byte), b.byte_classes().get(byte)));
            if std::mem::replace(&mut classes, class) == class {
                continue;
            }
            let next = (advance(a, at_a, byte), advance(b, at_b, byte));
            if is_hopeless(a, next.0) || is_hopeless(b, next.1) || !seen.insert(next) {
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

/// Where every text begins.
fn start(automaton: &Dense) -> Option<StateID> {
    automaton.start_state_forward(&Input::new(b"").anchored(Anchored::No)).ok()
}

fn advance(automaton: &Dense, progress: MatchState, byte: u8) -> MatchState {
    let next = automaton.next_state(progress?, byte);
    // A match is reported one byte late. On bytes that the automaton cannot judge it gives up: taken as a
    // match, to be careful.
    if automaton.is_match_state(next) || automaton.is_quit_state(next) { None } else { Some(next) }
}

fn matches_at_end(automaton: &Dense, progress: MatchState) -> bool {
    progress.is_none_or(|state| automaton.is_match_state(automaton.next_eoi_state(state)))
}

/// Whether nothing that follows can make it match.
fn is_hopeless(automaton: &Dense, progress: MatchState) -> bool {
    progress.is_some_and(|state| automaton.is_dead_state(state))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> RouteRegex {
        RouteRegex::build(text).unwrap()
    }

    #[test]
    fn paths_that_both_match_are_found() {
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
            assert_eq!(in_paths(&pattern(a), &pattern(b)), expected, "{a} {b}");
            assert_eq!(in_paths(&pattern(b), &pattern(a)), expected, "{b} {a}");
        }
        assert!(in_values(&pattern("^x"), &pattern("^x")) && in_values(&pattern("^a b"), &pattern("^a")));
        assert!(!in_values(&pattern("^a\n"), &pattern("^a")), "a value has no line break");
    }

    #[test]
    fn what_is_too_large_counts_as_overlapping() {
        assert!(in_paths(&pattern(r"(a|b)*a(a|b){18}$"), &pattern("^/c$")));
    }

    /// All paths of at most `len_max` bytes over a small alphabet.
    fn short_paths(len_max: usize) -> Vec<Vec<u8>> {
        let mut paths = vec![b"/".to_vec()];
        let mut from = 0;
        for _ in 1..len_max {
            let longer: Vec<Vec<u8>> = paths[from..]
                .iter()
                .flat_map(|path| b"ab/".iter().map(|byte| [path.as_slice(), &[*byte]].concat()))
                .collect();
            from = paths.len();
            paths.extend(longer);
        }
        paths
    }

    proptest! {
        /// Whatever path both match, the overlap was found; where none was found, no short path matches both.
        #[test]
        fn no_path_escapes(
            a in r"(\^/)?(a|b|/|\[ab\]|a\*|\(a\|b\)\?){0,4}(\$)?",
            b in r"(\^/)?(a|b|/|\[ab\]|a\*|\(a\|b\)\?){0,4}(\$)?",
        ) {
            let (a, b) = (pattern(&a), pattern(&b));
            let common = short_paths(6).into_iter().find(|path| a.is_match(path) && b.is_match(path));
            prop_assert!(common.is_none() || in_paths(&a, &b), "{common:?}");
            // Patterns of at most four short parts each have a common path of few bytes, if any, when both
            // are tied to both ends.
            let tied = |pattern: &RouteRegex| pattern.as_str().starts_with('^') && pattern.as_str().ends_with('$');
            prop_assert!(common.is_some() || !in_paths(&a, &b) || !(tied(&a) && tied(&b)));
        }
    }
}
