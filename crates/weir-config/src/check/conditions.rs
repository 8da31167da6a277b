//! Conditions: whether the values that they ask for are known where they stand, and the upstreams that they name exist.

use super::templates::TemplatePlace;
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::SpannedTable;
use crate::order::Stage;
use crate::text::{
    ConditionText, Document, ErrorPagesText, ExpiresText, HeadersText, ListenerText, RouteAccessLogText,
    RouteText,
};
use crate::value::{TemplateValue, WhenCondition};

/// What a condition decides about: when it is asked, in a few words.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConditionPlace<'a> {
    /// What is known by then.
    pub(super) place: TemplatePlace<'a>,
    /// When that is: `when lists are asked`.
    pub(super) when: &'static str,
}

impl<'a> ConditionPlace<'a> {
    /// At a place of a template, at this stage.
    pub(super) fn new(place: &TemplatePlace<'a>, stage: Stage, when: &'static str) -> Self {
        Self { place: TemplatePlace { stage, ..*place }, when }
    }

    /// In what several routes share.
    pub(super) fn shared(stage: Stage, when: &'static str) -> Self {
        Self::new(&TemplatePlace::SHARED, stage, when)
    }
}

/// The condition, with what is not known where it stands reported.
pub(super) fn check(
    text: Option<&ConditionText>,
    place: &ConditionPlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<WhenCondition> {
    let text = text?;
    for ((_, values), span) in text.value.terms().zip(&text.terms) {
        values.for_each(|value| check_value(value, *span, place, diagnostics));
    }
    Some(text.value.clone())
}

fn check_value(
    value: &TemplateValue,
    span: SourceSpan,
    place: &ConditionPlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let name = value.name();
    let (message, help) = match value {
        TemplateValue::MatchGroup(_) if place.place.is_shared => return,
        TemplateValue::MatchGroup(group) => {
            let pattern = place.place.pattern;
            if pattern.is_some_and(|pattern| pattern.with_groups().has_group(group)) {
                return;
            }
            let message =
                format!("`{name}` has no value: the route has no `path_regex` with a group `{group}`");
            (message, "a group is `(...)`, counted from 1, or `(?<name>...)`".to_owned())
        }
        value if value.stage() > place.place.stage => {
            let message = format!("`{name}` is not known yet {}", place.when);
            let help =
                format!("it is known from the stage \"{}\" on; {}", value.stage().name(), later(value));
            (message, help)
        }
        value => match place.place.proofs.missing(value) {
            None => return,
            Some(why) => {
                let message = format!("`{name}` has no value here: the route has {why}");
                (message, "`basic` of a route makes `user` known, `jwt` also `jwt[\"NAME\"]`".to_owned())
            }
        },
    };
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, span, message).help(help));
}

/// Where a value that is known late may be asked for.
fn later(value: &TemplateValue) -> &'static str {
    match value.stage() {
        Stage::RequestHead | Stage::Route | Stage::Identity | Stage::BeforeServer => {
            "lists, limits, `cache.when`, mirrors and header rules may ask for it"
        }
        Stage::Upstream | Stage::Server => "header rules, `error_pages` and the access log may ask for it",
        _ => "`response_headers`, `expires`, `cache.store_when` and the access log may ask for it",
    }
}

/// Reports upstreams that conditions name, and that the config does not have; and values of conditions of logs and retries that are never known.
pub(super) fn report_unknown(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let report = |condition: &WhenCondition, spans: &mut dyn Iterator<Item = SourceSpan>| {
        let mut found = Vec::new();
        for ((_, values), span) in condition.terms().zip(spans) {
            for value in values {
                found.extend(unknown_upstream(document, value, span));
            }
        }
        found
    };
    for_each(document, |text| {
        diagnostics.extend(report(&text.value, &mut text.terms.iter().copied()));
    });
    for (condition, span) in unplaced(document) {
        diagnostics.extend(report(condition, &mut std::iter::repeat(span)));
    }
    let place = ConditionPlace::shared(Stage::Upstream, "when a failed attempt may be repeated");
    for (_, upstream) in &document.upstream.0 {
        let retry = &upstream.value.retry;
        for value in retry.value.when.iter().flat_map(WhenCondition::values) {
            check_value(value, retry.key_at("when"), &place, diagnostics);
        }
    }
}

fn unknown_upstream(document: &Document, value: &TemplateValue, span: SourceSpan) -> Option<Diagnostic> {
    let TemplateValue::UsableServers(name) = value else { return None };
    let known = || document.upstream.0.iter().map(|(known, _)| &*known.value);
    if known().any(|known| known == &**name) {
        return None;
    }
    let message = format!("there is no upstream `{name}`");
    let diagnostic = Diagnostic::new(DiagnosticKind::UnknownName, span, message);
    Some(diagnostic.help_if(did_you_mean(name, known())))
}

/// The conditions without places of their comparisons.
fn unplaced(document: &Document) -> Vec<(&WhenCondition, SourceSpan)> {
    let mut found = Vec::new();
    let log = &document.access_log;
    add(&mut found, log.value.when.as_ref(), log.key_at("when"));
    for (_, listener) in &document.listener.0 {
        if let Some(log) = &listener.value.access_log {
            add(&mut found, log.value.when.as_ref(), log.key_at("when"));
        }
        for route in &listener.value.route {
            if let Some(condition) = &route.value.when {
                add(&mut found, Some(&condition.value), condition.span);
            }
            if let RouteAccessLogText::Own(log) = &route.value.access_log {
                add(&mut found, log.value.when.as_ref(), log.key_at("when"));
            }
        }
    }
    for (_, upstream) in &document.upstream.0 {
        let retry = &upstream.value.retry;
        add(&mut found, retry.value.when.as_ref(), retry.key_at("when"));
    }
    found
}

fn add<'a>(
    found: &mut Vec<(&'a WhenCondition, SourceSpan)>,
    condition: Option<&'a WhenCondition>,
    span: SourceSpan,
) {
    found.extend(condition.map(|condition| (condition, span)));
}

/// Calls `visit` with every condition that knows its places.
pub(crate) fn for_each<'a>(document: &'a Document, mut visit: impl FnMut(&'a ConditionText)) {
    for (_, list) in &document.list.0 {
        list.value.when.iter().for_each(&mut visit);
    }
    for (_, limit) in &document.limit.0 {
        limit.value.when.iter().for_each(&mut visit);
    }
    for (_, table) in &document.table.0 {
        table.value.conditions().for_each(&mut visit);
    }
    for (_, listener) in &document.listener.0 {
        of_listener(&listener.value, &mut visit);
        listener.value.route.iter().for_each(|route| of_route(route, &mut visit));
    }
    for (_, upstream) in &document.upstream.0 {
        let affinity = upstream.value.affinity.iter();
        affinity.flat_map(|affinity| &affinity.value.forget_when).for_each(&mut visit);
    }
}

fn of_listener<'a>(text: &'a ListenerText, visit: &mut impl FnMut(&'a ConditionText)) {
    of_headers(&text.request_headers, visit);
    of_headers(&text.response_headers, visit);
    of_pages(text.error_pages.as_ref(), visit);
}

fn of_route<'a>(text: &'a SpannedTable<RouteText>, visit: &mut impl FnMut(&'a ConditionText)) {
    let value = &text.value;
    of_headers(&value.request_headers, visit);
    of_headers(&value.response_headers, visit);
    of_pages(value.error_pages.as_ref(), visit);
    if let Some(ExpiresText::Rules(rules)) = &value.expires {
        rules.iter().flat_map(|rule| &rule.value.when).for_each(&mut *visit);
    }
    if let Some(cache) = &value.cache {
        let cache = &cache.0.value;
        [&cache.when, &cache.refresh_when, &cache.store_when].into_iter().flatten().for_each(&mut *visit);
    }
    let mirrors = value.mirror.iter().flat_map(|mirrors| &mirrors.0);
    mirrors.flat_map(|mirror| &mirror.value.when).for_each(&mut *visit);
    for part in value.split.iter().flat_map(|parts| &parts.0) {
        of_headers(&part.value.request_headers, visit);
        of_headers(&part.value.response_headers, visit);
        let mirrors = part.value.mirror.iter().flat_map(|mirrors| &mirrors.0);
        mirrors.flat_map(|mirror| &mirror.value.when).for_each(&mut *visit);
    }
}

fn of_headers<'a>(text: &'a HeadersText, visit: &mut impl FnMut(&'a ConditionText)) {
    text.0.iter().flat_map(|table| &table.value.when).for_each(visit);
}

fn of_pages<'a>(text: Option<&'a ErrorPagesText>, visit: &mut impl FnMut(&'a ConditionText)) {
    text.into_iter().flat_map(|pages| &pages.0).flat_map(|page| &page.value.when).for_each(visit);
}
