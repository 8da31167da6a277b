//! Bodies, rewritten as they stream: a list of rules, each a text or a regular expression with what replaces it.
//!
//! At each place the first rule that matches counts, and the search goes on behind the match: what is put in is not searched again.

use std::sync::Arc;

use regex_automata::meta::Regex;

use crate::regexes::{RuleError, compile, compile_text, length_min};
use crate::replacement::MatchReplacement;
use crate::replacement::ReplacementPiece;
use crate::text::{TEXTS_MAX, TextFinder, TextRules, TextSearch};
use crate::window::{WindowRules, WindowSearch};

/// Rules of one list.
const RULES_MAX: usize = 64;

/// What a rule searches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// This text.
    Text(Box<str>),
    /// What matches this regular expression.
    Regex(Box<str>),
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodySubstitution {
    /// What it searches for.
    pub pattern: Pattern,
    /// Whether letters match in either case.
    pub ignore_case: bool,
    /// Whether only the first match is replaced.
    pub once: bool,
}

/// The compiled rules of a list.
#[derive(Debug)]
pub struct BodyRules {
    rules: Vec<BodySubstitution>,
    match_max: usize,
    finder: Finder,
}

impl PartialEq for BodyRules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.match_max == other.match_max
    }
}

#[derive(Debug)]
enum Finder {
    Texts(TextFinder),
    Regexes(Vec<Regex>),
}

impl BodyRules {
    /// Compiles rules, at least one; matches of regular expressions have at most `match_max` bytes.
    ///
    /// # Errors
    /// The place of the rule that cannot be had, and why.
    pub fn new(rules: Vec<BodySubstitution>, match_max: usize) -> Result<Self, (usize, RuleError)> {
        if rules.len() > RULES_MAX {
            return Err((RULES_MAX, RuleError::TooMany(RULES_MAX)));
        }
        let mut total = 0;
        let mut regexes = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let regex = match &rule.pattern {
                Pattern::Text(text) => {
                    total += text.len();
                    check_text(text, total).and_then(|()| compile_text(text, rule.ignore_case))
                }
                Pattern::Regex(pattern) => compile(pattern, rule.ignore_case).and_then(|regex| {
                    let least = length_min(pattern, rule.ignore_case);
                    if least > match_max { Err(RuleError::NeverMatches(least)) } else { Ok(regex) }
                }),
            };
            regexes.push(regex.map_err(|error| (at, error))?);
        }
        let texts: Option<Vec<(&[u8], bool)>> = rules
            .iter()
            .map(|rule| match &rule.pattern {
                Pattern::Text(text) => Some((text.as_bytes(), rule.ignore_case)),
                Pattern::Regex(_) => None,
            })
            .collect();
        let longest = rules.iter().map(|rule| match &rule.pattern {
            Pattern::Text(text) => text.len(),
            Pattern::Regex(_) => 0,
        });
        // A text beside regular expressions is found whole.
        let match_max = match_max.max(longest.max().unwrap_or_default());
        let finder = match texts {
            Some(texts) => Finder::Texts(TextFinder::new(&texts)),
            None => Finder::Regexes(regexes),
        };
        Ok(Self { rules, match_max, finder })
    }

    /// The rules.
    pub fn rules(&self) -> &[BodySubstitution] {
        &self.rules
    }

    /// How many groups a rule has; none unless it is a regular expression.
    pub fn group_count(&self, rule: usize) -> usize {
        match (&self.finder, &self.rules[rule].pattern) {
            (Finder::Regexes(regexes), Pattern::Regex(_)) => regexes[rule].captures_len() - 1,
            (Finder::Regexes(_) | Finder::Texts(_), _) => 0,
        }
    }
}

fn check_text(text: &str, total: usize) -> Result<(), RuleError> {
    match text.len() {
        0 => Err(RuleError::Empty),
        _ if total > TEXTS_MAX => Err(RuleError::AllTooLong(TEXTS_MAX)),
        _ => Ok(()),
    }
}

/// A list of rules at work on one body.
#[derive(Debug)]
pub struct BodyRewriter {
    rules: Arc<BodyRules>,
    /// What each rule puts in place of its matches.
    to: Vec<MatchReplacement>,
    /// Rules that have had their only match.
    over: u64,
    search: BodySearch,
}

#[derive(Debug)]
enum BodySearch {
    Texts(TextSearch),
    Window(WindowSearch),
}

impl BodyRewriter {
    /// Begins with a body; `to` has what each rule puts in place of its matches.
    pub fn new(rules: Arc<BodyRules>, to: Vec<MatchReplacement>) -> Self {
        let search = match &rules.finder {
            Finder::Texts(_) => BodySearch::Texts(TextSearch::default()),
            Finder::Regexes(regexes) => BodySearch::Window(WindowSearch::new(regexes.len())),
        };
        Self { rules, to, over: 0, search }
    }

    /// Takes some of `data`, and appends what becomes of the body until that are `out_max` bytes or more by one replacement. Gives how much it has
    /// taken: all, unless there is enough in `out` or [`Self::is_busy`].
    pub fn pass(&mut self, data: &[u8], out: &mut Vec<u8>, out_max: usize) -> usize {
        match (&self.rules.finder, &mut self.search) {
            (Finder::Texts(finder), BodySearch::Texts(search)) => {
                let mut texts = Texts { rules: &self.rules.rules, to: &self.to, over: &mut self.over };
                search.pass(finder, data, (out, out_max), &mut texts)
            }
            (Finder::Regexes(regexes), BodySearch::Window(search)) => {
                let once = |rule: usize| self.rules.rules[rule].once;
                let rules =
                    WindowRules { regexes, match_max: self.rules.match_max, to: &self.to, once: &once };
                search.pass(&rules, data, (out, out_max))
            }
            (Finder::Texts(_), BodySearch::Window(_)) | (Finder::Regexes(_), BodySearch::Texts(_)) => 0,
        }
    }

    /// Appends what is left at the end of the body, until that are `out_max` bytes; whether that was all.
    pub fn finish(&mut self, out: &mut Vec<u8>, out_max: usize) -> bool {
        match (&self.rules.finder, &mut self.search) {
            (Finder::Texts(finder), BodySearch::Texts(search)) => {
                let mut texts = Texts { rules: &self.rules.rules, to: &self.to, over: &mut self.over };
                search.finish(finder, (out, out_max), &mut texts)
            }
            (Finder::Regexes(regexes), BodySearch::Window(search)) => {
                let once = |rule: usize| self.rules.rules[rule].once;
                let rules =
                    WindowRules { regexes, match_max: self.rules.match_max, to: &self.to, once: &once };
                search.finish(&rules, (out, out_max))
            }
            (Finder::Texts(_), BodySearch::Window(_)) | (Finder::Regexes(_), BodySearch::Texts(_)) => true,
        }
    }

    /// Whether it has something to do before it takes more: others have their turn first.
    pub fn is_busy(&self) -> bool {
        match &self.search {
            BodySearch::Texts(_) => false,
            BodySearch::Window(search) => search.is_busy(),
        }
    }
}

struct Texts<'a> {
    rules: &'a [BodySubstitution],
    to: &'a [MatchReplacement],
    over: &'a mut u64,
}

impl TextRules for Texts<'_> {
    fn is_over(&self, rule: usize) -> bool {
        *self.over & 1 << rule != 0
    }

    fn replace(&mut self, rule: usize, out: &mut Vec<u8>) {
        for piece in &self.to[rule] {
            match piece {
                ReplacementPiece::Text(text) => out.extend_from_slice(text),
                // A text has no groups but the whole, and that is refused where rules are checked.
                ReplacementPiece::Group(_) => {}
            }
        }
        if self.rules[rule].once {
            *self.over |= 1 << rule;
        }
    }
}

#[cfg(test)]
mod tests;
