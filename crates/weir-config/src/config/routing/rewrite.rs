//! `rewrite`, `then`, `internal` and their targets: how a request goes on inside of a listener, on another path or another route.
//!
//! What a rewrite makes of a path is the same on the data path and in `weir explain`. A target that comes out has no byte that a request line or a
//! `Location` cannot have, and begins with exactly one slash, whatever a client has sent.

use std::sync::Arc;

use weir_traffic::route::{Captures, RouteRegex};

use crate::key::choice;
use crate::value::TemplatePart::{Literal, Value};
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
    /// Whether the text of the config says that the target is a URL; text of a client never does.
    is_url: bool,
}

impl RewriteRule {
    pub(crate) fn new(pattern: RouteRegex, replacement: Template, flag: RewriteFlag) -> Self {
        let is_url = is_url(&replacement);
        Self { pattern, replacement, flag, is_url }
    }

    /// The target that the rule makes of a path and its query without `?`: ready to be used, or, of a redirect, to be sent. `None`: the path does not
    /// match. `write` appends a value of the exchange.
    ///
    /// A query in the replacement goes before that of the request, which is left out where the replacement ends with `?`. Groups and values begin no
    /// query, and in one add no parameters.
    ///
    /// # Errors
    /// When groups or values lead out of the folder that the replacement names.
    pub fn apply(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
        mut write: impl FnMut(&TemplateValue, &mut Vec<u8>),
    ) -> Result<Option<Vec<u8>>, DotSegments> {
        let Some(groups) = self.pattern.captures(path) else { return Ok(None) };
        let mut raw = Vec::new();
        for part in self.replacement.parts() {
            match part {
                Literal(text) => write_groups(text, &groups, &mut raw),
                Value(value) => {
                    let start = raw.len();
                    write(value, &mut raw);
                    keep_in_place(value, &mut raw, start);
                }
            }
        }
        let names_query = self
            .replacement
            .values()
            .any(|value| matches!(value, TemplateValue::Query | TemplateValue::Args));
        let mut target = if self.is_url { clean(&raw) } else { clean_path(&raw)? };
        let drops_query =
            matches!(self.replacement.parts().last(), Some(Literal(text)) if text.ends_with('?'));
        match query {
            _ if drops_query => _ = target.pop(),
            Some(query) if !names_query => {
                target.push(if target.contains(&b'?') { b'&' } else { b'?' });
                target.extend_from_slice(query);
            }
            Some(_) | None => {}
        }
        Ok(Some(target))
    }
}

/// Appends text with groups: `$1`, `$name` and `${name}`; `$$` is a dollar. A group in a query adds no parameters.
fn write_groups(text: &str, groups: &Captures<'_>, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let behind = &rest[at + 1..];
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let len = behind.bytes().position(|byte| !is_of_name(byte)).unwrap_or(behind.len());
        let (name, end) = match behind.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => (&behind[..len], len),
        };
        let is_dollar = behind.starts_with('$');
        let group = match name.parse() {
            Ok(number) => groups.get(number),
            Err(_) => groups.name(name),
        };
        match group {
            Some(group) => {
                let start = out.len();
                out.extend_from_slice(group.as_bytes());
                if out[..start].contains(&b'?') {
                    encode(out, start, b"&+");
                }
            }
            None if name.is_empty() => out.push(b'$'),
            None => {}
        }
        rest = &behind[if is_dollar { 1 } else { end }..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Keeps a value where it stands: in a path it begins no query, in a query it adds no parameters. What is a query itself stays one, and so does what the
/// config says with its own maps and variables.
///
/// `out` has the target up to the end of the value, which is from `start` on.
pub fn keep_in_place(value: &TemplateValue, out: &mut Vec<u8>, start: usize) {
    let is_query = matches!(value, TemplateValue::Query | TemplateValue::Args | TemplateValue::Target);
    if is_query || value.own().is_some() {
        return;
    }
    match out[..start].contains(&b'?') {
        false => encode(out, start, b"?"),
        // As it was sent, it has none of them, and a plus sign is a space.
        true if matches!(value, TemplateValue::QueryParameter(_)) => {}
        true => encode(out, start, b"&+"),
    }
}

/// Percent-encodes some bytes from `start` on.
fn encode(out: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    if out[start..].iter().any(|byte| bytes.contains(byte)) {
        for byte in out.split_off(start) {
            match bytes.contains(&byte) {
                true => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
                false => out.push(byte),
            }
        }
    }
}

/// Whether a replacement is a URL: what the config says at its front decides, as with nginx, so that no client chooses another host.
pub(crate) fn is_url(replacement: &Template) -> bool {
    match replacement.parts() {
        [Literal(text), ..] => text.starts_with("http://") || text.starts_with("https://"),
        [Value(TemplateValue::Scheme), Literal(text), ..] => text.starts_with("://"),
        _ => false,
    }
}

/// A target whose path has `.` or `..` in it: paths of requests are without, so text of a client has brought them, and they lead elsewhere than the
/// config says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DotSegments;

/// A path, with or without a query, as it may stand in a request line or a `Location`: it begins with exactly one slash, what is not allowed there is
/// percent-encoded, and there is no fragment.
///
/// # Errors
/// When it leads elsewhere than it says.
pub fn clean_path(raw: &[u8]) -> Result<Vec<u8>, DotSegments> {
    let begin = raw.iter().position(|byte| *byte != b'/').unwrap_or(raw.len());
    let mut out = clean(&raw[begin..]);
    out.insert(0, b'/');
    if has_dot_segments(&out) { Err(DotSegments) } else { Ok(out) }
}

/// Whether the path of a target has `.` or `..` between slashes, percent-encoded or not. Encoded slashes are none here: where a listener decodes them, the
/// target is looked at again ([`weir_http::RequestHead::replace_target`]).
fn has_dot_segments(target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if !path.windows(2).any(|two| two == b"/.") && !path.contains(&b'%') {
        return false;
    }
    let path = path.to_ascii_lowercase();
    let path = String::from_utf8_lossy(&path).replace("%2e", ".");
    path.split('/').any(|segment| segment == "." || segment == "..")
}

/// What is not allowed in a target is percent-encoded.
fn clean(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + 1);
    for (at, &byte) in raw.iter().enumerate() {
        let is_broken_percent =
            byte == b'%' && !raw.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
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
            TemplateValue::Scheme => out.extend_from_slice(b"http"),
            TemplateValue::Path => out.extend_from_slice(path.as_bytes()),
            TemplateValue::Query => out.extend_from_slice(format!("?{}", query.unwrap_or("")).as_bytes()),
            TemplateValue::Cookie(_) => out.extend_from_slice(b"\r\nX: 1 #?a&b+c"),
            TemplateValue::Header(name) if &**name == "y" => out.extend_from_slice(b"y?z&"),
            _ => out.extend_from_slice(b"\r\nX: 1 #/../"),
        };
        let target = rule.apply(path.as_bytes(), query.map(str::as_bytes), write);
        Some(String::from_utf8(target.unwrap_or_else(|DotSegments| Some(b"refused".into()))?).unwrap())
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
            ("^/go/(.*)$", "$1", "/go/http://evil.test/", None, Some("/http://evil.test/")),
            ("^/go/(.*)$", "$1", "/go/https://evil.test", Some("a"), Some("/https://evil.test?a")),
            ("^/go/(?<to>.*)$", "$to", "/go///evil.test", None, Some("/evil.test")),
            (
                "^/(.*)$",
                "https://{host}/$1",
                "/http://evil.test",
                None,
                Some("https://a.test/http://evil.test"),
            ),
            ("^/(.*)$", "/$1", "/x%3F", Some("a"), Some("/x%3F?a")),
            ("^/(.*)$", "/a b$$1/$1", "/%0d%0a%zz", None, Some("/a%20b$1/%0d%0a%25zz")),
            ("^/", "/{header.x}", "/x", None, Some("refused")),
            ("^/", "/{cookie.x}/{header.y}", "/x", Some("a"), Some("/%0D%0AX:%201%20%23%3Fa&b+c/y%3Fz&?a")),
            (
                "^/",
                "/z?x={cookie.x}{query}",
                "/x",
                Some("a&b=c?"),
                Some("/z?x=%0D%0AX:%201%20%23?a%26b%2Bc?a&b=c?"),
            ),
            ("^/img(.*)$", "/pictures/$1", "/img../secret", None, Some("refused")),
            ("^/img(.*)$", "/pictures/$1", "/img%2e%2E/secret", None, Some("refused")),
            ("^/img(.*)$", "/pictures/$1", "/img..%2fsecret", None, Some("/pictures/..%2fsecret")),
            ("^/img(.*)$", "/pictures$1", "/img/..a/.b/c..", None, Some("/pictures/..a/.b/c..")),
            (
                "^/(.*)$",
                "/show?name=$1&own=1",
                "/a&admin=1+2",
                Some("x=1"),
                Some("/show?name=a%26admin=1%2B2&own=1&x=1"),
            ),
        ] {
            let found = applied(&rule(pattern, replacement), path, query);
            assert_eq!(found.as_deref(), expected, "{pattern} -> {replacement}: {path}");
        }
    }

    proptest! {
        #[test]
        fn no_target_breaks_a_line_or_leads_to_another_host(raw: Vec<u8>) {
            if let Ok(target) = clean_path(&raw) {
                prop_assert!(target.iter().all(|byte| is_of_target(*byte)));
                prop_assert!(target.starts_with(b"/") && !target.starts_with(b"//"));
            }
        }

        #[test]
        fn no_client_chooses_the_host(
            replacement in r"(\$1|\{path\}|/\$1|\$1\{query\}|\{path\}\$1|https://a\.test/\$1|\{scheme\}://\{host\}/\$1\?)",
            path in r"/(https?:|/|\\|@|\.|[a-z%?])*",
        ) {
            let target = applied(&rule("^/(.*)$", &replacement), &path, Some("q")).unwrap();
            let is_of_config = target.starts_with("https://a.test/") || target.starts_with("http://a.test/");
            prop_assert!(is_of_config || target == "refused" || target.starts_with('/') && !target.starts_with("//"), "{target}");
        }
    }
}
