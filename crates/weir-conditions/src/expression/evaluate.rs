//! Asking a condition.

use std::net::IpAddr;
use std::ops::Range;

use super::parsed::Expression;
use super::step::ExpressionStep;
use super::term::{AddressFrom, ExpressionTerm, NumberFrom, TermQuestion, address_of, number_of};

/// The values of one exchange.
pub trait Facts<V> {
    /// Whether one of the texts of a value passes; one that is missing counts as an empty text.
    fn any_text(&self, value: &V, passes: impl FnMut(&[u8]) -> bool) -> bool;

    /// Whether there is such a value.
    fn is_present(&self, value: &V) -> bool;

    /// The number that it is; `None` when there is none.
    fn number(&self, value: &V) -> Option<i64>;

    /// The address that it is; `None` when there is none.
    fn address(&self, value: &V) -> Option<IpAddr>;

    /// Whether it is true.
    fn flag(&self, value: &V) -> bool;
}

/// What one comparison of a condition came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermOutcome {
    /// Its bytes in the text of the condition.
    pub span: Range<usize>,
    /// `None`: it was not asked, for what stands before it has decided.
    pub holds: Option<bool>,
}

impl<V> Expression<V> {
    /// Whether it holds.
    #[inline]
    pub fn holds(&self, facts: &impl Facts<V>) -> bool {
        self.run(|index| self.terms[index].holds(facts))
    }

    /// Whether it holds, and what each of its comparisons came to.
    pub fn trace(&self, facts: &impl Facts<V>) -> (bool, Vec<TermOutcome>) {
        let not_asked = |term: &ExpressionTerm<V>| TermOutcome { span: term.span.clone(), holds: None };
        let mut outcomes: Vec<_> = self.terms.iter().map(not_asked).collect();
        let holds = self.run(|index| {
            let holds = self.terms[index].holds(facts);
            outcomes[index].holds = Some(holds);
            holds
        });
        (holds, outcomes)
    }

    /// Whether one of the texts passes that a comparison looks at, by its number, if it looks at texts with a test.
    pub fn any_text(
        &self,
        term: usize,
        facts: &impl Facts<V>,
        passes: impl FnMut(&[u8]) -> bool,
    ) -> Option<bool> {
        match &self.terms.get(term)?.question {
            TermQuestion::Text(value, _) => Some(facts.any_text(value, passes)),
            _ => None,
        }
    }

    #[inline]
    fn run(&self, mut ask: impl FnMut(usize) -> bool) -> bool {
        let (mut answer, mut at) = (true, 0);
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match *step {
                ExpressionStep::Ask(index) => answer = ask(index.into()),
                ExpressionStep::Answer(constant) => answer = constant,
                ExpressionStep::Negate => answer = !answer,
                ExpressionStep::SkipIfNo(to) if !answer => at = to.into(),
                ExpressionStep::SkipIfYes(to) if answer => at = to.into(),
                ExpressionStep::SkipIfNo(_) | ExpressionStep::SkipIfYes(_) => {}
            }
        }
        answer
    }
}

impl<V> ExpressionTerm<V> {
    fn holds(&self, facts: &impl Facts<V>) -> bool {
        match &self.question {
            TermQuestion::Text(value, test) => facts.any_text(value, |text| test.passes(text)),
            TermQuestion::SameText(first, second) => {
                // Once each: comparing every text of one with every text of the other would take time that clients choose.
                is_single(facts, first)
                    && is_single(facts, second)
                    && facts.any_text(first, |one| facts.any_text(second, |other| one == other))
            }
            TermQuestion::Number(value, from, test) => {
                match from {
                    NumberFrom::Value => facts.number(value).is_some_and(|number| test.passes(number)),
                    NumberFrom::Length => facts
                        .any_text(value, |text| test.passes(i64::try_from(text.len()).unwrap_or(i64::MAX))),
                    NumberFrom::Digits => facts
                        .any_text(value, |text| number_of(text).is_some_and(|number| test.passes(number))),
                }
            }
            TermQuestion::Address(value, from, networks) => {
                let is_within = |address: IpAddr| networks.get(address).is_some();
                match from {
                    AddressFrom::Value => facts.address(value).is_some_and(is_within),
                    AddressFrom::Text => {
                        facts.any_text(value, |text| address_of(text).is_some_and(is_within))
                    }
                }
            }
            TermQuestion::Flag(value) => facts.flag(value),
            TermQuestion::Present(value) => facts.is_present(value),
        }
    }
}

/// Whether there is one text of a value, and no other.
fn is_single<V>(facts: &impl Facts<V>, value: &V) -> bool {
    let mut count = 0;
    let has_another = facts.any_text(value, |_| {
        count += 1;
        count > 1
    });
    !has_another && facts.is_present(value)
}
