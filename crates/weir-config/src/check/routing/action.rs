//! The action of a route: exactly one, and a possible one.

use super::{headers, mirror, static_files};
use crate::check::files::Files;
use crate::check::scope::CheckScope;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::check::upstream_lookup::UpstreamLookup;
use crate::config::{
    FixedResponse, Interner, PageText, Redirect, RouteAction, RouteSettings, SplitAction, SplitTarget,
    UpstreamIndex, split_fault,
};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{RedirectText, RespondText, RouteText, SplitText};
use crate::value::Template;

/// Keys of a target of a split that are about requests to its servers.
const OF_REQUESTS: [&str; 4] = ["request_headers", "response_headers", "forward_host", "mirror"];

const ACTIONS: [&str; 6] = ["upstream", "split", "redirect", "respond", "files", "then"];

pub(in crate::check) fn check(
    text: &SpannedTable<RouteText>,
    files: &Files<'_>,
    upstreams: &UpstreamLookup<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> RouteAction {
    let written: Vec<&str> = ACTIONS.into_iter().filter(|key| text.written(key).is_some()).collect();
    match written[..] {
        [] if ACTIONS.into_iter().all(|key| text.is_missing(key)) => {
            let message = "the route has no action";
            let help = "write one of `upstream`, `split`, `redirect`, `respond`, `files` and `then`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
        }
        // What is no file goes to the upstream.
        ["upstream", "files"] => {}
        [first, second, ..] => {
            let message = format!("a route has one action; this one has `{first}` and `{second}`");
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at(second), message);
            diagnostics.push(diagnostic.label(text.key_at(first), "the other one"));
        }
        [] | [_] => {}
    }
    let value = &text.value;
    let place = TemplatePlace::in_route(text);
    if let Some(served) = &value.files {
        let served = static_files::check((served, text), &place, files, upstreams, diagnostics);
        return RouteAction::Files(Box::new(served));
    }
    // All of them are checked, so that every error is found; the first counts.
    let upstream =
        value.upstream.as_ref().map(|name| RouteAction::Upstream(upstreams.find(name, diagnostics)));
    let split =
        value.split.as_ref().map(|parts| RouteAction::Split(split(text, &parts.0, upstreams, diagnostics)));
    let redirect =
        value.redirect.as_ref().map(|text| RouteAction::Redirect(redirect(text, &place, diagnostics)));
    let respond =
        value.respond.as_ref().map(|text| RouteAction::Respond(Box::new(respond(text, &place, diagnostics))));
    let then = value.then.as_ref().map(|name| RouteAction::Then((&*name.value).into()));
    upstream.or(split).or(redirect).or(respond).or(then).unwrap_or(RouteAction::Upstream(UpstreamIndex(0)))
}

fn split(
    text: &SpannedTable<RouteText>,
    parts: &[SpannedTable<SplitText>],
    upstreams: &UpstreamLookup<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<SplitTarget> {
    let mut split: Vec<SplitTarget> = Vec::new();
    let by_name = text.value.split_by.is_some();
    for part in parts {
        report_weight(part, by_name, diagnostics);
        let SplitText { upstream, respond, weight, .. } = &part.value;
        let to = match (upstream, respond) {
            (Some(name), None) => {
                let found = diagnostics.len();
                let upstream = upstreams.find(name, diagnostics);
                let is_same = |other: &SplitTarget| other.upstream() == Some(upstream);
                if diagnostics.len() == found && split.iter().any(is_same) {
                    let message = format!("`{}` appears twice in the split", name.value);
                    let twice = Diagnostic::new(DiagnosticKind::Duplicate, name.span, message);
                    let help = if by_name { "leave one of them out" } else { "add the weights up" };
                    diagnostics.push(twice.help(help));
                }
                SplitAction::Upstream(upstream)
            }
            (None, Some(status)) => {
                report_without_upstream(part, diagnostics);
                SplitAction::Respond(*status)
            }
            (None, None) => {
                if part.is_missing("upstream") && part.is_missing("respond") {
                    let message =
                        "a target of a split has one of `upstream` and `respond`; this one has none";
                    diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, part.span, message));
                }
                continue;
            }
            (Some(name), Some(_)) => {
                let message = "a target of a split has one of `upstream` and `respond`; this one has both";
                let conflict = Diagnostic::new(DiagnosticKind::Conflict, part.key_at("respond"), message);
                diagnostics.push(conflict.label(name.span, "the other one"));
                continue;
            }
        };
        let weight = if by_name { 1 } else { weight.unwrap_or(0) };
        split.push(SplitTarget { to, weight, settings: None });
    }
    let has_weight = |part: &SpannedTable<SplitText>| by_name || part.written("weight").is_some();
    let all_sound = parts.iter().all(|part| part.is_sound && has_weight(part));
    if let Some((first, fault)) = parts.first().filter(|_| all_sound).zip(split_fault(&split)) {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, first.span, fault.to_string()));
    }
    split
}

/// A weight that is missing, or that has no effect.
fn report_weight(part: &SpannedTable<SplitText>, by_name: bool, diagnostics: &mut Vec<Diagnostic>) {
    match part.written("weight") {
        None if !by_name && part.is_missing("weight") => {
            let missing = Diagnostic::new(DiagnosticKind::MissingKey, part.span, "`weight` is missing");
            diagnostics.push(missing.help("`weight` is an integer from 0 to 1000000"));
        }
        Some(at) if by_name => {
            let message = "`weight` has no effect beside `split_by`, which chooses the target by its name";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
        _ => {}
    }
}

/// What chooses the target of the split by its name. It is asked as soon as the route is known, before clients are authenticated.
pub(in crate::check) fn split_by(
    text: &SpannedTable<RouteText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Template> {
    let written = text.value.split_by.as_ref()?;
    let place = TemplatePlace::before_access(text);
    templates::check(&written.value, written.span, &place, diagnostics);
    let mut report = |message: &str, help: &str| {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, written.span, message).help(help));
    };
    if text.is_missing("split") {
        let help =
            "write the upstreams that it may name: `split = [{ upstream = \"a\" }, { upstream = \"b\" }]`";
        report("`split_by` has no effect without `split`", help);
    } else if written.value.literal().is_some() {
        report(
            "`split_by` has no placeholder, so it always names the same upstream",
            "write `upstream` instead",
        );
    }
    let answers =
        text.value.split.iter().flat_map(|parts| &parts.0).filter(|part| part.value.respond.is_some());
    if let Some(second) = answers.clone().nth(1) {
        let message = "only one target with `respond` has the requests for which no upstream is named";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, second.key_at("respond"), message);
        diagnostics.push(diagnostic);
    }
    Some(written.value.clone())
}

/// Keys of a target that mean nothing where Weir answers itself.
fn report_without_upstream(part: &SpannedTable<SplitText>, diagnostics: &mut Vec<Diagnostic>) {
    for key in OF_REQUESTS {
        if part.written(key).is_some() {
            let message = format!("`{key}` needs `upstream`: a target with `respond` has no server");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, part.key_at(key), message));
        }
    }
}

/// Keys of targets that mean nothing to connections.
pub(in crate::check) fn report_targets_of_tcp(text: &RouteText, diagnostics: &mut Vec<Diagnostic>) {
    for part in text.split.iter().flat_map(|parts| &parts.0) {
        for at in OF_REQUESTS.into_iter().filter_map(|key| part.written(key).map(|at| (key, at))) {
            let message = format!("`{}` has no effect here: the listener speaks `tcp`", at.0);
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at.1, message));
        }
    }
}

/// The settings of the targets that change what the route settles for all.
pub(in crate::check) fn split_settings(
    text: &RouteText,
    (place, scope): (&TemplatePlace<'_>, &CheckScope<'_>),
    (action, settings): (&mut RouteAction, &RouteSettings),
    interner: &mut Interner<RouteSettings>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let (Some(parts), RouteAction::Split(targets)) = (&text.split, action) else { return };
    let leads =
        |part: &&SpannedTable<SplitText>| part.value.upstream.is_some() != part.value.respond.is_some();
    for (part, target) in parts.0.iter().filter(leads).zip(targets) {
        let SplitText { request_headers, response_headers, forward_host, mirror, .. } = &part.value;
        let request = headers::check_request(request_headers, place, diagnostics);
        let response = headers::check_response(response_headers, place, diagnostics);
        let mirrors = mirror::check_all(mirror.as_ref(), place, scope, diagnostics);
        let changes = !request.is_empty() || !response.is_empty() || forward_host.is_some();
        if target.upstream().is_none() || !changes && mirrors.is_empty() {
            continue;
        }
        let mut own = settings.clone();
        own.request_headers = settings.request_headers.followed_by(&request);
        own.response_headers = settings.response_headers.followed_by(&response);
        own.forward_host = forward_host.clone().unwrap_or(settings.forward_host.clone());
        own.mirrors.extend(mirrors);
        let of_route = settings.rule_faults();
        for ((key, fault), (_, known)) in own.rule_faults().into_iter().zip(of_route) {
            if let Some(fault) = fault.filter(|_| known.is_none()) {
                diagnostics.push(Diagnostic::new(
                    DiagnosticKind::BadValue,
                    part.key_at(key),
                    fault.to_string(),
                ));
            }
        }
        target.settings = Some(interner.intern(own));
    }
}

fn redirect(
    text: &SpannedTable<RedirectText>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Redirect {
    let to = text.value.to.as_ref().map(|to| {
        templates::check(&to.value.0, to.span, place, diagnostics);
        templates::warn_of_variables(&to.value.0, to.span, diagnostics);
        to.value.0.clone()
    });
    Redirect::new(to.unwrap_or_default(), text.value.status)
}

fn respond(
    text: &SpannedTable<RespondText>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> FixedResponse {
    let value = &text.value;
    let body_with_values = PageText::of_answer(&value.body);
    for named in body_with_values.iter().flat_map(PageText::values) {
        templates::check_value(named, text.key_at("body"), place, diagnostics);
    }
    let response = FixedResponse {
        status: value.status,
        body: value.body.clone(),
        body_with_values,
        content_type: value.content_type.clone(),
        headers: headers::check_fixed(&value.headers, place, diagnostics),
    };
    if let Some(fault) = response.fault() {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at("body"), fault.to_string()));
    }
    response
}
