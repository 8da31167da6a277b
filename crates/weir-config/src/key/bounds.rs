//! Values beyond the bounds of their keys: reading a text and checking a configuration from elsewhere say the same about them.

use std::fmt;

/// A value that exceeds the bounds of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutOfBounds {
    key: Box<str>,
    /// `from 1 to 10`, or `at least 1`.
    range: String,
    found: String,
}

impl OutOfBounds {
    /// Of this key; all values as they are written, `max` only if there is one.
    pub(crate) fn new(key: &str, found: String, min: &str, max: Option<String>) -> Self {
        let range = match max {
            Some(max) => format!("from {min} to {max}"),
            None => format!("at least {min}"),
        };
        Self { key: key.into(), range, found }
    }
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` has to be {}; this is {}", self.key, self.range, self.found)
    }
}
