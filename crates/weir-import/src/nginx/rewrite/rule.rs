//! `rewrite`: a pattern, what the path becomes, and what follows.

use super::{NginxTest, NginxWay};
use crate::document::TomlValue;
use crate::nginx::regexes::{NginxPattern, PatternSubject, encoded, escaped};
use crate::nginx::scope::{NginxPlace, NginxVariable, Scope};
use crate::nginx::variables;
use crate::source::Statement;

/// A `rewrite`.
#[derive(Clone)]
pub(in crate::nginx) struct NginxRewrite<'s> {
    pub(in crate::nginx) pattern: NginxPattern,
    /// With `$1` and Weir's placeholders.
    pub(in crate::nginx) replacement: String,
    flag: &'static str,
    pub(in crate::nginx) end: RewriteEnd,
    pub(in crate::nginx) statement: &'s Statement,
}

/// What follows a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nginx) enum RewriteEnd {
    /// `last` and redirects: the request leaves.
    Leave,
    /// `break`: it stays, with the new path.
    Stay,
    /// The statements that follow.
    Continue,
}

impl<'s> NginxRewrite<'s> {
    /// # Errors
    /// What to do instead.
    pub(super) fn read(scope: &Scope<'s>, statement: &'s Statement) -> Result<Self, String> {
        let mut words = scope.words(statement);
        let (Some(pattern), Some(replacement)) = (words.text(), words.text()) else {
            return Err("`rewrite` takes a regular expression and a replacement".to_owned());
        };
        let flag = words.text().unwrap_or_default();
        let pattern = NginxPattern::new(pattern, false, PatternSubject::Path)?;
        let is_url = ["http://", "https://", "$scheme"].iter().any(|begin| replacement.starts_with(begin));
        let (flag, end) = match flag {
            "permanent" => ("permanent", RewriteEnd::Leave),
            "redirect" => ("redirect", RewriteEnd::Leave),
            _ if is_url => ("redirect", RewriteEnd::Leave),
            "last" => ("last", RewriteEnd::Leave),
            "break" => ("break", RewriteEnd::Stay),
            "" => ("continue", RewriteEnd::Continue),
            other => return Err(format!("`rewrite` has no flag `{other}`")),
        };
        let mut inner = scope.clone();
        for group in 1..=9_usize {
            let text = if group <= pattern.groups() { format!("$${{{group}}}") } else { String::new() };
            inner.define(&group.to_string(), NginxVariable::Text(text));
        }
        for name in pattern.group_names() {
            inner.define(&name, NginxVariable::Text(format!("$${{{name}}}")));
        }
        let text = variables::template(&inner, replacement).map_err(|unknown| unknown.advice)?;
        let replacement = without_braces(&text);
        let replacement = if replacement.starts_with('/') || is_url || replacement.starts_with('$') {
            replacement
        } else {
            format!("/{replacement}")
        };
        Ok(NginxRewrite { pattern, replacement, flag, end, statement })
    }

    /// The same for paths of which the conditions beside the pattern are known.
    pub(super) fn alone(self) -> Self {
        let pattern = NginxPattern { beside: Vec::new(), ..self.pattern };
        NginxRewrite { pattern, ..self }
    }

    /// As an entry of `rewrite`.
    pub(in crate::nginx) fn to_value(&self) -> TomlValue {
        let mut entries = vec![
            ("pattern".to_owned(), TomlValue::from(self.pattern.text.as_str())),
            ("replacement".to_owned(), TomlValue::from(self.replacement.as_str())),
        ];
        if self.flag != "continue" {
            entries.push(("flag".to_owned(), self.flag.into()));
        }
        TomlValue::Inline(entries)
    }

    /// A redirect of every path as the target of `redirect`, with its status.
    pub(in crate::nginx) fn redirect(&self) -> Option<(String, i64)> {
        let status = match self.flag {
            "permanent" => 301,
            "redirect" => 302,
            _ => return None,
        };
        if !self.pattern.matches_all() {
            return None;
        }
        let text = &self.pattern.text;
        let mut to = self.replacement.clone();
        if text.contains("^/(") || text.starts_with("/(") {
            to = to.replace("/$1", "{path}");
        } else if text.contains('(') {
            to = to.replace("$1", "{path}");
        }
        if to.contains("$1") {
            return None;
        }
        let to = match to.strip_suffix('?') {
            Some(whole) => whole.to_owned(),
            None if ["{query}", "{args}", "{target}"].iter().any(|name| to.contains(name)) => to,
            None if to.contains('?') => format!("{to}&{{args}}"),
            None => format!("{to}{{query}}"),
        };
        Some((to, status))
    }

    /// Whether clients are redirected.
    pub(in crate::nginx) fn is_redirect(&self) -> bool {
        matches!(self.flag, "permanent" | "redirect")
    }

    /// Whether the query is another one behind it.
    pub(super) fn changes_query(&self) -> bool {
        self.replacement.contains('?')
    }

    /// As an entry of `rewrite` of a route in front of all locations, where `break` and `last` are the same: the location is searched for next.
    pub(in crate::nginx) fn in_front(&self) -> TomlValue {
        let flag = if self.end == RewriteEnd::Stay { "last" } else { self.flag };
        NginxRewrite { flag, ..self.clone() }.to_value()
    }

    /// Whether it matches every path of a place, so that nothing is left for what follows.
    pub(super) fn covers(&self, place: &NginxPlace) -> bool {
        let NginxPlace::Prefix(prefix) = place else { return self.pattern.matches_all() };
        let rest = self.pattern.text.strip_prefix('^');
        let rest = rest.and_then(|rest| rest.strip_prefix(escaped(&encoded(prefix)).as_str()));
        let is_all = matches!(rest, Some("" | ".*" | ".*$" | "(.*)" | "(.*)$"));
        self.pattern.matches_all() || is_all && self.pattern.beside.is_empty()
    }

    /// Whether the new path could have a match again.
    pub(in crate::nginx) fn may_match_again(&self) -> bool {
        let literal: String =
            self.replacement.chars().take_while(|c| !matches!(c, '$' | '{' | '?')).collect();
        !self.pattern.excludes_prefix(&literal)
    }

    /// The condition that the path matches.
    pub(in crate::nginx) fn test(&self) -> NginxTest {
        if self.pattern.matches_all() {
            NginxTest::Known(true)
        } else {
            NginxTest::matches("path", &self.pattern)
        }
    }
}

/// `break` behind rewrites without a flag: the request stays, with what they have made of it.
pub(super) fn stay(way: &mut NginxWay<'_>) {
    let open: Vec<usize> =
        (0..way.rewrites.len()).filter(|index| way.rewrites[*index].end == RewriteEnd::Continue).collect();
    match open[..] {
        [] => {}
        [one] => {
            way.rewrites[one].flag = "break";
            way.rewrites[one].end = RewriteEnd::Stay;
        }
        _ => {
            let advice = "write `break` on each `rewrite`: with several before one `break;` it is not known which counts";
            for index in open {
                way.scope.ledger.unsupported(way.rewrites[index].statement, advice);
            }
        }
    }
}

/// `$${1}` as `$1` where nothing follows that would belong to the name.
fn without_braces(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$${") {
        result.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            result.push_str("$${");
            rest = after;
            continue;
        };
        let needed = behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        result.push_str(&if needed { format!("$${{{name}}}") } else { format!("${name}") });
        rest = behind;
    }
    result.push_str(rest);
    result
}
