//! The literal text that every match of a regular expression begins or ends with: `^/users/[0-9]+$` matches only texts that begin with
//! `/users/`.
//!
//! So thousands of patterns are selected without trying each. Only literal text of a pattern is used; rules on paths usually
//! have some.

use regex_syntax::hir::{Hir, HirKind, Look};

/// The literal ends of all texts that match; empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LiteralEnds {
    pub(super) prefix: Box<[u8]>,
    pub(super) suffix: Box<[u8]>,
}

impl LiteralEnds {
    /// The ends of a regular expression that compiles; none where it is not understood.
    pub(super) fn new(pattern: &str) -> LiteralEnds {
        let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
        let Ok(hir) = parsed else { return LiteralEnds::default() };
        let mut parts = Vec::new();
        flatten(&hir, &mut parts);
        let prefix = match parts.split_first() {
            Some((first, rest)) if is_look(first, Look::Start) => literals(rest.iter().copied()).concat(),
            _ => Vec::new(),
        };
        let suffix = match parts.split_last() {
            Some((last, rest)) if is_look(last, Look::End) => {
                let mut parts = literals(rest.iter().rev().copied());
                parts.reverse();
                parts.concat()
            }
            _ => Vec::new(),
        };
        LiteralEnds { prefix: prefix.into(), suffix: suffix.into() }
    }

    /// Whether one text could have the ends of both.
    pub(super) fn meet(&self, other: &LiteralEnds) -> bool {
        (self.prefix.starts_with(&other.prefix) || other.prefix.starts_with(&self.prefix))
            && (self.suffix.ends_with(&other.suffix) || other.suffix.ends_with(&self.suffix))
    }
}

/// The parts that follow each other, with those of groups.
fn flatten<'a>(hir: &'a Hir, parts: &mut Vec<&'a Hir>) {
    match hir.kind() {
        HirKind::Concat(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        HirKind::Capture(group) => flatten(&group.sub, parts),
        _ => parts.push(hir),
    }
}

fn is_look(hir: &Hir, look: Look) -> bool {
    matches!(hir.kind(), HirKind::Look(found) if *found == look)
}

fn literals<'a>(parts: impl Iterator<Item = &'a Hir>) -> Vec<&'a [u8]> {
    let literal = |part: &'a Hir| match part.kind() {
        HirKind::Literal(literal) => Some(&*literal.0),
        _ => None,
    };
    parts.map_while(literal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_literal_text_of_a_pattern() {
        for (pattern, prefix, suffix) in [
            ("^/users/[0-9]+$", "/users/", ""),
            ("^/users/[0-9]+/items$", "/users/", "/items"),
            ("^/a$", "/a", "/a"),
            ("^(/a)(/b)c*", "/a/b", ""),
            (r"\.png$", "", ".png"),
            (r"^/a\.b", "/a.b", ""),
            ("/a", "", ""),
            ("^/a|/b$", "", ""),
            ("^(?i)/API", "/", ""),
            ("^/ab?", "/a", ""),
            ("^/ab{2}c", "/a", ""),
            ("(?m)^/a$", "", ""),
            ("", "", ""),
            ("^$", "", ""),
            ("(", "", ""),
        ] {
            let expected = LiteralEnds { prefix: prefix.as_bytes().into(), suffix: suffix.as_bytes().into() };
            assert_eq!(LiteralEnds::new(pattern), expected, "{pattern}");
        }
    }
}
