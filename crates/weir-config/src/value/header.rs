//! Names and values of headers that the config adds to messages.
//!
//! They cannot split a message or smuggle a header into it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;

use super::ValueError;

/// The name of a header: a token (RFC 9110 section 5.1), in lower case. Names are the same in every spelling; the one that was written is kept beside.
#[derive(Debug, Clone)]
pub struct HeaderName(Box<str>, Option<Box<str>>);

/// Headers that frame a message or control the connection. Changing one would break the headers that Weir sets.
pub(crate) const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

impl PartialEq for HeaderName {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for HeaderName {}

impl PartialOrd for HeaderName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeaderName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for HeaderName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl HeaderName {
    /// As it was written, which is how HTTP/1 sends it.
    pub fn as_written(&self) -> &str {
        self.1.as_deref().unwrap_or(&self.0)
    }

    /// Whether Weir sets it itself for each connection, so that no change of headers may name it.
    pub fn is_framing(&self) -> bool {
        FRAMING.contains(&&*self.0)
    }
}

impl FromStr for HeaderName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() {
            return Err(ValueError::new("the header name is empty"));
        }
        if let Some((index, wrong)) = text.char_indices().find(|(_, c)| !is_token(*c)) {
            let message = format!("`{text}` is not a header name: {wrong:?} is not allowed in it");
            return Err(ValueError::new(message).range(index..index + wrong.len_utf8()));
        }
        let lower = text.to_ascii_lowercase();
        let written = (lower != text).then(|| text.into());
        Ok(Self(lower.into(), written))
    }
}

/// Whether a character is allowed in a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// The value of a header: visible characters, spaces and tabs, none of the latter two at its ends (RFC 9110 section 5.5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderValue(Box<str>);

impl FromStr for HeaderValue {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some((index, wrong)) = text.char_indices().find(|(_, c)| c.is_ascii_control() && *c != '\t') {
            let message = format!("a header value cannot contain {wrong:?}");
            return Err(ValueError::new(message).range(index..index + 1));
        }
        if text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']) {
            return Err(ValueError::new("a header value cannot begin or end with white space"));
        }
        Ok(Self(text.into()))
    }
}

/// A token: the name of a protocol, of a proxy (RFC 9110 section 5.6.2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Box<str>);

impl FromStr for Token {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() || !text.chars().all(is_token) {
            return Err(ValueError::new(format!("`{text}` is not a token"))
                .help("a token is letters, digits and ! # $ % & ' * + - . ^ _ ` | ~"));
        }
        Ok(Self(text.into()))
    }
}

macro_rules! text {
    ($($name:ident)+) => {$(
        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

text! { HeaderName HeaderValue Token }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_their_case() {
        assert_eq!(&*"WebSocket".parse::<Token>().unwrap(), "WebSocket");
        assert!("a b".parse::<Token>().is_err() && "".parse::<Token>().is_err());
    }

    #[test]
    fn names_are_tokens_in_lower_case() {
        let name: HeaderName = "X-Request-ID".parse().unwrap();
        assert_eq!((&*name, name.as_written()), ("x-request-id", "X-Request-ID"));
        assert_eq!(name, "x-request-id".parse().unwrap());
        assert_eq!("x-a".parse::<HeaderName>().unwrap().as_written(), "x-a");
        for text in ["", "a b", "a:", "é", "a\r\nb", "(a)"] {
            assert!(text.parse::<HeaderName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn values_cannot_split_a_message() {
        for text in ["", "a b", "a\tb", "é", "max-age=1; includeSubDomains"] {
            assert_eq!(&*text.parse::<HeaderValue>().unwrap(), text);
        }
        for text in ["a\r\nb: c", "a\nb", "a\0b", " a", "a ", "a\x7f"] {
            assert!(text.parse::<HeaderValue>().is_err(), "{text:?}");
        }
    }
}
