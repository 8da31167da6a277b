//! Rewriting the path of a request before it is forwarded.
//!
//! Works on the raw bytes and never decodes. The query is kept. The result always begins with a slash. It may
//! begin with two, when the request did so after the stripped prefix: a caller that puts it into a `Location` must
//! write a full URL.

use crate::route::{PathError, RouteRegex, check_path, has_prefix};

/// How a path is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite(RewriteKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum RewriteKind {
    Prefix { from: Box<[u8]>, to: Box<[u8]>, is_beginning: bool },
    Regex { pattern: RouteRegex, replacement: Box<[u8]> },
}

/// Why a rewrite cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The prefix, or what replaces it, is not a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The replacement has a character that a path or query cannot contain.
    #[error("a replacement cannot contain {0:?}")]
    BadCharacter(char),
    /// The replacement names a group that the regular expression does not have.
    #[error("the replacement names the group {0:?}, which the regular expression does not have")]
    NoSuchGroup(String),
}

impl Rewrite {
    /// Whether a regular expression decides what the path becomes.
    pub const fn is_by_regex(&self) -> bool {
        matches!(self.0, RewriteKind::Regex { .. })
    }

    /// Removes `prefix`: with `/api`, `/api/x` becomes `/x` and `/api` becomes `/`. Other paths, also
    /// `/apix`, stay as they are.
    ///
    /// # Errors
    /// When `prefix` is not a path.
    pub fn strip_prefix(prefix: &str) -> Result<Rewrite, RewriteError> {
        Rewrite::replace_prefix(prefix, "/")
    }

    /// Puts `to` in the place of `prefix`, with exactly one slash where they meet: with `/api` and `/v2` or
    /// `/v2/`, `/api/x` becomes `/v2/x` (as `ReplacePrefixMatch` of the Gateway API). Other paths stay as
    /// they are.
    ///
    /// # Errors
    /// When either is not a path.
    pub fn replace_prefix(prefix: &str, to: &str) -> Result<Rewrite, RewriteError> {
        check_path(prefix)?;
        check_path(to)?;
        Ok(Rewrite(RewriteKind::Prefix {
            from: prefix.as_bytes().into(),
            to: to.as_bytes().into(),
            is_beginning: false,
        }))
    }

    /// The same of every path whose text begins with `beginning`: with `/api` and `/v2`, `/apix` becomes `/v2x`, and `/api/x` becomes `/v2/x`.
    ///
    /// # Errors
    /// When either is not a path.
    pub fn replace_beginning(beginning: &str, to: &str) -> Result<Rewrite, RewriteError> {
        check_path(beginning)?;
        check_path(to)?;
        Ok(Rewrite(RewriteKind::Prefix {
            from: beginning.as_bytes().into(),
            to: to.as_bytes().into(),
            is_beginning: true,
        }))
    }

    /// Replaces the first match of `pattern` by `replacement`, in which `$1`, `${1}` and `${name}` mean
    /// groups and `$$` a dollar. A `?` in the replacement begins a query, which the request's own query
    /// is added to.
    ///
    /// # Errors
    /// When `pattern` is malformed, or `replacement` names a group that is not there or has a character that is invalid in a
    /// request line.
    pub fn regex(pattern: &str, replacement: &str) -> Result<Rewrite, RewriteError> {
        let pattern =
            RouteRegex::build_with_groups(pattern).map_err(|error| PathError::BadRegex(error.to_string()))?;
        Rewrite::of_pattern(pattern, replacement)
    }

    /// The same of a regular expression that is compiled, with its groups.
    ///
    /// # Errors
    /// When `replacement` names a group that is not there or has a character that is invalid in a request line.
    pub fn of_pattern(pattern: RouteRegex, replacement: &str) -> Result<Rewrite, RewriteError> {
        if let Some(bad) = replacement.chars().find(|&c| !c.is_ascii_graphic() || c == '#') {
            return Err(RewriteError::BadCharacter(bad));
        }
        check_groups(&pattern, replacement)?;
        Ok(Rewrite(RewriteKind::Regex { pattern, replacement: replacement.as_bytes().into() }))
    }

    /// Appends the rewritten path and query to `out`, with a `?` between them if there is a query. Returns
    /// whether anything was changed.
    pub fn apply(&self, path: &[u8], query: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let changed = match &self.0 {
            RewriteKind::Prefix { from, to, is_beginning: false } => replace_prefix(path, from, to, out),
            RewriteKind::Prefix { from, to, is_beginning: true } => replace_beginning(path, from, to, out),
            RewriteKind::Regex { pattern, replacement } => replace_match(path, pattern, replacement, out),
        };
        if !changed {
            out.extend_from_slice(path);
        }
        if out.get(start) != Some(&b'/') {
            out.insert(start, b'/');
        }
        if let Some(query) = query {
            let has_query = out[start..].contains(&b'?');
            out.push(if has_query { b'&' } else { b'?' });
            out.extend_from_slice(query);
        }
        changed
    }

    /// The path of a client that [`Self::apply`] makes this one, where that is known: a prefix is put back. `None`: it is not.
    pub fn undo(&self, path: &[u8]) -> Option<Vec<u8>> {
        let RewriteKind::Prefix { from, to, .. } = &self.0 else { return None };
        let mut out = Vec::new();
        replace_prefix(path, to, from, &mut out).then_some(out)
    }

    /// Whether `path` is the prefix that is replaced and no slash follows: what is below it begins with one.
    pub fn takes_whole(&self, path: &[u8]) -> bool {
        match &self.0 {
            RewriteKind::Prefix { from, .. } => from.strip_suffix(b"/").unwrap_or(from) == path,
            RewriteKind::Regex { .. } => false,
        }
    }
}

fn replace_prefix(path: &[u8], from: &[u8], to: &[u8], out: &mut Vec<u8>) -> bool {
    if !has_prefix(path, from) {
        return false;
    }
    // The slash where they meet may come from any of the three; it is written once.
    let from_stem = from.strip_suffix(b"/").unwrap_or(from);
    let to_stem = to.strip_suffix(b"/").unwrap_or(to);
    let rest = &path[from_stem.len()..];
    out.extend_from_slice(to_stem);
    match rest {
        [] => out.extend_from_slice(&to[to_stem.len()..]),
        rest => out.extend_from_slice(rest),
    }
    true
}

/// As [`replace_prefix`], where what follows begins a segment; else the text behind `from` stands right behind `to`.
fn replace_beginning(path: &[u8], from: &[u8], to: &[u8], out: &mut Vec<u8>) -> bool {
    match path.strip_prefix(from) {
        None => false,
        Some([] | [b'/', ..]) => replace_prefix(path, from, to, out),
        Some(rest) => {
            out.extend_from_slice(to);
            out.extend_from_slice(rest);
            true
        }
    }
}

fn replace_match(path: &[u8], pattern: &RouteRegex, replacement: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(groups) = pattern.captures(path) else { return false };
    let whole = groups.get(0).expect("group 0 is the match itself");
    out.extend_from_slice(&path[..whole.start()]);
    groups.expand(replacement, out);
    out.extend_from_slice(&path[whole.end()..]);
    true
}

/// An unknown group would silently be replaced by nothing.
fn check_groups(pattern: &RouteRegex, replacement: &str) -> Result<(), RewriteError> {
    let mut rest = replacement;
    while let Some((_, after)) = rest.split_once('$') {
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        }
        let name = match rest.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, _)) => name,
            None => {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                &rest[..end]
            }
        };
        if !pattern.has_group(name) {
            return Err(RewriteError::NoSuchGroup(name.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(rewrite: &Rewrite, path: &str, query: Option<&str>) -> (String, bool) {
        let mut out = b"GET ".to_vec();
        let changed = rewrite.apply(path.as_bytes(), query.map(str::as_bytes), &mut out);
        (String::from_utf8(out).unwrap().strip_prefix("GET ").unwrap().to_owned(), changed)
    }

    #[test]
    fn prefixes_are_replaced() {
        // The table of the Gateway API for ReplacePrefixMatch, and cases that it leaves open.
        for (path, prefix, to, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "/", "/bar"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/foo", "/foo", "/xyz/", "/xyz/"),
            ("/foo/", "/foo/", "/xyz", "/xyz/"),
            ("/foobar", "/foo", "/xyz", "/foobar"),
            ("/foo", "/foo/", "/xyz", "/foo"),
            ("/foo//bar", "/foo", "/xyz", "/xyz//bar"),
            ("/foo/%2e%2e/bar", "/foo", "/xyz", "/xyz/%2e%2e/bar"),
            ("/bar", "/", "/xyz", "/xyz/bar"),
            ("/", "/", "/xyz", "/xyz/"),
        ] {
            let rewrite = Rewrite::replace_prefix(prefix, to).unwrap();
            let (result, changed) = applied(&rewrite, path, None);
            assert_eq!(result, expected, "{path}: {prefix} -> {to}");
            assert_eq!(changed, has_prefix(path.as_bytes(), prefix.as_bytes()), "{path}: {prefix} -> {to}");
            assert_eq!(
                rewrite.takes_whole(path.as_bytes()),
                path == prefix.trim_end_matches('/'),
                "{path}: {prefix}"
            );
            let with_query = applied(&rewrite, path, Some("a=1")).0;
            assert_eq!(with_query, format!("{expected}?a=1"));
        }
    }

    #[test]
    fn beginnings_are_replaced() {
        for (beginning, to, path, expected) in [
            ("/api", "/v2", "/api", "/v2"),
            ("/api", "/v2", "/api/x", "/v2/x"),
            ("/api", "/v2", "/apix", "/v2x"),
            ("/api", "/v2/", "/api/x", "/v2/x"),
            ("/api", "/v2/", "/apix/y", "/v2/x/y"),
            ("/api", "/", "/apix", "/x"),
            ("/api", "/", "/api", "/"),
            ("/api", "/", "/ap", "/ap"),
        ] {
            let rewrite = Rewrite::replace_beginning(beginning, to).unwrap();
            assert_eq!(applied(&rewrite, path, None).0, expected, "{beginning} -> {to}: {path}");
        }
    }

    #[test]
    fn matches_are_replaced() {
        for (pattern, replacement, path, query, expected) in [
            (r"^/user/(\d+)$", "/u/$1", "/user/7", None, "/u/7"),
            (r"^/user/(\d+)$", "/u/$1", "/user/x", Some("q"), "/user/x?q"),
            (r"^/(?<year>\d+)/", "/y${year}m/", "/2024/x", Some(""), "/y2024m/x?"),
            (r"^/item/(\d+)$", "/show?id=$1", "/item/7", None, "/show?id=7"),
            (r"^/item/(\d+)$", "/show?id=$1", "/item/7", Some("a=1"), "/show?id=7&a=1"),
            (r"\.php$", "", "/x.php", None, "/x"),
            (r"a", "b", "/aa", None, "/ba"),
            (r"^/", "", "/x", None, "/x"),
            (r"^.*$", "", "/x", None, "/"),
            (r"x", "$$1", "/x", None, "/$1"),
        ] {
            let rewrite = Rewrite::regex(pattern, replacement).unwrap();
            assert_eq!(applied(&rewrite, path, query).0, expected, "{pattern} -> {replacement}: {path}");
        }
    }

    #[test]
    fn rewrites_that_cannot_work_are_refused() {
        let group = |name: &str| Some(RewriteError::NoSuchGroup(name.to_owned()));
        for (pattern, replacement, error) in [
            ("(a)", "$2", group("2")),
            ("(a)", "$1x", group("1x")),
            ("(a)", "${b}", group("b")),
            ("(a)", "$", group("")),
            ("(a)", "$$2", None),
            ("(a)", "${1}x", None),
            ("(a)", "/ x", Some(RewriteError::BadCharacter(' '))),
            ("(a)", "/\r\nx", Some(RewriteError::BadCharacter('\r'))),
            ("(a)", "/#x", Some(RewriteError::BadCharacter('#'))),
        ] {
            assert_eq!(Rewrite::regex(pattern, replacement).err(), error, "{pattern} -> {replacement:?}");
        }
        assert!(matches!(Rewrite::regex("(", "/"), Err(RewriteError::Path(PathError::BadRegex(_)))));
        assert!(Rewrite::strip_prefix("api").is_err() && Rewrite::replace_prefix("/a", "b").is_err());
    }
}
