//! The words of directives and of their options. What is taken counts as understood, so all of it has to be matched.

use super::matchers::MatcherTable;
use crate::report::Ledger;
use crate::source::Statement;

/// The words of an option behind its name, all taken.
pub(super) fn arguments<'s>(ledger: &Ledger, statement: &'s Statement) -> Vec<&'s str> {
    ledger.words(statement).rest();
    statement.words.iter().skip(1).map(|word| word.text.as_str()).collect()
}

/// The words of a directive behind its name and its matcher, all taken.
pub(super) fn behind_matcher<'s>(ledger: &Ledger, statement: &'s Statement) -> Vec<&'s str> {
    let skipped = usize::from(MatcherTable::word_of(statement).is_some());
    ledger.words(statement).rest();
    statement.words.iter().skip(1 + skipped).map(|word| word.text.as_str()).collect()
}
