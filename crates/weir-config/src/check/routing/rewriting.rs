//! `rewrite_body`, `rewrite_location`, `rewrite_cookies`: rules that can be searched for, with values and groups that are there.

use std::sync::Arc;

use weir_rewrite::{
    AttributePattern, BodyRules, BodySubstitution, CookieAttribute, Flag, LocationPattern, LocationRules,
    Pattern, RuleError,
};

use crate::check::templates::{self, TemplatePlace};
use crate::config::{
    AttributeRewrite, BodyPart, BodyRewrite, CookieRewrite, LocationRewrite, PagePart, PageText,
};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{
    AttributeText, BodyRewriteText, BodyRuleText, CookieRuleText, CookieSameSite, ListenerText,
    LocationRuleText, RouteText,
};
use crate::value::{TemplatePart, TemplateValue};

/// What is rewritten on a listener, or on one of its routes.
#[derive(Debug, Clone, Default)]
pub(in crate::check) struct CheckedRewriting {
    pub(in crate::check) body: Option<Arc<BodyRewrite>>,
    pub(in crate::check) location: Option<Arc<LocationRewrite>>,
    pub(in crate::check) cookies: Vec<CookieRewrite>,
}

impl CheckedRewriting {
    /// That of a listener.
    pub(in crate::check) fn of_listener(
        text: &ListenerText,
        place: &TemplatePlace<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        Self {
            body: check(text.rewrite_body.as_ref(), place, diagnostics),
            location: check_location(&text.rewrite_location, place, diagnostics),
            cookies: check_cookies(&text.rewrite_cookies, place, diagnostics),
        }
    }

    /// That of a route of this listener: its own, of what it has of its own.
    pub(in crate::check) fn of_route(
        &self,
        text: &RouteText,
        place: &TemplatePlace<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        Self {
            body: match &text.rewrite_body {
                None => self.body.clone(),
                own => check(own.as_ref(), place, diagnostics),
            },
            location: match &text.rewrite_location {
                None => self.location.clone(),
                Some(own) => check_location(own, place, diagnostics),
            },
            cookies: match &text.rewrite_cookies {
                None => self.cookies.clone(),
                Some(own) => check_cookies(own, place, diagnostics),
            },
        }
    }
}

/// The compiled rules; `None`: bodies pass as they are.
fn check(
    text: Option<&SpannedTable<BodyRewriteText>>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<BodyRewrite>> {
    let BodyRewriteText { rules: written, types, match_max } = &text?.value;
    let rules: Vec<BodySubstitution> = written.iter().filter_map(|rule| rule_of(rule, diagnostics)).collect();
    if rules.is_empty() || rules.len() < written.len() {
        return None;
    }
    let compiled = match BodyRules::new(rules, match_max.as_usize()) {
        Ok(compiled) => Arc::new(compiled),
        Err((at, error)) => {
            diagnostics.extend(written.get(at).map(|rule| refused(rule, &error)));
            return None;
        }
    };
    let place = TemplatePlace { stage: Stage::ResponseHead, ..*place };
    let to = written.iter().enumerate();
    let to = to
        .map(|(at, rule)| replacement(&rule.value, compiled.group_count(at), &place, diagnostics))
        .collect();
    Some(Arc::new(BodyRewrite { rules: compiled, to, types: types.clone() }))
}

fn rule_of(rule: &SpannedTable<BodyRuleText>, diagnostics: &mut Vec<Diagnostic>) -> Option<BodySubstitution> {
    let BodyRuleText { text, regex, once, ignore_case, .. } = &rule.value;
    let pattern = match (text, regex) {
        (Some(text), None) => Pattern::Text(text.value.clone()),
        (None, Some(regex)) => Pattern::Regex(regex.value.clone()),
        (Some(_), Some(_)) => {
            let message = "a rule has one of `text` and `regex`; this one has both";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, rule.key_at("regex"), message);
            diagnostics.push(diagnostic.help("write two rules"));
            return None;
        }
        (None, None) => {
            let message = "a rule needs `text` or `regex`: what is replaced";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, rule.span, message));
            return None;
        }
    };
    Some(BodySubstitution { pattern, ignore_case: *ignore_case, once: *once })
}

fn refused(rule: &SpannedTable<BodyRuleText>, error: &RuleError) -> Diagnostic {
    let span =
        rule.value.regex.as_ref().or(rule.value.text.as_ref()).map_or(rule.span, |pattern| pattern.span);
    let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, span, error.to_string());
    match error {
        RuleError::Whole(_) => diagnostic.help("for the ends of lines, begin with `(?m)`"),
        RuleError::MatchesNothing => diagnostic.help("write `+` in place of `*`, or text around it"),
        RuleError::NeverMatches(_) => diagnostic.help("raise `match_max`, up to 64KiB"),
        RuleError::AllTooLong(_) | RuleError::TooMany(_) => {
            diagnostic.help("let the server send less to replace")
        }
        RuleError::Empty | RuleError::Syntax(_) => diagnostic,
    }
}

fn replacement(
    rule: &BodyRuleText,
    groups: usize,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<BodyPart> {
    let Some(to) = &rule.to else { return Vec::new() };
    parts_of(to, rule.regex.as_ref().map(|_| groups), place, diagnostics)
}

/// The parts of what replaces a match; of a regular expression, it has so many groups.
fn parts_of(
    to: &Spanned<Box<str>>,
    groups: Option<usize>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<BodyPart> {
    let mut parts = Vec::new();
    for part in PageText::of_body(&to.value) {
        match part {
            PagePart::Value(value) => {
                templates::check_value(&value, to.span, place, diagnostics);
                parts.push(BodyPart::Value(value));
            }
            PagePart::Literal(text) if groups.is_some() => split_groups(&text, &mut parts),
            PagePart::Literal(text) => parts.push(BodyPart::Literal(text)),
            PagePart::Title | PagePart::Detail | PagePart::Reason => {}
        }
    }
    for part in &parts {
        if let BodyPart::Group(group) = part
            && *group > groups.unwrap_or_default()
        {
            let message = format!("`regex` has no group `{{{group}}}`");
            let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, to.span, message);
            diagnostics.push(diagnostic.help(GROUPS));
        }
    }
    parts
}

/// The compiled rules for `Location` and `Refresh`; `None`: they pass as they are.
fn check_location(
    written: &[SpannedTable<LocationRuleText>],
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<LocationRewrite>> {
    let patterns: Vec<_> = written.iter().filter_map(|rule| location_pattern(rule, diagnostics)).collect();
    if patterns.is_empty() || patterns.len() < written.len() {
        return None;
    }
    let rules = match LocationRules::new(patterns) {
        Ok(rules) => rules,
        Err((at, error)) => {
            let rule = &written[at];
            let pattern = rule.value.regex.as_ref().or(rule.value.from.as_ref());
            let span = pattern.map_or(rule.span, |pattern| pattern.span);
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, span, error.to_string()));
            return None;
        }
    };
    let place = TemplatePlace { stage: Stage::ResponseHead, ..*place };
    let to = written.iter().enumerate().map(|(at, rule)| match &rule.value.to {
        _ if rule.value.server => vec![
            BodyPart::Value(TemplateValue::Scheme),
            BodyPart::Literal("://".into()),
            BodyPart::Value(TemplateValue::Authority),
        ],
        None => Vec::new(),
        Some(to) => {
            if let Some(wrong) = to.value.chars().find(|c| !c.is_ascii_graphic()) {
                let message = format!("{wrong:?} is not allowed in a URL");
                let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, to.span, message);
                diagnostics.push(diagnostic.help("write it percent-encoded"));
            }
            let groups = rule.value.regex.as_ref().map(|_| rules.group_count(at));
            parts_of(to, groups, &place, diagnostics)
        }
    });
    let to = to.collect();
    Some(Arc::new(LocationRewrite { rules, to }))
}

fn location_pattern(
    rule: &SpannedTable<LocationRuleText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<LocationPattern> {
    let LocationRuleText { from, regex, server, to } = &rule.value;
    let wanted = [("from", from.is_some()), ("regex", regex.is_some()), ("server", *server)];
    let mut wanted = wanted.into_iter().filter_map(|(key, is_there)| is_there.then_some(key));
    let Some(key) = wanted.next() else {
        let message = "a rule needs `from`, `regex` or `server = true`: which URLs it is for";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, rule.span, message));
        return None;
    };
    if let Some(second) = wanted.next() {
        let message =
            format!("a rule has one of `from`, `regex` and `server`; this one has `{key}` and `{second}`");
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, rule.key_at(second), message);
        diagnostics.push(diagnostic.help("write two rules"));
        return None;
    }
    match to {
        Some(to) if *server => {
            let message =
                "`to` has no effect beside `server`: the address becomes that which the client has used";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, to.span, message));
        }
        None if !server => {
            let message = "a rule needs `to`: what replaces the match";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, rule.span, message));
        }
        Some(_) | None => {}
    }
    match (from, regex) {
        (Some(from), _) => Some(LocationPattern::Prefix(from.value.clone())),
        (_, Some(regex)) => Some(LocationPattern::Regex(regex.value.clone())),
        (None, None) => Some(LocationPattern::Server),
    }
}

/// The changes of cookies.
fn check_cookies(
    written: &[SpannedTable<CookieRuleText>],
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<CookieRewrite> {
    written.iter().map(|rule| cookie_rule(rule, place, diagnostics)).collect()
}

fn cookie_rule(
    rule: &SpannedTable<CookieRuleText>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> CookieRewrite {
    let CookieRuleText { name, domain, path, secure, http_only, partitioned, same_site } = &rule.value;
    let flag = |wanted: &Option<bool>| wanted.map(|is_on| if is_on { Flag::Set } else { Flag::Removed });
    if same_site == &Some(CookieSameSite::None) && *secure == Some(false) {
        let message = "browsers refuse cookies with `SameSite=None` that are not `Secure`";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, rule.key_at("same_site"), message);
        diagnostics.push(diagnostic.help("write `secure = true`"));
    }
    let changes =
        [domain.is_some(), path.is_some(), secure.is_some(), http_only.is_some(), partitioned.is_some()];
    if !changes.contains(&true) && same_site.is_none() {
        let message = "the rule changes nothing";
        let diagnostic = Diagnostic::new(DiagnosticKind::MissingKey, rule.span, message);
        diagnostics.push(
            diagnostic.help("write `domain`, `path`, `secure`, `http_only`, `partitioned` or `same_site`"),
        );
    }
    CookieRewrite {
        name: name.as_ref().map(|name| name.value.clone()),
        domain: attribute(CookieAttribute::Domain, domain.as_ref(), place, diagnostics),
        path: attribute(CookieAttribute::Path, path.as_ref(), place, diagnostics),
        secure: flag(secure),
        http_only: flag(http_only),
        partitioned: flag(partitioned),
        same_site: same_site.as_ref().map(|same_site| match same_site {
            CookieSameSite::Strict => "Strict",
            CookieSameSite::Lax => "Lax",
            CookieSameSite::None => "None",
            CookieSameSite::Off => "",
        }),
    }
}

fn attribute(
    which: CookieAttribute,
    text: Option<&SpannedTable<AttributeText>>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<AttributeRewrite> {
    let text = text?;
    let from = attribute_pattern(which, text, diagnostics)?;
    let to = text.value.to.as_ref()?;
    let place = TemplatePlace { stage: Stage::ResponseHead, ..*place };
    let mut report = |message: String, help: &'static str| {
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, to.span, message).help(help));
    };
    if let Some(group) = to.value.groups().find(|group| *group > from.group_count().unwrap_or_default()) {
        report(format!("`regex` has no group `{{{group}}}`"), GROUPS);
    } else if let Some(group) = to.value.groups().next().filter(|_| from.group_count().is_none()) {
        report(format!("`{{{group}}}` has no value without `regex`"), GROUPS);
    }
    for template in to.value.templates() {
        templates::check(template, to.span, &place, diagnostics);
        templates::warn_of_variables(template, to.span, diagnostics);
        let is_wrong = |c: &char| matches!(c, ';' | ',') || !c.is_ascii_graphic();
        let literals = template.parts().iter().filter_map(|part| match part {
            TemplatePart::Literal(text) => text.chars().find(is_wrong),
            TemplatePart::Value(_) => None,
        });
        for wrong in literals {
            let message = format!("{wrong:?} is not allowed in an attribute of a cookie");
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, to.span, message));
        }
    }
    Some(AttributeRewrite { from, to: to.value.clone() })
}

/// What a group is.
const GROUPS: &str = "a group is `(...)`, counted from 1; `{0}` is the whole match";

fn attribute_pattern(
    which: CookieAttribute,
    text: &SpannedTable<AttributeText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<AttributePattern> {
    match (&text.value.from, &text.value.regex) {
        (None, None) => Some(AttributePattern::Any),
        (Some(from), None) => Some(AttributePattern::of_text(which, &from.value)),
        (None, Some(regex)) => match AttributePattern::of_regex(which, &regex.value) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, regex.span, error.to_string()));
                None
            }
        },
        (Some(_), Some(_)) => {
            let message = "a change has one of `from` and `regex`; this one has both";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at("regex"), message);
            diagnostics.push(diagnostic.help("write two rules"));
            None
        }
    }
}

/// Finds groups in a text: numbers in braces that are not behind a `$`.
fn split_groups(text: &str, parts: &mut Vec<BodyPart>) {
    let (mut literal, mut at) = (0, 0);
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        at = open + 1;
        let Some(len) = text[at..].find('}') else { break };
        let name = &text[at..at + len];
        let is_number = (1..=2).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_digit());
        let is_group = is_number && !text[..open].ends_with('$');
        let Some(group) = name.parse().ok().filter(|_| is_group) else { continue };
        if literal < open {
            parts.push(BodyPart::Literal(text[literal..open].into()));
        }
        parts.push(BodyPart::Group(group));
        at += len + 1;
        literal = at;
    }
    if literal < text.len() {
        parts.push(BodyPart::Literal(text[literal..].into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbers_in_braces() {
        let parts = |text: &str| {
            let mut parts = Vec::new();
            split_groups(text, &mut parts);
            parts
        };
        let literal = |text: &str| BodyPart::Literal(text.into());
        assert_eq!(parts("a{1}b{22}"), [literal("a"), BodyPart::Group(1), literal("b"), BodyPart::Group(22)]);
        for text in ["${1}", "{", "{}", "{x}", "{123}", "a{1"] {
            assert_eq!(parts(text), [literal(text)], "{text}");
        }
        assert_eq!(parts("{x{0}"), [literal("{x"), BodyPart::Group(0)]);
    }
}
