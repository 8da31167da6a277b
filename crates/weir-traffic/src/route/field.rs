//! Rules on header fields and query parameters.
//!
//! Of several fields (or parameters) with one name, one is enough that is like the rule: no line hides another. Fields are compared as the bytes
//! that were sent, parameters as they are once they are decoded.

use std::fmt;

use super::pattern::RouteRegex;
use super::request::decoded_parameter;

/// A rule on the header fields of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMatch {
    name: Box<str>,
    value: ValueMatch,
}

/// A rule on the query parameters of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryMatch {
    name: Box<str>,
    value: ValueMatch,
    /// The text of the rule, decoded.
    decoded: Box<[u8]>,
}

/// The condition on a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueMatch {
    /// There is one.
    Present,
    /// There is none.
    Absent,
    /// It is this.
    Exact(Box<str>),
    /// It begins with this.
    Prefix(Box<str>),
    /// The regular expression is found in it; build with [`ValueMatch::regex`].
    Regex(RouteRegex),
}

/// Why a text is not a rule on a field or a parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The name is not a token (RFC 9110 section 5.1).
    #[error("{0:?} is not a field name")]
    BadFieldName(String),
    /// The name is not one a cookie can have (RFC 6265 section 4.1.1).
    #[error("{0:?} is not the name of a cookie")]
    BadCookieName(String),
    /// The parameter has no name, or one that a query cannot contain.
    #[error("{0:?} is not the name of a query parameter; write it percent-encoded, as clients send it")]
    BadParameterName(String),
    /// The regular expression is malformed or too large; the text says where.
    #[error("{0}")]
    BadRegex(String),
}

impl FieldMatch {
    /// A rule on the field `name`, whose case does not matter.
    ///
    /// # Errors
    /// [`FieldError::BadFieldName`].
    pub fn new(name: &str, value: ValueMatch) -> Result<FieldMatch, FieldError> {
        if !is_token(name) {
            return Err(FieldError::BadFieldName(name.to_owned()));
        }
        Ok(FieldMatch { name: name.to_ascii_lowercase().into(), value })
    }

    /// The name in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The condition on the value.
    pub fn value(&self) -> &ValueMatch {
        &self.value
    }
}

impl QueryMatch {
    /// A rule on the parameter `name`, written as clients send it; case matters.
    ///
    /// # Errors
    /// [`FieldError::BadParameterName`].
    pub fn new(name: &str, value: ValueMatch) -> Result<QueryMatch, FieldError> {
        let bad = |byte: u8| !byte.is_ascii_graphic() || matches!(byte, b'&' | b'=' | b'#');
        if name.is_empty() || name.bytes().any(bad) {
            return Err(FieldError::BadParameterName(name.to_owned()));
        }
        let text = match &value {
            ValueMatch::Exact(text) | ValueMatch::Prefix(text) => text,
            ValueMatch::Present | ValueMatch::Absent | ValueMatch::Regex(_) => "",
        };
        let decoded = decoded_parameter(text.as_bytes()).into();
        Ok(QueryMatch { name: name.into(), value, decoded })
    }

    /// Whether the values of the parameters of its name, as sent, are like this.
    pub fn matches_values<'a>(&self, mut values: impl Iterator<Item = &'a [u8]>) -> bool {
        match &self.value {
            ValueMatch::Absent => values.next().is_none(),
            ValueMatch::Present => values.next().is_some(),
            ValueMatch::Exact(_) => values.any(|value| *decoded_parameter(value) == *self.decoded),
            ValueMatch::Prefix(_) => values.any(|value| decoded_parameter(value).starts_with(&self.decoded)),
            ValueMatch::Regex(pattern) => values.any(|value| pattern.is_match(&decoded_parameter(value))),
        }
    }

    /// The text that a parameter has to be or to begin with, decoded.
    pub(super) fn decoded(&self) -> &[u8] {
        &self.decoded
    }

    /// The name as clients send it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The condition on the value.
    pub fn value(&self) -> &ValueMatch {
        &self.value
    }
}

impl ValueMatch {
    /// Exactly this value.
    pub fn exact(text: &str) -> ValueMatch {
        ValueMatch::Exact(text.into())
    }

    /// Every value that begins so.
    pub fn prefix(text: &str) -> ValueMatch {
        ValueMatch::Prefix(text.into())
    }

    /// Every value in which the regular expression is found; `^` and `$` tie it to the ends. It works on
    /// bytes.
    ///
    /// # Errors
    /// [`FieldError::BadRegex`].
    pub fn regex(text: &str) -> Result<ValueMatch, FieldError> {
        RouteRegex::build(text)
            .map(ValueMatch::Regex)
            .map_err(|error| FieldError::BadRegex(error.to_string()))
    }

    /// Whether one of some values is like this, or there is none as it wants.
    pub fn matches_any<'a>(&self, mut values: impl Iterator<Item = &'a [u8]>) -> bool {
        match self {
            ValueMatch::Absent => values.next().is_none(),
            rule => values.any(|value| rule.matches(Some(value))),
        }
    }

    /// Whether a value (or its absence) is like this.
    pub fn matches(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (ValueMatch::Absent, value) => value.is_none(),
            (_, None) => false,
            (ValueMatch::Present, Some(_)) => true,
            (ValueMatch::Exact(exact), Some(value)) => value == exact.as_bytes(),
            (ValueMatch::Prefix(prefix), Some(value)) => value.starts_with(prefix.as_bytes()),
            (ValueMatch::Regex(pattern), Some(value)) => pattern.is_match(value),
        }
    }
}

impl fmt::Display for ValueMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueMatch::Present => f.write_str("present"),
            ValueMatch::Absent => f.write_str("absent"),
            ValueMatch::Exact(text) => write!(f, "exactly {text:?}"),
            ValueMatch::Prefix(text) => write!(f, "prefix {text:?}"),
            ValueMatch::Regex(pattern) => write!(f, "regex {pattern}"),
        }
    }
}

/// Whether `text` is a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match() {
        let regex = ValueMatch::regex("^a+$").unwrap();
        for (rule, value, expected) in [
            (ValueMatch::Present, Some(""), true),
            (ValueMatch::Present, None, false),
            (ValueMatch::Absent, None, true),
            (ValueMatch::Absent, Some(""), false),
            (ValueMatch::exact("a"), Some("a"), true),
            (ValueMatch::exact("a"), Some("A"), false),
            (ValueMatch::exact(""), None, false),
            (ValueMatch::prefix("a"), Some("ab"), true),
            (ValueMatch::prefix("a"), Some("ba"), false),
            (regex.clone(), Some("aa"), true),
            (regex, Some("ab"), false),
        ] {
            assert_eq!(rule.matches(value.map(str::as_bytes)), expected, "{rule} {value:?}");
        }
    }

    #[test]
    fn no_spelling_hides_a_parameter_and_no_line_another() {
        let query = |value| QueryMatch::new("a", value).unwrap();
        for (rule, values, expected) in [
            (query(ValueMatch::exact("1")), &["%31"][..], true),
            (query(ValueMatch::exact("a%20b")), &["a+b"], true),
            (query(ValueMatch::exact("a+b")), &["a%2bb"], false),
            (query(ValueMatch::exact("1")), &["0", "1"], true),
            (query(ValueMatch::exact("1")), &["0"], false),
            (query(ValueMatch::prefix("%31")), &["12"], true),
            (query(ValueMatch::regex("^x$").unwrap()), &["%78"], true),
            (query(ValueMatch::Present), &[""], true),
            (query(ValueMatch::Absent), &[""], false),
            (query(ValueMatch::Absent), &[], true),
        ] {
            let found = rule.matches_values(values.iter().map(|value| value.as_bytes()));
            assert_eq!(found, expected, "{} {values:?}", rule.value());
        }
        let lines = || [&b"0"[..], b"1"].into_iter();
        assert!(ValueMatch::exact("1").matches_any(lines()) && ValueMatch::Present.matches_any(lines()));
        assert!(!ValueMatch::exact("0, 1").matches_any(lines()) && !ValueMatch::Absent.matches_any(lines()));
        assert!(ValueMatch::Absent.matches_any(std::iter::empty()));
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(FieldMatch::new("X-Env", ValueMatch::Present).unwrap().name(), "x-env");
        for name in ["", "a b", "a:", "é"] {
            assert!(FieldMatch::new(name, ValueMatch::Present).is_err(), "{name:?}");
        }
        assert_eq!(QueryMatch::new("a[]", ValueMatch::Absent).unwrap().name(), "a[]");
        for name in ["", "a=", "a&b", "a b", "é"] {
            assert!(QueryMatch::new(name, ValueMatch::Present).is_err(), "{name:?}");
        }
        assert!(matches!(ValueMatch::regex("["), Err(FieldError::BadRegex(_))));
    }
}
