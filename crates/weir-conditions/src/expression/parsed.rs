//! A condition: its text, and what was made of it.

use std::fmt;
use std::str::FromStr as _;

use super::compile::compile;
use weir_traffic::route::NeededTest;

use super::error::ExpressionError;
use super::names::Names;
use super::step::ExpressionStep;
use super::syntax::SyntaxTree;
use super::term::ExpressionTerm;
use super::token::constant_texts;

/// The longest text of a condition, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// A condition, ready to be asked. `V` is what names stand for.
#[derive(Debug, Clone)]
pub struct Expression<V> {
    text: Box<str>,
    pub(super) terms: Box<[ExpressionTerm<V>]>,
    pub(super) steps: Box<[ExpressionStep]>,
}

impl<V> Expression<V> {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong first, from the left, and where.
    pub fn new<N: Names<Value = V>>(text: &str, names: &N) -> Result<Self, ExpressionError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let message = format!("a condition has {EXPRESSION_BYTES_MAX} bytes at most, not {}", text.len());
            return Err(ExpressionError::new(0..text.len(), message).help("put long lists into a map"));
        }
        let syntax = SyntaxTree::from_str(text)?;
        let (terms, steps) = compile(&syntax, names)?;
        Ok(Self { text: text.into(), terms, steps })
    }

    /// The text it was made of.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its comparisons, from the left.
    pub fn terms(&self) -> &[ExpressionTerm<V>] {
        &self.terms
    }

    /// What texts have to be for it to hold: the number of the comparison that says so, its value, and what one of the texts of that has to be.
    pub fn needed_texts(&self) -> impl Iterator<Item = (usize, &V, NeededTest<'_>)> {
        self.terms.iter().enumerate().filter_map(|(index, term)| {
            let (value, test) = term.needed_text()?;
            Some((index, value, test))
        })
    }

    /// The text with `instead` for every text that one of these values is compared with, so that it can be shown.
    pub fn hiding(&self, is_secret: impl Fn(&V) -> bool, instead: &str) -> String {
        let secret = self.terms.iter().filter(|term| term.values().any(&is_secret));
        let spans: Vec<_> = secret.map(|term| term.span.clone()).collect();
        let (mut shown, mut from) = (String::new(), 0);
        for constant in constant_texts(&self.text) {
            if spans.iter().any(|span| span.start <= constant.start && constant.end <= span.end) {
                shown.push_str(&self.text[from..constant.start]);
                shown.push_str(&format!("\"{instead}\""));
                from = constant.end;
            }
        }
        shown.push_str(&self.text[from..]);
        shown
    }

    /// What its names stand for; one that occurs twice comes twice.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.terms.iter().flat_map(ExpressionTerm::values)
    }
}

/// Conditions of one text are alike.
impl<V> PartialEq for Expression<V> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<V> Eq for Expression<V> {}

impl<V> fmt::Display for Expression<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
