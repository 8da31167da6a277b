//! Host patterns: an exact name, every name below a domain, or any host.

use std::fmt;
use std::str::FromStr;

/// The longest host name there is, without the trailing dot (RFC 1035 section 3.1).
const HOST_LEN_MAX: usize = 253;

/// Which hosts a route takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern(HostKind);

/// Names are in lower case, without a trailing dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HostKind {
    Any,
    Exact(Box<str>),
    /// Everything that ends in a dot and this name.
    Below(Box<str>),
}

/// Why a text is not a host pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is no name.
    #[error("the host is empty")]
    Empty,
    /// It is longer than a host name can be.
    #[error("the host is longer than {HOST_LEN_MAX} characters")]
    TooLong,
    /// It names a port; routes are chosen by host alone.
    #[error("the host has a port: a route is chosen by host alone")]
    HasPort,
    /// A `*` that is not the whole first label.
    #[error("`*` may only stand for whole labels at the front, as in `*.example.com`")]
    BadWildcard,
    /// It has an empty label: two dots in a row, or one at the front.
    #[error("the host has an empty label")]
    EmptyLabel,
    /// It has a character that no host has.
    #[error("a host cannot contain {0:?}")]
    BadCharacter(char),
}

impl HostPattern {
    /// Every host, also none.
    pub const ANY: HostPattern = HostPattern(HostKind::Any);

    /// Reads `example.com` (this host alone), `*.example.com` (every host below it at any depth, but not
    /// `example.com` itself), `[2001:db8::1]` or `*` (any host). Case does not matter; one trailing dot is
    /// ignored.
    ///
    /// # Errors
    /// The first rule that the text breaks.
    pub fn parse(text: &str) -> Result<HostPattern, HostError> {
        if text == "*" {
            return Ok(HostPattern::ANY);
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        check_name(&name)?;
        let name = name.into_boxed_str();
        Ok(HostPattern(if below { HostKind::Below(name) } else { HostKind::Exact(name) }))
    }

    /// Whether `host` (without port) is one of these.
    pub fn matches(&self, host: &[u8]) -> bool {
        let host = host.strip_suffix(b".").unwrap_or(host);
        match &self.0 {
            HostKind::Any => true,
            HostKind::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            HostKind::Below(name) => {
                let Some(dot) = host.len().checked_sub(name.len() + 1) else { return false };
                dot > 0 && host[dot] == b'.' && host[dot + 1..].eq_ignore_ascii_case(name.as_bytes())
            }
        }
    }

    /// Whether it is one host.
    pub fn is_exact(&self) -> bool {
        matches!(self.0, HostKind::Exact(_))
    }

    pub(super) fn kind(&self) -> &HostKind {
        &self.0
    }
}

fn check_name(name: &str) -> Result<(), HostError> {
    if name.is_empty() {
        return Err(HostError::Empty);
    }
    if name.len() > HOST_LEN_MAX {
        return Err(HostError::TooLong);
    }
    if let Some(literal) = name.strip_prefix('[') {
        return check_literal(literal);
    }
    if name.contains('*') {
        return Err(HostError::BadWildcard);
    }
    if let Some(bad) = name.chars().find(|&c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))) {
        return Err(if bad == ':' { HostError::HasPort } else { HostError::BadCharacter(bad) });
    }
    if name.split('.').any(str::is_empty) {
        return Err(HostError::EmptyLabel);
    }
    Ok(())
}

/// An IPv6 address after its opening bracket.
fn check_literal(literal: &str) -> Result<(), HostError> {
    match literal.split_once(']') {
        Some((address, "")) if address.parse::<std::net::Ipv6Addr>().is_ok() => Ok(()),
        Some((_, rest)) if rest.starts_with(':') => Err(HostError::HasPort),
        _ => Err(HostError::BadCharacter('[')),
    }
}

impl FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<HostPattern, HostError> {
        HostPattern::parse(text)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HostKind::Any => f.write_str("*"),
            HostKind::Exact(name) => f.write_str(name),
            HostKind::Below(name) => write!(f, "*.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_checked() {
        for (text, error) in [
            ("", HostError::Empty),
            ("*.", HostError::Empty),
            (".", HostError::Empty),
            ("example.com:80", HostError::HasPort),
            ("[::1]:80", HostError::HasPort),
            ("[::g]", HostError::BadCharacter('[')),
            ("a.*.com", HostError::BadWildcard),
            ("*a.com", HostError::BadWildcard),
            ("*.*.com", HostError::BadWildcard),
            ("a..b", HostError::EmptyLabel),
            (".a", HostError::EmptyLabel),
            ("a b", HostError::BadCharacter(' ')),
            ("a/b", HostError::BadCharacter('/')),
            ("ü.de", HostError::BadCharacter('ü')),
        ] {
            assert_eq!(HostPattern::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(HostPattern::parse(&"a".repeat(254)), Err(HostError::TooLong));
    }

    #[test]
    fn patterns_match_hosts() {
        for (pattern, host, expected) in [
            ("*", "", true),
            ("*", "x", true),
            ("Example.com.", "eXample.COM", true),
            ("example.com", "example.com.", true),
            ("example.com", "www.example.com", false),
            ("example.com", "example.comm", false),
            ("*.example.com", "www.Example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.example.com", "wwwexample.com", false),
            ("[::1]", "[::1]", true),
            ("localhost", "localhost", true),
        ] {
            let parsed = HostPattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(host.as_bytes()), expected, "{pattern} {host}");
            assert_eq!(HostPattern::parse(&parsed.to_string()), Ok(parsed), "display of {pattern}");
        }
    }
}
