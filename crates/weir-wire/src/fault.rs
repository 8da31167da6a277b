//! The rule that recorded bytes break, and where.

use std::fmt;

/// What is wrong with the bytes of one direction of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireFault {
    /// Where the message or frame begins that breaks the rule, in bytes from the start.
    pub at: usize,
    /// The rule, and what broke it.
    pub what: String,
}

impl WireFault {
    /// A fault of what begins at `at`.
    pub fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

impl fmt::Display for WireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}
