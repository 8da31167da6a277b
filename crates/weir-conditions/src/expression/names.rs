//! The names that a condition may use: the caller's.

use std::fmt;

/// What a name stands for, so that a condition can be checked before anything is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Bytes, nearly always text. There may be several (lines of a field); none counts as an empty one.
    Text,
    /// A whole number, or none.
    Number,
    /// An IP address, or none.
    Address,
    /// Yes or no.
    Flag,
}

impl ValueType {
    /// With an article, for messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            ValueType::Text => "a text",
            ValueType::Number => "a number",
            ValueType::Address => "an IP address",
            ValueType::Flag => "true or false",
        }
    }
}

/// Why a name stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// The names of a condition.
pub trait Names {
    /// What a name stands for.
    type Value;

    /// What these parts of a name stand for: `tls.version` has two, and so has `header["user-agent"]`.
    ///
    /// # Errors
    /// When they stand for nothing.
    fn resolve(&self, parts: &[&str]) -> Result<(Self::Value, ValueType), NameError>;
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}
