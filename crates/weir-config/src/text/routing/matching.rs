//! The conditions of a route in the text: hosts, paths, methods, headers, parameters.

use weir_traffic::route::{HostPattern, MethodMatch, PathMatch, ValueMatch};

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{
    Bounds, ConfigSection, ConfigValue, TextFormat, TreeReader, ValueKind, section, text_values,
};
use crate::source::{Tree, TreeNode};
use crate::value::{ValueError, ascii_help};

/// `path`: a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathPrefix(pub(crate) Box<str>);

/// `path_begins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathBeginning(pub(crate) Box<str>);

/// `path_exact`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExactPath(pub(crate) Box<str>);

/// A regular expression that compiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegexPattern(pub(crate) weir_traffic::route::RouteRegex);

text_values! {
    HostPattern, parse_host, |value: &HostPattern| value.to_string(), TextFormat {
        name: "host pattern",
        article: "a host",
        examples: &["example.com", "*.example.com", "[2001:db8::1]", "*"],
        pattern: r"^(\*|(\*\.)?[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])$",
        about: "`example.com` is this host alone, `*.example.com` every host below it at any depth but not `example.com` itself, `*` any \
                host. No port; case-insensitive.",
    };
    PathPrefix, |text| parse_path(text, PathMatch::prefix).map(PathPrefix), |value: &PathPrefix| value.0.clone(), TextFormat {
        name: "path prefix",
        article: "a path",
        examples: &["/api", "/api/", "/"],
        pattern: r"^/[!-~]*$",
        about: "`/api` is this path and everything below it (`/api/x`, not `/apix`); `/api/` only what is below it. Compared byte for \
                byte with what the client sent: nothing is decoded.",
    };
    PathBeginning, |text| parse_path(text, PathMatch::beginning).map(PathBeginning), |value: &PathBeginning| value.0.clone(), TextFormat {
        name: "beginning of a path",
        article: "a path",
        examples: &["/api", "/static/v"],
        pattern: r"^/[!-~]*$",
        about: "`/api` is every path whose text begins so: `/api`, `/api/x`, and `/apix` as well. Compared byte for byte with what the client sent: \
                nothing is decoded.",
    };
    ExactPath, |text| parse_path(text, PathMatch::exact).map(ExactPath), |value: &ExactPath| value.0.clone(), TextFormat {
        name: "path",
        article: "a path",
        examples: &["/favicon.ico"],
        pattern: r"^/[!-~]*$",
        about: "A path without its query, as clients send it: percent-encoded.",
    };
    RegexPattern, parse_pattern, |value: &RegexPattern| value.0.as_str().to_owned(), TextFormat {
        name: "regular expression",
        article: "a regular expression",
        examples: &["^/users/[0-9]+$", r"\.(css|js|png)$"],
        pattern: "",
        about: "In the syntax of Rust's `regex` crate: no look-around, linear time. It is found anywhere; `^` and `$` tie it to the ends. \
                It works on bytes: `\\d` and the like are ASCII. Literal strings (`'...'`) spare doubled backslashes.",
    };
    MethodMatch, parse_method, |value: &MethodMatch| value.as_str().to_owned(), TextFormat {
        name: "method",
        article: "a method",
        examples: &["GET"],
        pattern: r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        about: "A request method such as `GET`.",
    };
}

fn parse_host(text: &str) -> Result<HostPattern, ValueError> {
    HostPattern::parse(text).map_err(|error| {
        ValueError::new(format!("`{text}` is not a host: {error}")).help_if(ascii_help(text))
    })
}

fn parse_method(text: &str) -> Result<MethodMatch, ValueError> {
    MethodMatch::parse(text).map_err(|error| ValueError::new(format!("`{text}`: {error}")))
}

fn parse_path<E: std::fmt::Display>(
    text: &str,
    check: impl FnOnce(&str) -> Result<PathMatch, E>,
) -> Result<Box<str>, ValueError> {
    match check(text) {
        Ok(_) => Ok(text.into()),
        Err(error) if text.contains('*') && !text.starts_with('/') => {
            Err(ValueError::new(format!("`{text}`: {error}"))
                .help("a path has no wildcards: write a prefix, or use `path_regex`"))
        }
        Err(error) => Err(ValueError::new(format!("`{text}`: {error}"))),
    }
}

/// Checks a regular expression; an error has the bytes that it is in.
fn parse_pattern(text: &str) -> Result<RegexPattern, ValueError> {
    let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
    if let Err(error) = parser.parse(text) {
        let (message, span) = match &error {
            regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(*error.span())),
            regex_syntax::Error::Translate(error) => (error.kind().to_string(), Some(*error.span())),
            _ => (error.to_string(), None),
        };
        let error = ValueError::new(format!("not a regular expression: {message}"));
        let error = if message.contains("look-around") {
            error.help(
                "look-around is not supported; split the rule into several routes, the most specific wins",
            )
        } else {
            error
        };
        return Err(match span {
            Some(span) => error.range(span.start.offset..span.end.offset),
            None => error,
        });
    }
    match ValueMatch::regex(text) {
        Ok(ValueMatch::Regex(pattern)) => Ok(RegexPattern(pattern)),
        _ => Err(ValueError::new("the regular expression is too large").help("make its repetitions smaller")),
    }
}

/// A rule on the value of a header or a query parameter.
#[derive(Debug, Clone)]
pub(crate) enum ValueRule {
    /// Exactly this value.
    Exact(Box<str>),
    /// There is one, or there is none.
    Present(bool),
    /// Beginning with this.
    Prefix(Box<str>),
    /// Matching this.
    Pattern(RegexPattern),
}

section! {
    /// A rule on the value of a header or a query parameter; exactly one of the keys. Of several headers or parameters with one name, the
    /// first counts. `"text"` is short for the exact value; `true` matches any value, `false` the absence.
    #[derive(Debug, Clone)]
    pub(crate) struct ValueRuleTable at "rule" {
        /// The value begins with this.
        prefix: Box<str> = optional;
        /// The value contains a match.
        regex: RegexPattern = optional;
    }
}

impl ConfigValue for ValueRule {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![Box::<str>::kind(bounds), ValueKind::Boolean, ValueRuleTable::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Text(text) => Some(Self::Exact(text.value.as_str().into())),
            Tree::Bool(present) => Some(Self::Present(*present)),
            Tree::Table(_) => match ValueRuleTable::read(node, bounds, reader)? {
                ValueRuleTable { prefix: Some(prefix), regex: None } => Some(Self::Prefix(prefix)),
                ValueRuleTable { prefix: None, regex: Some(regex) } => Some(Self::Pattern(regex)),
                ValueRuleTable { prefix: Some(_), regex: Some(_) } => {
                    reader.report(Diagnostic::new(
                        DiagnosticKind::Conflict,
                        node.span,
                        "a rule has one of `prefix` and `regex`",
                    ));
                    None
                }
                // An empty table; a wrong value has been reported already.
                _ => {
                    if matches!(&node.tree, Tree::Table(table) if table.entries.is_empty()) {
                        let message = "the rule is empty";
                        let help = "write `prefix = ...` or `regex = ...`, or `true` for any value";
                        reader.report(
                            Diagnostic::new(DiagnosticKind::MissingKey, node.span, message).help(help),
                        );
                    }
                    None
                }
            },
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Exact(text) => text.write(),
            Self::Present(present) => present.write(),
            Self::Prefix(prefix) => ValueRuleTable { prefix: Some(prefix.clone()), regex: None }.inline(),
            Self::Pattern(pattern) => ValueRuleTable { prefix: None, regex: Some(pattern.clone()) }.inline(),
        }
    }
}

impl ValueRule {
    /// The rule as routes know it.
    pub(crate) fn to_match(&self) -> ValueMatch {
        match self {
            Self::Exact(text) => ValueMatch::exact(text),
            Self::Present(true) => ValueMatch::Present,
            Self::Present(false) => ValueMatch::Absent,
            Self::Prefix(prefix) => ValueMatch::prefix(prefix),
            Self::Pattern(pattern) => ValueMatch::Regex(pattern.0.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_in_a_regular_expression_is_pointed_at() {
        let cases = [
            ("^/a(b$", 3..4, "not a regular expression: unclosed group"),
            ("/x[0-", 2..3, "not a regular expression: unclosed character class"),
            (
                "a{3,1}",
                1..6,
                "not a regular expression: invalid repetition count range, the start must be <= the end",
            ),
        ];
        for (text, range, message) in cases {
            let error = parse_pattern(text).unwrap_err();
            assert_eq!((error.message.as_str(), error.range), (message, Some(range)), "{text}");
        }
        assert!(parse_pattern("(a{1000}){1000}").unwrap_err().message.contains("too large"));
        assert!(parse_pattern("^(?!x)").unwrap_err().help.unwrap().contains("not supported"));
    }
}
