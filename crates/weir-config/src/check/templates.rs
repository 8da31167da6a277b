//! Templates: whether the values that they name are there; and text that looks like a variable of another product.

use weir_traffic::route::RouteRegex;

use super::stages::Proofs;
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::order::Stage;
use crate::text::RouteText;
use crate::value::{Template, TemplatePart, TemplateValue};

/// Where a template stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemplatePlace<'a> {
    /// The last stage whose values are known.
    pub(super) stage: Stage,
    /// What is known of clients.
    pub(super) proofs: Proofs,
    /// The `path_regex` of the route.
    pub(super) pattern: Option<&'a RouteRegex>,
    /// Whether several routes have it.
    pub(super) is_shared: bool,
}

impl<'a> TemplatePlace<'a> {
    /// On a route, before a server was chosen.
    pub(super) fn in_route(text: &'a SpannedTable<RouteText>) -> Self {
        let pattern = text.value.path_regex.as_ref().map(|pattern| &pattern.0);
        Self { stage: Stage::Identity, proofs: Proofs::of_route(text), pattern, is_shared: false }
    }

    /// Where no route is known.
    pub(super) const OF_LISTENER: TemplatePlace<'static> =
        TemplatePlace { stage: Stage::RequestHead, proofs: Proofs::ANY, pattern: None, is_shared: false };

    /// On a route, before its client is authenticated.
    pub(super) fn before_access(text: &'a SpannedTable<RouteText>) -> Self {
        Self { stage: Stage::Route, ..Self::in_route(text) }
    }

    /// What several routes share, before a server was chosen: what only some of them know is checked where all routes are.
    pub(super) const SHARED: TemplatePlace<'static> =
        TemplatePlace { stage: Stage::Identity, proofs: Proofs::ANY, pattern: None, is_shared: true };
}

/// Reports values that are not there where the template is used.
pub(super) fn check(
    template: &Template,
    span: SourceSpan,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    template.values().for_each(|value| check_value(value, span, place, diagnostics));
}

/// The same for a text that several routes share: what their paths have matched is there for those that have such a group.
pub(super) fn check_shared(
    template: &Template,
    span: SourceSpan,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let others = template.values().filter(|value| !matches!(value, TemplateValue::MatchGroup(_)));
    others.for_each(|value| check_value(value, span, place, diagnostics));
}

/// The same for one value.
pub(super) fn check_value(
    value: &TemplateValue,
    span: SourceSpan,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let Some((message, help)) = problem(value, place) {
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, span, message).help(help));
    }
}

/// Why a value is not there, and what to do about it.
fn problem(value: &TemplateValue, place: &TemplatePlace<'_>) -> Option<(String, &'static str)> {
    let name = value.name();
    match value {
        TemplateValue::Map(own) | TemplateValue::Variable(own) | TemplateValue::Counter(own, _) => {
            let (message, help) = own.leaves().iter().find_map(|leaf| problem(leaf, place))?;
            Some((format!("`{{{name}}}` cannot be used here: {message}"), help))
        }
        TemplateValue::MatchGroup(group) => match place.pattern {
            None => {
                let message = format!("`{{{name}}}` has no value here: the route has no `path_regex`");
                Some((message, "write `path_regex` with a group in parentheses"))
            }
            Some(pattern) if !pattern.with_groups().has_group(group) => {
                let message = format!("`{{{name}}}` has no value: `path_regex` has no group `{group}`");
                Some((message, "a group is `(...)`, counted from 1, or `(?<name>...)`"))
            }
            Some(_) => None,
        },
        value if value.stage() > place.stage => {
            let message = format!("`{{{name}}}` has no value here");
            let help = match value.stage() {
                stage if stage >= Stage::ResponseHead => {
                    "it is known when there is a response: use it in `response_headers`"
                }
                stage if stage <= Stage::Identity => "it is known once the client is authenticated",
                _ => "it is known when a server was chosen",
            };
            Some((message, help))
        }
        value => {
            let why = place.proofs.missing(value)?;
            let message = format!("`{{{name}}}` has no value here: the route has {why}");
            Some((message, "`basic` of a route makes `{user}` known, `jwt` also `{jwt.NAME}`"))
        }
    }
}

/// Warns when the text of a template has placeholders of other products: it stays as it is.
pub(super) fn warn_of_variables(template: &Template, span: SourceSpan, diagnostics: &mut Vec<Diagnostic>) {
    let help = "values of the exchange are `{client_address}`, `{host}`, `{header.NAME}` and the like";
    for part in template.parts() {
        if let TemplatePart::Literal(text) = part {
            warn(text, span, help, diagnostics);
        }
    }
}

/// Warns when a value has placeholders of other products: here it stays as it is.
pub(super) fn warn(value: &str, span: SourceSpan, help: &str, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(variable) = find(value) {
        let message = format!("`{variable}` is sent as plain text: Weir has no such variable");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, span, message).help(help));
    }
}

/// The first variable of nginx (`$remote_addr`), HAProxy (`%[src]`, `%ci`) or Envoy (`%DOWNSTREAM_REMOTE_ADDRESS%`) in a text.
fn find(text: &str) -> Option<&str> {
    text.char_indices().find_map(|(start, first)| {
        let rest = &text[start..];
        let inner = &rest[first.len_utf8()..];
        let name = |is_part: fn(char) -> bool| inner.find(|c: char| !is_part(c)).unwrap_or(inner.len());
        match first {
            '$' => {
                let length = name(|c| c.is_ascii_alphanumeric() || c == '_');
                inner.starts_with(|c: char| c.is_ascii_lowercase()).then(|| &rest[..=length])
            }
            '%' if inner.starts_with('[') => rest.find(']').map(|end| &rest[..=end]),
            '%' => {
                let length = name(|c| c.is_ascii_uppercase() || c == '_');
                (length > 2 && inner[length..].starts_with('%')).then(|| &rest[..length + 2])
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_other_products_are_found() {
        for (text, expected) in [
            ("$remote_addr", Some("$remote_addr")),
            ("a $host:80", Some("$host")),
            ("%[src]", Some("%[src]")),
            ("%DOWNSTREAM_REMOTE_ADDRESS%", Some("%DOWNSTREAM_REMOTE_ADDRESS%")),
            ("max-age=63072000; includeSubDomains", None),
            ("US$100", None),
            ("100%", None),
            ("a%20b%5Bc]", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(find(text), expected, "{text}");
        }
    }
}
