//! The steps of a condition that is compiled.

/// The most comparisons of one condition.
pub const TERMS_MAX: usize = 64;

/// One step of a condition. There is one answer, which each step changes or looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpressionStep {
    /// The answer is that of this term.
    Ask(u16),
    /// The answer is this.
    Answer(bool),
    /// The answer is the other one.
    Negate,
    /// On at this step if the answer is no.
    SkipIfNo(u16),
    /// On at this step if the answer is yes.
    SkipIfYes(u16),
}
