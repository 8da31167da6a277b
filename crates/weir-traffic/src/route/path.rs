//! Path rules: any path, a prefix, an exact path or a regular expression.
//!
//! Matched byte by byte against the normal form of a path, which the caller brings.

use std::fmt;

use super::pattern::RouteRegex;

/// Which paths a route takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMatch(PathKind);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathKind {
    Any,
    Prefix(Box<str>),
    /// A prefix that need not end where a segment does: `/api` is one of `/apix`.
    Beginning(Box<str>),
    Exact(Box<str>),
    Regex(RouteRegex),
}

/// Why a text is not a path rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with a slash, so no path could match it.
    #[error("a path begins with `/`")]
    NoSlash,
    /// It has a character that a path cannot contain; percent-encode it as clients do.
    #[error("a path cannot contain {0:?}; write it percent-encoded, as clients send it")]
    BadCharacter(char),
    /// The regular expression is malformed or too large; the text says where.
    #[error("{0}")]
    BadRegex(String),
}

impl PathMatch {
    /// Every path, also the `*` of OPTIONS.
    pub const ANY: PathMatch = PathMatch(PathKind::Any);

    /// `/api` matches `/api` and everything below it (`/api/x`), not `/apix`; `/api/` matches only what is
    /// below.
    ///
    /// # Errors
    /// [`PathError::NoSlash`], [`PathError::BadCharacter`].
    pub fn prefix(text: &str) -> Result<PathMatch, PathError> {
        check_path(text)?;
        Ok(PathMatch(PathKind::Prefix(text.into())))
    }

    /// Every path whose text begins so: `/api` matches `/api`, `/api/x` and `/apix`, as nginx's `location /api` does.
    ///
    /// # Errors
    /// [`PathError::NoSlash`], [`PathError::BadCharacter`].
    pub fn beginning(text: &str) -> Result<PathMatch, PathError> {
        // Behind a slash a segment begins anyway.
        if text.ends_with('/') {
            return PathMatch::prefix(text);
        }
        check_path(text)?;
        Ok(PathMatch(PathKind::Beginning(text.into())))
    }

    /// This path and no other.
    ///
    /// # Errors
    /// [`PathError::NoSlash`], [`PathError::BadCharacter`].
    pub fn exact(text: &str) -> Result<PathMatch, PathError> {
        check_path(text)?;
        Ok(PathMatch(PathKind::Exact(text.into())))
    }

    /// Every path in which the regular expression is found; `^` and `$` tie it to the ends. It works on
    /// bytes: `\d`, `\w` and the like are ASCII.
    ///
    /// # Errors
    /// [`PathError::BadRegex`].
    pub fn regex(text: &str) -> Result<PathMatch, PathError> {
        let pattern = RouteRegex::build(text).map_err(|error| PathError::BadRegex(error.to_string()))?;
        Ok(PathMatch(PathKind::Regex(pattern)))
    }

    /// Every path in which `pattern` is found.
    pub fn of_pattern(pattern: RouteRegex) -> PathMatch {
        PathMatch(PathKind::Regex(pattern))
    }

    /// Whether `path` is one of these.
    pub fn matches(&self, path: &[u8]) -> bool {
        match &self.0 {
            PathKind::Any => true,
            PathKind::Prefix(prefix) => has_prefix(path, prefix.as_bytes()),
            PathKind::Beginning(beginning) => path.starts_with(beginning.as_bytes()),
            PathKind::Exact(exact) => path == exact.as_bytes(),
            PathKind::Regex(pattern) => pattern.is_match(path),
        }
    }

    /// What the group of this number or name of a regular expression has matched in `path`, if it was built with groups.
    pub fn group<'a>(&self, path: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let PathKind::Regex(pattern) = &self.0 else { return None };
        let captures = pattern.captures(path)?;
        let group = match name.parse() {
            Ok(number) => captures.get(number),
            Err(_) => captures.name(name),
        };
        group.map(|group| group.as_bytes())
    }

    /// The common part of all of these paths, for grouping requests: `/api/*`; `None` when there is none.
    pub fn template(&self) -> Option<String> {
        match &self.0 {
            PathKind::Any => None,
            PathKind::Prefix(prefix) => Some(format!("{}/*", prefix.trim_end_matches('/'))),
            PathKind::Beginning(beginning) => Some(format!("{beginning}*")),
            PathKind::Exact(exact) => Some(exact.to_string()),
            PathKind::Regex(pattern) => Some(pattern.to_string()),
        }
    }

    pub(super) fn kind(&self) -> &PathKind {
        &self.0
    }
}

impl Default for PathMatch {
    fn default() -> PathMatch {
        PathMatch::ANY
    }
}

impl fmt::Display for PathMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PathKind::Any => f.write_str("any path"),
            PathKind::Prefix(prefix) => write!(f, "prefix {prefix}"),
            PathKind::Beginning(beginning) => write!(f, "beginning {beginning}"),
            PathKind::Exact(exact) => write!(f, "exactly {exact}"),
            PathKind::Regex(pattern) => write!(f, "regex {pattern}"),
        }
    }
}

/// Whether `path` is `prefix` or below it.
pub(crate) fn has_prefix(path: &[u8], prefix: &[u8]) -> bool {
    match path.strip_prefix(prefix) {
        None => false,
        Some(rest) => rest.is_empty() || rest[0] == b'/' || prefix.ends_with(b"/"),
    }
}

/// Whether a path of a rule can be met by a request at all.
pub(crate) fn check_path(text: &str) -> Result<(), PathError> {
    if !text.starts_with('/') {
        return Err(PathError::NoSlash);
    }
    match text.chars().find(|&c| !c.is_ascii_graphic() || matches!(c, '?' | '#')) {
        Some(bad) => Err(PathError::BadCharacter(bad)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_byte_by_byte() {
        let prefix = |text| PathMatch::prefix(text).unwrap();
        let beginning = |text| PathMatch::beginning(text).unwrap();
        let exact = |text| PathMatch::exact(text).unwrap();
        let regex = |text| PathMatch::regex(text).unwrap();
        for (rule, path, expected) in [
            (PathMatch::ANY, "*", true),
            (prefix("/"), "/", true),
            (prefix("/"), "/x", true),
            (prefix("/"), "*", false),
            (prefix("/api"), "/api", true),
            (prefix("/api"), "/api/", true),
            (prefix("/api"), "/api/x", true),
            (prefix("/api"), "/apix", false),
            (prefix("/api"), "/API", false),
            (prefix("/api/"), "/api", false),
            (prefix("/api/"), "/api/", true),
            (prefix("/api/"), "/api/x", true),
            (prefix("/api"), "/x/../api", false),
            (prefix("/api"), "/%61pi", false),
            (prefix("/api"), "//api", false),
            (beginning("/api"), "/api", true),
            (beginning("/api"), "/api/x", true),
            (beginning("/api"), "/apix", true),
            (beginning("/api"), "/ap", false),
            (beginning("/api"), "/x/api", false),
            (beginning("/api/"), "/apix", false),
            (exact("/a"), "/a", true),
            (exact("/a"), "/a/", false),
            (regex(r"\.png$"), "/x.png", true),
            (regex(r"\.png$"), "/x.pngs", false),
            (regex(r"^/\d+$"), "/12", true),
            (regex("b"), "/abc", true),
        ] {
            assert_eq!(rule.matches(path.as_bytes()), expected, "{rule}: {path}");
        }
    }

    #[test]
    fn rules_that_cannot_match_are_refused() {
        for (text, error) in [
            ("", PathError::NoSlash),
            ("api", PathError::NoSlash),
            ("/a b", PathError::BadCharacter(' ')),
            ("/a?b", PathError::BadCharacter('?')),
            ("/a#b", PathError::BadCharacter('#')),
            ("/é", PathError::BadCharacter('é')),
        ] {
            assert_eq!(PathMatch::prefix(text), Err(error.clone()), "{text:?}");
            assert_eq!(PathMatch::exact(text), Err(error), "{text:?}");
        }
        assert!(matches!(PathMatch::regex("("), Err(PathError::BadRegex(_))));
        assert!(matches!(PathMatch::regex("(a{1000}){1000}"), Err(PathError::BadRegex(_))));
    }
}
