//! The language of `when`: a closed part of CEL, the language of conditions of Kubernetes and Envoy.
//!
//! From text to a [`Expression`] in three steps, each in a file of its own: tokens, syntax, and compilation to terms with jumps between them. There are
//! no loops, no variables, no arithmetic and no side effects, and texts, terms, depth and lists are bounded, so what a condition takes is
//! known when it is read.

#[cfg(test)]
mod tests;
pub(crate) mod evaluate;
pub(crate) mod parsed;
mod compile;
mod relation;
mod typing;
pub(crate) mod term;
pub(crate) mod step;
pub(crate) mod names;
mod syntax;
mod token;
pub(crate) mod error;
