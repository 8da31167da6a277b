//! The URLs of `Location` and `Refresh` (nginx: `proxy_redirect`).

use regex_automata::meta::Regex;

use crate::regexes::{RuleError, compile_whole, find_groups};

/// What a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocationPattern {
    /// URLs that begin with this. Scheme and host match in either case, and a host matches whole.
    Prefix(Box<str>),
    /// URLs in which this regular expression matches.
    Regex(Box<str>),
    /// URLs of a server that the request may have gone to.
    Server,
}

/// The compiled rules of a list.
#[derive(Debug)]
pub struct LocationRules {
    patterns: Vec<LocationPattern>,
    regexes: Vec<Option<Regex>>,
}

impl PartialEq for LocationRules {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

/// What a rule has found in a URL.
#[derive(Debug, PartialEq, Eq)]
pub struct LocationMatch<'a> {
    /// The place of the rule.
    pub rule: usize,
    /// What stands before the match, and behind it.
    pub around: [&'a [u8]; 2],
    /// The groups of a regular expression; the first is the whole match.
    pub groups: Vec<&'a [u8]>,
}

impl LocationRules {
    /// Compiles rules.
    ///
    /// # Errors
    /// The place of the rule that cannot be had, and why.
    pub fn new(patterns: Vec<LocationPattern>) -> Result<Self, (usize, RuleError)> {
        let compiled = patterns.iter().enumerate().map(|(at, pattern)| match pattern {
            LocationPattern::Regex(regex) => {
                compile_whole(regex, false).map(Some).map_err(|error| (at, error))
            }
            LocationPattern::Prefix(text) if text.is_empty() => Err((at, RuleError::Empty)),
            LocationPattern::Prefix(_) | LocationPattern::Server => Ok(None),
        });
        let regexes = compiled.collect::<Result<_, _>>()?;
        Ok(Self { patterns, regexes })
    }

    /// How many groups a rule has, beside the whole match.
    pub fn group_count(&self, rule: usize) -> usize {
        self.regexes[rule].as_ref().map_or(0, |regex| regex.captures_len() - 1)
    }

    /// Whether a rule is for the servers of the request.
    pub fn is_of_server(&self, rule: usize) -> bool {
        self.patterns[rule] == LocationPattern::Server
    }

    /// The first rule that is for a URL. `is_server` says whether a host with its port, if that is written, is one of a server.
    pub fn find<'a>(&self, url: &'a [u8], is_server: impl Fn(&[u8]) -> bool) -> Option<LocationMatch<'a>> {
        self.patterns.iter().zip(&self.regexes).enumerate().find_map(|(rule, (pattern, regex))| {
            let (range, groups) = match (pattern, regex) {
                (LocationPattern::Prefix(prefix), _) => {
                    let len = begins_with(url, prefix.as_bytes())?;
                    (0..len, vec![&url[..len]])
                }
                (LocationPattern::Server, _) => {
                    let (start, end) = authority(url).filter(|(start, end)| is_server(&url[*start..*end]))?;
                    let _scheme = start;
                    (0..end, vec![&url[..end]])
                }
                (LocationPattern::Regex(_), regex) => find_groups(regex.as_ref()?, url)?,
            };
            Some(LocationMatch { rule, around: [&url[..range.start], &url[range.end..]], groups })
        })
    }
}

/// Where the host of a URL is, with its port; `None` for a path, and for other schemes.
fn authority(url: &[u8]) -> Option<(usize, usize)> {
    let start = ["http://", "https://", "//"].into_iter().find_map(|scheme| {
        url.get(..scheme.len())?.eq_ignore_ascii_case(scheme.as_bytes()).then_some(scheme.len())
    })?;
    let len = url[start..].iter().position(|byte| b"/?#\\".contains(byte));
    Some((start, len.map_or(url.len(), |len| start + len)))
}

/// The length of a prefix that a URL begins with.
fn begins_with(url: &[u8], prefix: &[u8]) -> Option<usize> {
    let found = url.get(..prefix.len())?;
    let Some((_, end)) = authority(prefix) else { return (found == prefix).then_some(prefix.len()) };
    let is_same = found[..end].eq_ignore_ascii_case(&prefix[..end]) && found[end..] == prefix[end..];
    // Not `http://a.test.evil` for `http://a.test`.
    let is_whole = end < prefix.len() || authority(url).is_some_and(|(_, end)| end == prefix.len());
    (is_same && is_whole).then_some(prefix.len())
}

/// Where the URL of a `Refresh` is: `5; url=http://...`.
pub fn url_of_refresh(value: &[u8]) -> Option<std::ops::Range<usize>> {
    let semicolon = value.iter().position(|byte| b";,".contains(byte))?;
    let blank = |at: usize| at + value[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let name = blank(semicolon + 1);
    if !value.get(name..name + 3)?.eq_ignore_ascii_case(b"url") {
        return None;
    }
    let equals = blank(name + 3);
    if value.get(equals) != Some(&b'=') {
        return None;
    }
    let start = blank(equals + 1);
    match value.get(start) {
        Some(quote @ (b'"' | b'\'')) => {
            let end = value[start + 1..].iter().position(|byte| byte == quote);
            Some(start + 1..end.map_or(value.len(), |end| start + 1 + end))
        }
        _ => Some(start..value.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(patterns: &[&str], url: &str) -> Option<String> {
        let patterns = patterns.iter().map(|pattern| match pattern.strip_prefix('~') {
            Some(regex) => LocationPattern::Regex(regex.into()),
            None if *pattern == "server" => LocationPattern::Server,
            None => LocationPattern::Prefix((*pattern).into()),
        });
        let rules = LocationRules::new(patterns.collect()).unwrap();
        let found = rules.find(url.as_bytes(), |host| host.eq_ignore_ascii_case(b"app.internal:8080"))?;
        let [before, behind] = found.around.map(|text| String::from_utf8_lossy(text).into_owned());
        let last = String::from_utf8_lossy(found.groups.last().unwrap()).into_owned();
        Some(format!("{before}<{}:{last}>{behind}", found.rule))
    }

    #[test]
    fn the_first_rule_that_is_for_a_url_counts() {
        for (patterns, url, expected) in [
            (&["http://a.test"][..], "http://a.test/x", Some("<0:http://a.test>/x")),
            (&["http://a.test"], "HTTP://A.test", Some("<0:HTTP://A.test>")),
            (&["http://a.test"], "http://a.test?q", Some("<0:http://a.test>?q")),
            (&["http://a.test"], "http://a.test.evil/", None),
            (&["http://a.test"], "http://a.test:81/", None),
            (&["http://a.test"], "http://a.test\\@evil/", Some("<0:http://a.test>\\@evil/")),
            (&["http://a.test/b"], "http://a.test/bc", Some("<0:http://a.test/b>c")),
            (&["http://a.test/b"], "http://a.test/B", None),
            (&["/two/"], "/two/x", Some("<0:/two/>x")),
            (&["/two/"], "/one/two/", None),
            (&["/x", "/"], "/y", Some("<1:/>y")),
            (&["server"], "http://app.internal:8080/x", Some("<0:http://app.internal:8080>/x")),
            (&["server"], "//App.internal:8080", Some("<0://App.internal:8080>")),
            (&["server"], "http://app.internal:8080.evil/", None),
            (&["server"], "http://app.internal/", None),
            (&["server"], "/x", None),
            (&["~^http://([a-z]+)\\.internal/"], "http://b.internal/x", Some("<0:b>x")),
            (&["~b(c)?"], "abd", Some("a<0:>d")),
        ] {
            assert_eq!(rewritten(patterns, url).as_deref(), expected, "{patterns:?} {url}");
        }
        assert!(LocationRules::new(vec![LocationPattern::Regex("(".into())]).is_err());
        assert!(LocationRules::new(vec![LocationPattern::Prefix("".into())]).is_err());
    }

    #[test]
    fn the_url_of_a_refresh_is_found() {
        for (value, expected) in [
            ("5; url=http://a.test/", Some("http://a.test/")),
            ("5;URL = /x", Some("/x")),
            ("0, url='http://a/'; x", Some("http://a/")),
            ("0; url=\"/x", Some("/x")),
            ("5", None),
            ("5; other", None),
            ("5; url", None),
            ("5;", None),
        ] {
            let url = url_of_refresh(value.as_bytes()).map(|range| &value[range]);
            assert_eq!(url, expected, "{value}");
        }
    }
}
