//! `error_pages` of a listener or a route: statuses of failures, files that can be read.

use std::io::Read as _;
use std::path::Path;

use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::files::Files;
use crate::check::routing::redirect;
use crate::check::scope::CheckScope;
use crate::check::templates::TemplatePlace;
use crate::config::{ErrorPage, ErrorStep, PageText, RemotePage, RouteTarget, ServerProtocol};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{ErrorPageText, ErrorPagesText, value_error};
use crate::value::{Template, TemplateValue};

/// Larger files are none for a failure.
const PAGE_BYTES_MAX: u64 = 256 * 1024;

pub(in crate::check) fn check(
    text: Option<&ErrorPagesText>,
    place: &TemplatePlace<'_>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<ErrorPage> {
    let Some(pages) = text else { return Vec::new() };
    pages.0.iter().map(|page| check_page(page, place, around, diagnostics)).collect()
}

fn check_page(
    text: &SpannedTable<ErrorPageText>,
    place: &TemplatePlace<'_>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ErrorPage {
    let ErrorPageText { status, html, json, of_servers, .. } = &text.value;
    let status: Vec<_> = status.iter().flat_map(|status| status.0.iter().copied()).collect();
    if let Some(range) = status.iter().find(|range| (200..=399).any(|status| range.contains(status))) {
        let message = format!("`{range}` has statuses of success: they have no error page");
        let help = "failures have 400 to 599";
        let at = text.key_at("status");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
    }
    if ["html", "json", "upstream", "then", "redirect"].iter().all(|key| text.is_missing(key)) {
        let message = "the page has no file";
        let help = "write `html`, `json` or both, the `upstream` that it is fetched from, or where the request goes on with `then`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
    }
    let remote = check_remote(text, around, diagnostics);
    let asked = ConditionPlace::new(place, Stage::ResponseHead, "when a page is chosen");
    let when = conditions::check(text.value.when.as_ref(), &asked, diagnostics);
    let mut page = |file: &Option<Spanned<Box<str>>>| read_page(file.as_ref()?, around.files, diagnostics);
    let (html, json) = (page(html), page(json));
    let then = check_step(text, diagnostics);
    ErrorPage {
        status,
        when,
        html,
        json,
        of_servers: *of_servers,
        remote,
        then,
        new_status: text.value.new_status,
    }
}

/// What happens instead of a page, and with which status.
fn check_step(text: &SpannedTable<ErrorPageText>, diagnostics: &mut Vec<Diagnostic>) -> Option<ErrorStep> {
    let ErrorPageText { then, redirect, new_status, status_of_target, .. } = &text.value;
    let mut conflict = |key: &str, message: String| {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at(key), message));
    };
    let kinds = ["then", "redirect", "upstream", "html", "json"];
    if let Some(first) = kinds[..2].iter().find(|key| text.written(key).is_some())
        && let Some(second) = kinds.iter().find(|key| *key != first && text.written(key).is_some())
    {
        conflict(second, format!("`{second}` has no effect beside `{first}`, which is no page"));
    }
    let is_redirect = |status: u16| matches!(status, 301 | 302 | 303 | 307 | 308);
    match new_status {
        Some(status) if redirect.is_some() != is_redirect(*status) || *status == 304 => {
            let message = match redirect {
                Some(_) => format!("{status} is not the status of a redirect"),
                None => format!("{status} is the status of a redirect, and there is no `redirect`"),
            };
            conflict("new_status", message);
        }
        Some(status @ (204 | 205)) if then.is_some() => {
            conflict("new_status", format!("{status} has no body, and the route of `then` may have one"));
        }
        Some(205) => conflict("new_status", "205 has no body, and a page is one".to_owned()),
        Some(_) if *status_of_target => {
            conflict("status_of_target", "`new_status` and `status_of_target` exclude each other".to_owned());
        }
        _ => {}
    }
    if *status_of_target && then.is_none() {
        conflict("status_of_target", "`status_of_target` has no effect without `then`".to_owned());
    }
    let step = match (then, redirect) {
        (Some(target), _) => ErrorStep::Target { target: target.clone(), has_own_status: *status_of_target },
        (None, Some(to)) => ErrorStep::Redirect(to.0.clone()),
        (None, None) => return None,
    };
    let (key, template) = match &step {
        ErrorStep::Target { target: RouteTarget::Path(path), .. } => ("then", Some(path)),
        ErrorStep::Target { .. } => ("then", None),
        ErrorStep::Redirect(to) => ("redirect", Some(to)),
    };
    let is_there = |value: &&TemplateValue| {
        let is_of_request =
            value.stage() <= Stage::Identity && !matches!(value, TemplateValue::MatchGroup(_));
        is_of_request || **value == TemplateValue::Status
    };
    for value in template.into_iter().flat_map(Template::values).filter(|value| !is_there(value)) {
        let message = format!("`{{{}}}` has no value here", value.name());
        let help = "there are `{status}` and what is known of the request";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at(key), message).help(help));
    }
    if let ErrorStep::Redirect(to) = &step {
        redirect::check_own_values(to, text.key_at(key), diagnostics);
    }
    Some(step)
}

/// Where the page is fetched from, if it is.
fn check_remote(
    text: &SpannedTable<ErrorPageText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<RemotePage> {
    let ErrorPageText { upstream, path, forward_host, timeout, body_size, ttl, .. } = &text.value;
    let Some(named) = upstream else {
        // A name that could not be read has been reported.
        let keys = ["path", "forward_host", "timeout", "body_size", "ttl"];
        for key in keys.into_iter().filter(|_| text.is_missing("upstream")) {
            if let Some(at) = text.changed(key) {
                let message = format!("`{key}` has no effect without `upstream`");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
            }
        }
        return None;
    };
    if around.upstreams.protocol(&named.value) == Some(ServerProtocol::Fastcgi) {
        let message = "pages are fetched over HTTP, not over FastCGI";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, named.span, message));
    }
    for error in path.0.values().filter(|value| value.own().is_some()).filter_map(value_error) {
        let at = text.key_at("path");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, error.message).help_if(error.help));
    }
    Some(RemotePage {
        upstream: around.upstreams.find_fixed(named, diagnostics),
        path: path.0.clone(),
        forward_host: forward_host.clone(),
        timeout: *timeout,
        body_size: *body_size,
        ttl: *ttl,
    })
}

fn read_page(
    file: &Spanned<Box<str>>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<PageText> {
    let path = files.path(file);
    if !files.may_read {
        return None;
    }
    match read(&path) {
        Ok(text) => Some(PageText::parse(&text)),
        Err(why) => {
            let message = format!("`{}` {why}", path.display());
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, file.span, message));
            None
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a file".to_owned());
    }
    file.take(PAGE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > PAGE_BYTES_MAX {
        return Err(format!("is larger than {} KiB", PAGE_BYTES_MAX / 1024));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}
