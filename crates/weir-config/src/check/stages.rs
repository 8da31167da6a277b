//! Values that are known only once a route has authenticated its clients: where they can never be known, that is an error.
//!
//! A list, a limit or a header of a listener is shared by routes of which some may authenticate; one that a route names itself is not.

use std::sync::Arc;

use crate::config::{AccessList, KeyLimit, Listener, Route, TrackedTable};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{OneOrMany, Spanned, SpannedTable};
use crate::text::{Document, HeadersText, ListenerText, RouteText};
use crate::value::{Template, TemplateValue, WhenCondition};

/// What a route learns of its clients before it serves them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proofs {
    basic: bool,
    jwt: bool,
}

impl Proofs {
    /// Those of a place that several routes share: each is taken for one that asks for everything.
    pub(super) const ANY: Proofs = Proofs { basic: true, jwt: true };

    pub(super) fn of_route(text: &SpannedTable<RouteText>) -> Self {
        // One that could not be read is there all the same.
        let has = |key| text.written(key).is_some() || !text.is_sound;
        Self { basic: has("basic"), jwt: has("jwt") }
    }

    /// Why a value can never be known; `None`: it can.
    pub(super) fn missing(self, value: &TemplateValue) -> Option<&'static str> {
        value.leaves().iter().find_map(|value| match value {
            TemplateValue::User if !self.basic && !self.jwt => Some("neither `basic` nor `jwt`"),
            TemplateValue::TokenClaim(_) if !self.jwt => Some("no `jwt`"),
            _ => None,
        })
    }

    /// The first value of a list or a limit that can never be known.
    fn missing_of<'a>(self, rule: &KeyedRule<'a>) -> Option<(&'a TemplateValue, &'static str)> {
        let asked = rule.when.into_iter().flat_map(WhenCondition::values);
        rule.key.values().chain(asked).find_map(|value| Some((value, self.missing(value)?)))
    }
}

/// A list or a limit, as far as this goes.
struct KeyedRule<'a> {
    what: String,
    key: &'a Template,
    key_at: SourceSpan,
    when: Option<&'a WhenCondition>,
}

/// The lists, limits and tables of a config.
pub(super) struct Rules<'a> {
    pub(super) lists: &'a [Arc<AccessList>],
    pub(super) limits: &'a [Arc<KeyLimit>],
    pub(super) tables: &'a [Arc<TrackedTable>],
}

/// Reports lists, limits and headers of listeners whose values can never be known where they are used.
pub(super) fn report_unknown(
    document: &Document,
    listeners: &[Arc<Listener>],
    rules: &Rules<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (list, (_, text)) in rules.lists.iter().zip(&document.list.0) {
        let rule = KeyedRule {
            what: format!("list `{}`", list.name),
            key: &list.key,
            key_at: text.value.key.span,
            when: list.when.as_ref(),
        };
        let uses = |route: &Route| route.lists.iter().any(|one| Arc::ptr_eq(one, list));
        report(
            &rule,
            document,
            listeners,
            (uses, |text| named(text.lists.as_ref(), &list.name)),
            diagnostics,
        );
    }
    for (limit, (_, text)) in rules.limits.iter().zip(&document.limit.0) {
        let rule = KeyedRule {
            what: format!("limit `{}`", limit.name),
            key: &limit.key,
            key_at: text.value.key.span,
            when: limit.when.as_ref(),
        };
        let uses = |route: &Route| route.limited_by.iter().any(|one| Arc::ptr_eq(&one.limit, limit));
        let by_name = |text: &RouteText| named(text.limited_by.as_ref(), &limit.name);
        report(&rule, document, listeners, (uses, by_name), diagnostics);
    }
    for (table, (_, text)) in rules.tables.iter().zip(&document.table.0) {
        let rule = KeyedRule {
            what: format!("table `{}`", table.definition.name),
            key: &table.definition.key,
            key_at: text.value.key.span,
            when: table.when.as_ref(),
        };
        let uses = |route: &Route| route.tracked.iter().any(|one| Arc::ptr_eq(one, table));
        let by_name = |text: &RouteText| named(text.track.as_ref(), &table.definition.name);
        report(&rule, document, listeners, (uses, by_name), diagnostics);
    }
    for (_, text) in &document.listener.0 {
        report_headers(&text.value, &text.value.request_headers, diagnostics);
        report_headers(&text.value, &text.value.response_headers, diagnostics);
    }
}

/// Where a route names a list or a limit itself.
fn named(names: Option<&OneOrMany<Spanned<Box<str>>>>, wanted: &str) -> Option<SourceSpan> {
    names?.0.iter().find(|name| *name.value == *wanted).map(|name| name.span)
}

fn report(
    rule: &KeyedRule<'_>,
    document: &Document,
    listeners: &[Arc<Listener>],
    (uses, by_name): (impl Fn(&Route) -> bool, impl Fn(&RouteText) -> Option<SourceSpan>),
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some((value, _)) = (Proofs { basic: false, jwt: false }).missing_of(rule) else { return };
    let (mut unknown, mut is_known, mut is_told) = (None, false, false);
    for (listener, (_, text)) in listeners.iter().zip(&document.listener.0) {
        for (place, _) in listener.routes.iter().enumerate().filter(|(_, route)| uses(route)) {
            let text = text.value.route.get(place);
            let proofs = text.map_or(Proofs { basic: false, jwt: false }, Proofs::of_route);
            let Some((value, why)) = proofs.missing_of(rule) else {
                is_known = true;
                continue;
            };
            unknown = Some((value, why));
            if let Some(at) = text.and_then(|text| by_name(&text.value)) {
                is_told = true;
                let message = format!(
                    "the {} is by `{{{}}}`, which has no value here: the route has {why}",
                    rule.what,
                    value.name()
                );
                diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message));
            }
        }
    }
    if let Some((_, why)) = unknown.filter(|_| !is_known && !is_told) {
        let message = format!(
            "`{{{}}}` has no value on any route with the {}: each has {why}",
            value.name(),
            rule.what
        );
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, rule.key_at, message));
    }
}

/// The same for the headers that a listener gives to all its routes.
fn report_headers(text: &ListenerText, changes: &HeadersText, diagnostics: &mut Vec<Diagnostic>) {
    let given = changes.given().map(|(name, template)| (name.span, template.values().collect::<Vec<_>>()));
    let asked = changes.0.iter().flat_map(|table| &table.value.when);
    let asked = asked.map(|when| (when.span, when.value.values().collect::<Vec<_>>()));
    for (span, values) in given.chain(asked) {
        for value in values {
            let mut routes = text.route.iter();
            let missing = Proofs { basic: false, jwt: false }.missing(value);
            let is_known = routes.any(|route| Proofs::of_route(route).missing(value).is_none());
            if let Some(why) = missing.filter(|_| !is_known) {
                let message = format!(
                    "`{{{}}}` has no value on any route of the listener: each has {why}",
                    value.name()
                );
                diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, span, message));
            }
        }
    }
}
