//! Conditions and maps: from values of an exchange to decisions and other values.
//!
//! Pure: no I/O and no clock. What the values are and where they come from is the caller's: a condition is read with the caller's names
//! ([`Names`]) and asked with the caller's values ([`Facts`]), so the proxy, `weir explain` and the tests run the same code. Nothing here
//! allocates when it is asked, and everything takes time that is linear in the texts it looks at.

#![forbid(unsafe_code)]

mod expression;
mod map;

pub use expression::error::ExpressionError;
pub use expression::evaluate::{Facts, TermOutcome};
pub use expression::names::{NameError, Names, ValueType};
pub use expression::parsed::{EXPRESSION_BYTES_MAX, Expression};
pub use expression::step::TERMS_MAX;
pub use expression::term::ExpressionTerm;
pub use map::{MapEntryError, MapKind, MapMatch, ValueMap, ValueMapBuilder};
