//! A search in texts that are known beforehand, such as the value of a variable: by trying all ways, within a bound.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// Steps after which it is left open whether there is a match.
const STEPS_MAX: usize = 20_000;

/// Whether a text has a match; `None` where it takes too many steps, or the expression asks for what is not known here.
pub(super) fn has_match(hir: &Hir, text: &[u8]) -> Option<bool> {
    let mut search = KnownTextSearch { text, steps: 0, is_lost: false };
    let found = (0..=text.len()).any(|start| search.at(&[Part::Whole(hir)], start));
    (!search.is_lost).then_some(found)
}

struct KnownTextSearch<'t> {
    text: &'t [u8],
    steps: usize,
    is_lost: bool,
}

/// What still has to match.
#[derive(Clone, Copy)]
enum Part<'h> {
    Whole(&'h Hir),
    /// A repetition of which so many have matched, the last one from this place on.
    Again(&'h Repetition, u32, usize),
}

impl KnownTextSearch<'_> {
    /// Whether the parts match one behind the other from a place on.
    fn at(&mut self, parts: &[Part<'_>], place: usize) -> bool {
        self.steps += 1;
        self.is_lost |= self.steps > STEPS_MAX;
        if self.is_lost {
            return false;
        }
        let Some((first, rest)) = parts.split_first() else { return true };
        match *first {
            Part::Whole(hir) => self.one(hir, rest, place),
            Part::Again(repetition, count, from) => {
                // A round without a letter is the last one.
                if count > repetition.min && place == from {
                    return self.at(rest, place);
                }
                self.again(repetition, count, rest, place)
            }
        }
    }

    fn one(&mut self, hir: &Hir, rest: &[Part<'_>], place: usize) -> bool {
        match hir.kind() {
            HirKind::Empty => self.at(rest, place),
            HirKind::Literal(literal) => {
                self.text[place..].starts_with(&literal.0) && self.at(rest, place + literal.0.len())
            }
            HirKind::Class(class) => {
                self.text.get(place).is_some_and(|byte| is_in(class, *byte)) && self.at(rest, place + 1)
            }
            HirKind::Look(Look::Start) => place == 0 && self.at(rest, place),
            HirKind::Look(Look::End) => place == self.text.len() && self.at(rest, place),
            HirKind::Look(_) => {
                self.is_lost = true;
                false
            }
            HirKind::Repetition(repetition) => self.again(repetition, 0, rest, place),
            HirKind::Capture(capture) => self.one(&capture.sub, rest, place),
            HirKind::Concat(all) => {
                let parts: Vec<Part<'_>> = all.iter().map(Part::Whole).chain(rest.iter().copied()).collect();
                self.at(&parts, place)
            }
            HirKind::Alternation(all) => all.iter().any(|one| self.one(one, rest, place)),
        }
    }

    fn again(&mut self, repetition: &Repetition, count: u32, rest: &[Part<'_>], place: usize) -> bool {
        if repetition.max.is_none_or(|max| count < max) {
            let mut parts = vec![Part::Again(repetition, count + 1, place)];
            parts.extend_from_slice(rest);
            if self.one(&repetition.sub, &parts, place) {
                return true;
            }
        }
        count >= repetition.min && self.at(rest, place)
    }
}

fn is_in(class: &Class, byte: u8) -> bool {
    match class {
        Class::Bytes(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte))
        }
        Class::Unicode(class) => {
            let letter = char::from(byte);
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&letter))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::nginx::regexes::{NginxPattern, PatternSubject};

    #[test]
    fn known_texts_are_searched() {
        for (pattern, text, expected) in [
            ("^[0-9]{4}$", "265", Some(false)),
            ("^[0-9]{4}$", "2650", Some(true)),
            ("b+|^$", "", Some(true)),
            ("b+|^$", "abbc", Some(true)),
            ("^(a|b)*c", "abac", Some(true)),
            ("^(a?)*$", "aab", Some(false)),
            ("^(a?){2,3}$", "", Some(true)),
            (r"\bx", "x", None),
            ("^(a*)*$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", None),
        ] {
            let found = NginxPattern::new(pattern, false, PatternSubject::Text).unwrap().has_match(text);
            assert_eq!(found, expected, "{pattern} {text}");
        }
        assert_eq!(NginxPattern::new("^A$", true, PatternSubject::Text).unwrap().has_match("a"), Some(true));
    }
}
