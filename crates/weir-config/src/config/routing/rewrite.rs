//! `rewrite`, `then`, `internal` and their targets: how a request goes on inside of a listener, on another path or another route.
//!
//! What a rewrite makes of a path is the same on the data path and in `weir explain`. A target that comes out has no byte that a request line or a
//! `Location` cannot have, and begins with exactly one slash, whatever a client has sent.

use std::sync::Arc;

use weir_traffic::route::RouteRegex;

use crate::key::choice;
use crate::value::{Template, TemplateValue};

/// Re-routings of one request; one more is answered 500. As many as nginx allows.
pub const REROUTINGS_MAX: u8 = 10;

/// Where a request goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTarget {
    /// On the route that this path has, which may have a query.
    Path(Template),
    /// On the route of this name; its path stays.
    Route(Arc<str>),
}

impl RouteTarget {
    /// The name of the route, if it is one.
    pub fn route(&self) -> Option<&Arc<str>> {
        match self {
            Self::Route(name) => Some(name),
            Self::Path(_) => None,
        }
    }

    /// The values of the exchange in it.
    pub(crate) fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        let path = match self {
            Self::Path(path) => Some(path),
            Self::Route(_) => None,
        };
        path.into_iter().flat_map(Template::values)
    }
}

/// What follows when a route with `files` has no file for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesFallback {
    /// An answer with this status.
    Status(u16),
    /// The request goes on.
    Target(RouteTarget),
}

choice! {
    /// What follows a rewrite whose pattern has matched.
    pub enum RewriteFlag {
        /// The next rewrite of the list; behind the last one, as with `last`.
        #[default]
        Continue = "continue",
        /// The route for the path as it is now is looked for.
        Last = "last",
        /// The request stays on its route, and no more rewrites follow.
        Break = "break",
        /// The client is redirected with 302.
        Redirect = "redirect",
        /// The client is redirected with 301.
        Permanent = "permanent",
    }
}

impl RewriteFlag {
    /// The status of the redirect, if it is one.
    pub const fn redirect_status(self) -> Option<u16> {
        match self {
            Self::Redirect => Some(302),
            Self::Permanent => Some(301),
            Self::Continue | Self::Last | Self::Break => None,
        }
    }
}

/// One rewrite of a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RewriteRule {
    /// What a path has to match anywhere; compiled with groups.
    pub pattern: RouteRegex,
    /// What the target becomes: groups in the text, and values of the exchange.
    pub replacement: Template,
    /// What follows.
    pub flag: RewriteFlag,
}

impl RewriteRule {
    pub(crate) fn new(pattern: RouteRegex, replacement: Template, flag: RewriteFlag) -> Self {
        Self { pattern, replacement, flag }
    }

    /// The target that the rule makes of a path and its query without `?`: ready to be used, or, of a redirect, to be sent. `None`: the path does not
    /// match. `write` appends a value of the exchange.
    ///
    /// A query in the replacement goes before that of the request, which is left out where the replacement ends with `?`.
    pub fn apply(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
        mut write: impl FnMut(&TemplateValue, &mut Vec<u8>),
    ) -> Option<Vec<u8>> {
        use crate::value::TemplatePart::{Literal, Value};
        let groups = self.pattern.captures(path)?;
        let mut raw = Vec::new();
        for part in self.replacement.parts() {
            match part {
                Literal(text) => groups.expand(text.as_bytes(), &mut raw),
                Value(value) => write(value, &mut raw),
            }
        }
        let names_query = self
            .replacement
            .values()
            .any(|value| matches!(value, TemplateValue::Query | TemplateValue::Args));
        let mut target = clean_target(&raw);
        match query {
            _ if target.ends_with(b"?") => _ = target.pop(),
            Some(query) if !names_query => {
                target.push(if target.contains(&b'?') { b'&' } else { b'?' });
                target.extend_from_slice(query);
            }
            Some(_) | None => {}
        }
        Some(target)
    }
}

/// A path, or a URL with a scheme, as it may stand in a request line or a `Location`: what cannot is percent-encoded, a path begins with exactly one
/// slash, and there is no fragment.
pub fn clean_target(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + 1);
    let is_url = raw.starts_with(b"http://") || raw.starts_with(b"https://");
    let mut rest = raw;
    if !is_url {
        while let [b'/', behind @ ..] = rest {
            rest = behind;
        }
        out.push(b'/');
    }
    for (at, &byte) in rest.iter().enumerate() {
        let is_broken_percent = byte == b'%'
            && !rest.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
        if is_broken_percent || !is_of_target(byte) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

/// Whether a byte may stand in a path or a query (RFC 3986 section 3.3 and 3.4), a percent sign and brackets included.
fn is_of_target(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_traffic::route::ValueMatch;

    use super::*;

    fn rule(pattern: &str, replacement: &str) -> RewriteRule {
        let Ok(ValueMatch::Regex(pattern)) = ValueMatch::regex(pattern) else { panic!("{pattern}") };
        RewriteRule::new(pattern.with_groups(), replacement.parse().unwrap(), RewriteFlag::Last)
    }

    fn applied(rule: &RewriteRule, path: &str, query: Option<&str>) -> Option<String> {
        let write = |value: &TemplateValue, out: &mut Vec<u8>| match value {
            TemplateValue::Host => out.extend_from_slice(b"a.test"),
            TemplateValue::Query => out.extend_from_slice(format!("?{}", query.unwrap_or("")).as_bytes()),
            _ => out.extend_from_slice(b"\r\nX: 1 #/../"),
        };
        let target = rule.apply(path.as_bytes(), query.map(str::as_bytes), write)?;
        Some(String::from_utf8(target).unwrap())
    }

    #[test]
    fn targets_have_groups_values_and_the_query() {
        for (pattern, replacement, path, query, expected) in [
            ("^/old/(.*)$", "/new/$1", "/old/a/b", None, Some("/new/a/b")),
            ("^/old/(.*)$", "/new/$1", "/old/a", Some("x=1"), Some("/new/a?x=1")),
            ("^/old/(.*)$", "/new/$1", "/other", None, None),
            ("^/(?<id>[0-9]+)$", "/show?id=$id", "/7", Some("x=1"), Some("/show?id=7&x=1")),
            ("^/(?<id>[0-9]+)$", "/show?id=${{id}}&b=1?", "/7", Some("x=1"), Some("/show?id=7&b=1")),
            ("^/x$", "/y?", "/x", Some("a"), Some("/y")),
            ("^", "https://{host}/z{query}", "/x", Some("a=b"), Some("https://a.test/z?a=b")),
            ("^(.*)$", "$1", "/x", None, Some("/x")),
            ("^/x(.*)$", "$1", "/x//evil.test", None, Some("/evil.test")),
            ("^/x(.*)$", "/$1", "/x/\\evil.test", None, Some("/%5Cevil.test")),
            ("^/(.*)$", "/a b$$1/$1", "/%0d%0a%zz", None, Some("/a%20b$1/%0d%0a%25zz")),
            ("^/", "/{header.x}", "/x", None, Some("/%0D%0AX:%201%20%23/../")),
        ] {
            let found = applied(&rule(pattern, replacement), path, query);
            assert_eq!(found.as_deref(), expected, "{pattern} -> {replacement}: {path}");
        }
    }

    proptest! {
        #[test]
        fn no_target_breaks_a_line_or_leads_to_another_host(raw: Vec<u8>) {
            let target = clean_target(&raw);
            prop_assert!(target.iter().all(|byte| is_of_target(*byte)));
            let is_url = raw.starts_with(b"http://") || raw.starts_with(b"https://");
            prop_assert!(is_url || target.starts_with(b"/") && !target.starts_with(b"//"));
        }
    }
}
