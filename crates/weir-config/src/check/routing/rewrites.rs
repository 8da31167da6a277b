//! `rewrite`, `then` and `internal`: groups that the patterns have, targets that are there, and no key that would be passed over.

use std::collections::HashMap;

use weir_traffic::rewrite::{Rewrite, RewriteError};

use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::{RewriteFlag, RewriteRule, Route, RouteAction, is_url};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::{ConfigSection as _, SpannedTable};
use crate::text::{ListenerText, RewriteText, RouteText};
use crate::value::TemplatePart;

/// What a route with `then` has of its own; the rest is that of the other route.
const OF_THEN: [&str; 16] = [
    "name",
    "host",
    "path",
    "path_begins",
    "path_exact",
    "path_regex",
    "before_regex",
    "method",
    "header",
    "query",
    "source",
    "when",
    "priority",
    "internal",
    "rewrite",
    "then",
];

/// Keys by which a route refuses requests.
const OF_ACCESS: [&str; 4] = ["lists", "basic", "jwt", "forward_auth"];

/// The rewrites of a listener or a route.
pub(in crate::check) fn check(
    rules: &[SpannedTable<RewriteText>],
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<RewriteRule> {
    rules.iter().filter_map(|rule| check_rule(rule, place, diagnostics)).collect()
}

fn check_rule(
    text: &SpannedTable<RewriteText>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<RewriteRule> {
    let (pattern, written) = (text.value.pattern.as_ref()?, text.value.replacement.as_ref()?);
    let (pattern, replacement) = (pattern.0.with_groups(), &written.value.0);
    templates::check(replacement, written.span, place, diagnostics);
    for part in replacement.parts() {
        let TemplatePart::Literal(literal) = part else { continue };
        if let Err(error @ RewriteError::NoSuchGroup(_)) = Rewrite::of_pattern(pattern.clone(), literal) {
            let help =
                "a placeholder is `{host}`, not `$host`; write a group before a letter or digit as `$${1}`";
            let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, written.span, error.to_string());
            diagnostics.push(diagnostic.help(help));
        }
    }
    let flag = text.value.flag;
    if is_url(replacement) && flag.redirect_status().is_none() {
        let message = "a URL can only be redirected to";
        let help = "write `flag = \"redirect\"` (302) or `flag = \"permanent\"` (301)";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, written.span, message).help(help));
    }
    Some(RewriteRule::new(pattern, replacement.clone(), flag))
}

/// Reports what a route passes over that leaves its requests to others.
pub(in crate::check) fn report(
    text: &SpannedTable<RouteText>,
    action: &RouteAction,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let RouteAction::Then(name) = action {
        let keys = RouteText::SECTION.keys.iter().map(|key| key.name).filter(|key| !OF_THEN.contains(key));
        for at in keys.filter_map(|key| Some((key, text.changed(key)?))) {
            let message = format!("`{}` has no effect with `then`: that of the route `{name}` counts", at.0);
            let help = format!("write it on the route `{name}`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at.1, message).help(help));
        }
    }
    let leaves = |rule: &SpannedTable<RewriteText>| {
        matches!(rule.value.flag, RewriteFlag::Continue | RewriteFlag::Last)
    };
    if let Some(rule) = text.value.rewrite.iter().find(|rule| leaves(rule))
        && let Some((key, at)) = OF_ACCESS.into_iter().find_map(|key| Some((key, text.changed(key)?)))
    {
        let message = format!("`{key}` is not asked about requests that `rewrite` takes to another route");
        let help = "only what the route asks counts that finally takes the request: write it there, too, or on the listener";
        let diagnostic = Diagnostic::new(DiagnosticKind::Suspicious, at, message);
        diagnostics.push(diagnostic.label(rule.span, "leaves the route").help(help));
    }
    if let Some(at) = text
        .changed("before_regex")
        .filter(|_| ["path", "path_begins"].iter().all(|key| text.written(key).is_none()))
    {
        let message = "`before_regex` has no effect without `path` or `path_begins`";
        let help = "an exact path goes before regular expressions anyway";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
}

/// Reports targets that are not there, internal routes that nothing can reach, and circles of `then`.
pub(in crate::check) fn check_targets(
    text: &SpannedTable<ListenerText>,
    routes: &[Route],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let named: HashMap<&str, &Route> = routes.iter().map(|route| (&*route.name, route)).collect();
    let mut report = |target: &str, at| {
        let message = format!("the listener has no route with the name `{target}`");
        let known = text.value.route.iter().filter_map(|one| one.value.name.as_ref());
        let help = did_you_mean(target, known.map(|name| &*name.value))
            .unwrap_or_else(|| format!("give it to a route: `name = \"{target}\"`"));
        diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, at, message).help(help));
    };
    let pages = || text.value.error_pages.iter().flat_map(|pages| &pages.0);
    let of_listener = || pages().filter_map(|page| Some((page, page.value.then.as_ref()?.route()?)));
    for (page, target) in of_listener().filter(|(_, target)| !named.contains_key(&***target)) {
        report(target, page.key_at("then"));
    }
    for (route, written) in routes.iter().zip(&text.value.route) {
        let own = route.targets().filter(|target| !of_listener().any(|(_, shared)| shared == *target));
        for target in own.filter(|target| !named.contains_key(&***target)) {
            report(target, place_of(written, target));
        }
    }
    for (route, written) in routes.iter().zip(&text.value.route) {
        if leads_back(route, &named, routes.len()) {
            let message = format!("`then` leads back to the route `{}`", route.name);
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, written.key_at("then"), message));
        }
        if route.is_only_named() && written.value.name.is_none() && written.is_sound {
            let message = "no request can reach this internal route: it has neither a `name` nor anything that it matches";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, written.key_at("internal"), message);
            diagnostics.push(diagnostic.help("write `name = \"...\"`, or the `path` that rewrites lead to"));
        }
    }
}

/// Where a route names another one.
fn place_of(text: &SpannedTable<RouteText>, target: &str) -> crate::diagnostic::SourceSpan {
    let then = text.value.then.as_ref().filter(|name| *name.value == *target).map(|name| name.span);
    let fallback = text.value.files.as_ref().and_then(|files| files.changed("fallback"));
    let pages =
        || text.value.error_pages.iter().flat_map(|pages| &pages.0).find_map(|page| page.changed("then"));
    let sendfile = text.value.x_sendfile.as_ref().filter(|name| *name.value == *target).map(|name| name.span);
    then.or(sendfile).or(fallback).or_else(pages).unwrap_or(text.span)
}

fn leads_back(route: &Route, named: &HashMap<&str, &Route>, count: usize) -> bool {
    let next = |at: &&Route| match &at.action {
        RouteAction::Then(name) => named.get(&**name).copied(),
        _ => None,
    };
    std::iter::successors(Some(route), next).skip(1).take(count).any(|one| one.name == route.name)
}
