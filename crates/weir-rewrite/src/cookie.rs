//! Attributes of cookies that servers set (RFC 6265 section 4.1; nginx: `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`).

use std::ops::Range;

use regex_automata::meta::Regex;

use crate::regexes::{RuleError, compile_whole, find_groups};

/// A change of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The cookie has it from then on.
    Set,
    /// It has it no more.
    Removed,
}

/// An attribute whose text is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieAttribute {
    /// `Domain`.
    Domain,
    /// `Path`.
    Path,
}

/// What is replaced of an attribute.
#[derive(Debug, Clone)]
pub enum AttributePattern {
    /// All of it.
    Any,
    /// This domain, in either case, with or without a dot before it.
    Domain(Box<str>),
    /// This beginning of a path.
    PathPrefix(Box<str>),
    /// What matches.
    Regex(Box<str>, Regex),
}

impl AttributePattern {
    /// This domain, or this beginning of a path.
    pub fn of_text(attribute: CookieAttribute, text: &str) -> Self {
        match attribute {
            CookieAttribute::Domain => Self::Domain(text.into()),
            CookieAttribute::Path => Self::PathPrefix(text.into()),
        }
    }

    /// What matches a regular expression; of a domain, in either case.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn of_regex(attribute: CookieAttribute, pattern: &str) -> Result<Self, RuleError> {
        let compiled = compile_whole(pattern, attribute == CookieAttribute::Domain)?;
        Ok(Self::Regex(pattern.into(), compiled))
    }

    /// How many groups it has beside the whole match, if it is a regular expression.
    pub fn group_count(&self) -> Option<usize> {
        match self {
            Self::Regex(_, regex) => Some(regex.captures_len() - 1),
            _ => None,
        }
    }

    /// What is replaced of this value, and the groups of a regular expression, of which the first is that.
    fn find<'a>(&self, value: &'a [u8]) -> Option<(Range<usize>, Vec<&'a [u8]>)> {
        match self {
            Self::Any => Some((0..value.len(), Vec::new())),
            Self::Domain(domain) => {
                is_domain(value, domain.as_bytes()).then_some((0..value.len(), Vec::new()))
            }
            Self::PathPrefix(path) => {
                value.starts_with(path.as_bytes()).then_some((0..path.len(), Vec::new()))
            }
            Self::Regex(_, regex) => find_groups(regex, value),
        }
    }
}

impl PartialEq for AttributePattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, Self::Any) => true,
            (Self::Domain(one), Self::Domain(other))
            | (Self::PathPrefix(one), Self::PathPrefix(other))
            | (Self::Regex(one, _), Self::Regex(other, _)) => one == other,
            _ => false,
        }
    }
}

/// What is changed of a cookie; of each, `None` leaves it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CookieChange<'a> {
    /// What is replaced of the domain. If nothing is left, the attribute is removed.
    pub domain: Option<&'a AttributePattern>,
    /// The same for the path.
    pub path: Option<&'a AttributePattern>,
    /// `Secure`.
    pub secure: Option<Flag>,
    /// `HttpOnly`.
    pub http_only: Option<Flag>,
    /// `Partitioned`.
    pub partitioned: Option<Flag>,
    /// The value of `SameSite`; an empty one removes the attribute.
    pub same_site: Option<&'a str>,
}

/// The name of the cookie that a `Set-Cookie` sets.
pub fn cookie_name(value: &[u8]) -> &[u8] {
    let pair = value.split(|byte| *byte == b';').next().unwrap_or_default();
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

/// Without what would make browsers drop the cookie of this name: one with `__Host-` has the path `/`, no domain and `Secure`, one with `__Secure-` is
/// `Secure` (RFC 6265bis section 4.1.3).
fn allowed<'a>(name: &[u8], change: &CookieChange<'a>) -> CookieChange<'a> {
    let begins =
        |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let mut allowed = change.clone();
    if begins(b"__Host-") {
        (allowed.domain, allowed.path) = (None, None);
    }
    if begins(b"__Host-") || begins(b"__Secure-") {
        allowed.secure = change.secure.filter(|flag| *flag == Flag::Set);
    }
    allowed
}

/// Appends what replaces a match in an attribute, of which it is given the groups if it is of a regular expression.
pub type AttributeReplacement<'a> = dyn Fn(CookieAttribute, &[&[u8]], &mut Vec<u8>) + 'a;

/// Appends a `Set-Cookie` with changed attributes. The cookie itself, and attributes that are not changed, stay byte for byte.
pub fn write_cookie(
    value: &[u8],
    change: &CookieChange<'_>,
    replace: &AttributeReplacement<'_>,
    out: &mut Vec<u8>,
) {
    let change = &allowed(cookie_name(value), change);
    let mut parts = value.split(|byte| *byte == b';');
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        let text = part.trim_ascii();
        let equals = text.iter().position(|byte| *byte == b'=');
        let name = text[..equals.unwrap_or(text.len())].trim_ascii();
        let given = equals.map_or(&b""[..], |at| text[at + 1..].trim_ascii());
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let is_changed = change.secure.is_some() && is("secure")
            || change.http_only.is_some() && is("httponly")
            || change.partitioned.is_some() && is("partitioned")
            || change.same_site.is_some() && is("samesite");
        if is_changed {
            // It is written behind the others, if at all.
            continue;
        }
        let attributes = [
            ("domain", CookieAttribute::Domain, change.domain),
            ("path", CookieAttribute::Path, change.path),
        ];
        let own = attributes.into_iter().find(|(attribute, ..)| is(attribute));
        let found = own.and_then(|(_, attribute, pattern)| Some((attribute, pattern?.find(given)?)));
        let Some((attribute, (range, groups))) = found else {
            out.push(b';');
            out.extend_from_slice(part);
            continue;
        };
        let start = out.len();
        out.extend_from_slice(b"; ");
        out.extend_from_slice(name);
        out.push(b'=');
        let new = out.len();
        out.extend_from_slice(&given[..range.start]);
        replace(attribute, &groups, out);
        out.extend_from_slice(&given[range.end..]);
        if out.len() == new {
            out.truncate(start);
        }
    }
    let flags =
        [("Secure", change.secure), ("HttpOnly", change.http_only), ("Partitioned", change.partitioned)];
    for (name, _) in flags.iter().filter(|(_, flag)| *flag == Some(Flag::Set)) {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(name.as_bytes());
    }
    if let Some(value) = change.same_site.filter(|value| !value.is_empty()) {
        out.extend_from_slice(b"; SameSite=");
        out.extend_from_slice(value.as_bytes());
    }
}

/// Whether two domains are the same: a dot before them does not count (RFC 6265 section 5.2.3).
fn is_domain(one: &[u8], other: &[u8]) -> bool {
    let bare = |domain: &[u8]| domain.strip_prefix(b".").map_or(domain.len(), <[u8]>::len);
    one[one.len() - bare(one)..].eq_ignore_ascii_case(&other[other.len() - bare(other)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_changed_changes() {
        let none = CookieChange::default();
        let of_domain = AttributePattern::of_text(CookieAttribute::Domain, "a.internal");
        let of_path = AttributePattern::of_text(CookieAttribute::Path, "/two/");
        let domain = CookieChange { domain: Some(&of_domain), ..none.clone() };
        let any = CookieChange {
            domain: Some(&AttributePattern::Any),
            path: Some(&AttributePattern::Any),
            ..none.clone()
        };
        let path = CookieChange { path: Some(&of_path), ..none.clone() };
        let flags = CookieChange {
            secure: Some(Flag::Set),
            http_only: Some(Flag::Removed),
            partitioned: Some(Flag::Set),
            same_site: Some("Lax"),
            ..none.clone()
        };
        let gone = CookieChange { secure: Some(Flag::Removed), same_site: Some(""), ..none.clone() };
        for (change, value, expected) in [
            (&none, "a=b ;  Path=/;HttpOnly", "a=b ;  Path=/;HttpOnly"),
            (&domain, "a=b; Domain=.A.internal; Path=/", "a=b; Domain=a.test; Path=/"),
            (&domain, "a=b; domain=other.internal", "a=b; domain=other.internal"),
            (&domain, "domain=a.internal", "domain=a.internal"),
            (&domain, "a=b", "a=b"),
            (&any, "a=b; Domain=x; path=/old; Secure", "a=b; path=/x; Secure"),
            (&path, "a=b; Path=/two/three", "a=b; Path=/three"),
            (&path, "a=b; Path=/two", "a=b; Path=/two"),
            (
                &flags,
                "a=b; httponly; SECURE; samesite=None; Path=/",
                "a=b; Path=/; Secure; Partitioned; SameSite=Lax",
            ),
            (&flags, "a=b", "a=b; Secure; Partitioned; SameSite=Lax"),
            (&gone, "a=b; Secure; SameSite=Strict; Max-Age=1", "a=b; Max-Age=1"),
            (&gone, "a=Secure", "a=Secure"),
            (&any, "__Host-a=b; Path=/; Secure", "__Host-a=b; Path=/; Secure"),
            (&any, "__host-a=b; Path=/", "__host-a=b; Path=/"),
            (&any, "__Secure-a=b; Path=/; Secure", "__Secure-a=b; Path=/x; Secure"),
            (&gone, "__Host-a=b; Secure; SameSite=Lax", "__Host-a=b; Secure"),
            (&gone, "__Secure-a=b; Secure", "__Secure-a=b; Secure"),
            (&gone, "", ""),
        ] {
            let replace = |attribute, groups: &[&[u8]], out: &mut Vec<u8>| {
                assert_eq!(groups, [b""; 0]);
                out.extend_from_slice(match attribute {
                    CookieAttribute::Domain if change.path.is_some() => b"",
                    CookieAttribute::Domain => b"a.test",
                    CookieAttribute::Path if change.domain.is_some() => b"/x",
                    CookieAttribute::Path => b"/",
                });
            };
            let mut out = Vec::new();
            write_cookie(value.as_bytes(), change, &replace, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn what_a_regular_expression_matches_is_replaced() {
        let domain = AttributePattern::of_regex(CookieAttribute::Domain, r"^(.+)\.com$").unwrap();
        let path = AttributePattern::of_regex(CookieAttribute::Path, "^/(?:old|(x))/").unwrap();
        assert_eq!((domain.group_count(), AttributePattern::Any.group_count()), (Some(1), None));
        let change = CookieChange { domain: Some(&domain), path: Some(&path), ..CookieChange::default() };
        for (value, expected) in [
            ("a=b; Domain=www.example.COM; Path=/old/one", "a=b; Domain=[www.example]; Path=/[]/one"),
            ("a=b; Path=/x/; Domain=a.test", "a=b; Path=/[x]/; Domain=a.test"),
            ("a=b; Path=/OLD/", "a=b; Path=/OLD/"),
            ("a=b; Path=/old", "a=b; Path=/old"),
            ("a=b; Domain", "a=b; Domain"),
            ("a=b; Path=/old/1; Path=/x/2", "a=b; Path=/[]/1; Path=/[x]/2"),
            ("__Host-a=b; Path=/old/", "__Host-a=b; Path=/old/"),
        ] {
            let replace = |attribute, groups: &[&[u8]], out: &mut Vec<u8>| {
                let group = [b"[", groups[1], b"]"].concat();
                let around: &[u8] = if attribute == CookieAttribute::Path { b"/" } else { b"" };
                out.extend_from_slice(&[around, &group, around].concat());
            };
            let mut out = Vec::new();
            write_cookie(value.as_bytes(), &change, &replace, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{value}");
        }
        let error = AttributePattern::of_regex(CookieAttribute::Path, "(").expect_err("it is not closed");
        assert_eq!(error.to_string(), "not a regular expression: unclosed group");
    }

    #[test]
    fn the_name_is_before_the_first_equals_sign() {
        for (value, name) in [("a=b; x=y", "a"), (" a =b", "a"), ("a", "a"), ("=b", ""), ("a;x=y", "a")] {
            assert_eq!(cookie_name(value.as_bytes()), name.as_bytes(), "{value}");
        }
    }
}
