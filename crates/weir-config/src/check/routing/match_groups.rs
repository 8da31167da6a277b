//! Groups of `path_regex` in what several routes share: keys of limits and lists, formats of access logs. There a group has a value for the
//! routes that have it.

use crate::config::{
    AccessLog, CookieRewrite, ErrorPage, FilesFallback, PageText, RouteAction, RouteSettings,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{Document, ListenerText, RouteAccessLogText, RouteText};
use crate::value::{Template, TemplateValue, WhenCondition};

/// Whether something that a route uses shows what a group of its path has matched.
pub(in crate::check) fn are_shown(settings: &RouteSettings, action: &RouteAction, log: &AccessLog) -> bool {
    let RouteSettings { request_headers, response_headers, cache, fastcgi, error_pages, .. } = settings;
    let is_group = |value: &TemplateValue| {
        value.leaves().iter().any(|leaf| matches!(leaf, TemplateValue::MatchGroup(_)))
    };
    let in_action = match action {
        RouteAction::Respond(fixed) => {
            let mut in_body = fixed.body_with_values.iter().flat_map(PageText::values);
            in_body.any(is_group) || fixed.headers.iter().any(|(_, value)| value.values().any(is_group))
        }
        RouteAction::Redirect(redirect) => redirect.to.values().any(is_group),
        RouteAction::Files(files) => {
            let target = match &files.fallback {
                Some(FilesFallback::Target(target)) => Some(target),
                Some(FilesFallback::Status(_)) | None => None,
            };
            files.try_files.iter().any(|path| path.values().any(is_group))
                || target.is_some_and(|target| target.values().any(is_group))
        }
        RouteAction::Split(parts) => parts
            .iter()
            .filter_map(|part| part.settings.as_ref())
            .any(|own| own.request_headers.values().chain(own.response_headers.values()).any(is_group)),
        RouteAction::Upstream(_) | RouteAction::Then(_) => false,
    };
    let mut params = fastcgi.iter().flat_map(|fastcgi| &fastcgi.params);
    let limits = settings.limited_by.iter().map(|one| &one.limit.key);
    let tables = settings.tracked.iter().map(|table| &table.definition.key);
    let mut keys = limits.chain(settings.lists.iter().map(|list| &list.key)).chain(tables);
    let of_limits = settings.limited_by.iter().map(|one| &one.limit.when);
    let of_lists = settings.lists.iter().map(|list| &list.when);
    let of_mirrors = settings.mirrors.iter().map(|mirror| &mirror.when);
    let of_cache = cache.iter().flat_map(|cache| [&cache.when, &cache.refresh_when, &cache.store_when]);
    let of_tables =
        settings.tracked.iter().flat_map(|table| std::iter::once(&table.when).chain(&table.increments));
    let conditions =
        of_limits.chain(of_tables).chain(of_lists).chain(of_mirrors).chain(of_cache).chain([&log.when]);
    let mut asked = conditions.flatten().flat_map(WhenCondition::values);
    in_action
        || settings.rewrites.iter().any(|rule| rule.replacement.values().any(is_group))
        || asked.any(is_group)
        || keys.any(|key| key.values().any(is_group))
        || cache.iter().any(|cache| cache.templates().flat_map(Template::values).any(is_group))
        || params.any(|(_, template)| template.values().any(is_group))
        || error_pages.iter().flat_map(ErrorPage::values).any(is_group)
        || settings.rewrite_body.iter().flat_map(|rewrite| rewrite.values()).any(is_group)
        || settings.rewrite_location.iter().flat_map(|rewrite| rewrite.values()).any(is_group)
        || settings.rewrite_cookies.iter().flat_map(CookieRewrite::values).any(is_group)
        || request_headers.values().any(is_group)
        || response_headers.values().any(is_group)
        || log.format.as_ref().is_some_and(|format| {
            format.format().match_groups().next().is_some() || format.own_values().iter().any(is_group)
        })
}

/// The access log that the lines of a route go to.
pub(in crate::check) fn log_of<'a>(
    route: &'a RouteText,
    listener: &'a ListenerText,
    document: &'a Document,
) -> &'a AccessLog {
    match (&route.access_log, &listener.access_log) {
        (RouteAccessLogText::Own(log), _) => &log.value,
        (RouteAccessLogText::OfListener(_), Some(log)) => &log.value,
        (RouteAccessLogText::OfListener(_), None) => &document.access_log.value,
    }
}

/// Reports groups that no route has.
pub(in crate::check) fn report_unknown(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let all: Vec<_> = document.listener.0.iter().flat_map(|(_, text)| &text.value.route).collect();
    let keys = document.limit.0.iter().map(|(_, text)| &text.value.key);
    let keys = keys.chain(document.list.0.iter().map(|(_, text)| &text.value.key));
    let keys = keys.chain(document.table.0.iter().map(|(_, text)| &text.value.key));
    let keys = keys.map(|key| (key.span, key.value.leaves().collect::<Vec<_>>()));
    let of_limits = document.limit.0.iter().flat_map(|(_, text)| &text.value.when);
    let asked = of_limits.chain(document.list.0.iter().flat_map(|(_, text)| &text.value.when));
    let of_tables = document.table.0.iter().flat_map(|(_, text)| text.value.conditions());
    let asked = asked.chain(of_tables).map(|when| (when.span, when.value.values().collect::<Vec<_>>()));
    for (span, values) in keys.chain(asked) {
        for value in values {
            if let TemplateValue::MatchGroup(group) = value {
                report(group, span, &all, diagnostics);
            }
        }
    }
    report_in_log(&document.access_log, &all, diagnostics);
    for (_, listener) in &document.listener.0 {
        let routes: Vec<_> = listener.value.route.iter().collect();
        if let Some(log) = &listener.value.access_log {
            report_in_log(log, &routes, diagnostics);
        }
        for route in routes {
            if let RouteAccessLogText::Own(log) = &route.value.access_log {
                report_in_log(log, &[route], diagnostics);
            }
        }
    }
}

fn report_in_log(
    log: &SpannedTable<AccessLog>,
    routes: &[&SpannedTable<RouteText>],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(format) = &log.value.format else { return };
    for group in format.format().match_groups() {
        report(group, log.key_at("format"), routes, diagnostics);
    }
}

fn report(
    group: &str,
    span: SourceSpan,
    routes: &[&SpannedTable<RouteText>],
    diagnostics: &mut Vec<Diagnostic>,
) {
    // A pattern that could not be read may have the group.
    let may_have = |route: &&SpannedTable<RouteText>| {
        let is_written = route.written("path_regex").is_some();
        route.value.path_regex.as_ref().map_or(is_written, |pattern| pattern.0.with_groups().has_group(group))
    };
    if !routes.iter().any(may_have) {
        let message =
            format!("`{{match.{group}}}` has no value: no route has a `path_regex` with a group `{group}`");
        let help = "a group is `(...)`, counted from 1, or `(?<name>...)`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, span, message).help(help));
    }
}
