//! Header changes of a route: well-formed, without duplicates, and without headers that Weir sets itself.

use std::time::Duration;

use super::rewriting::CheckedRewriting;
use super::{error_pages, expires, header_rules};
use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::scope::CheckScope;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::{ErrorPage, HeaderChanges, HeaderRule, ListenerHttp3, RouteFault};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Map, Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{HeaderChangesText, HeadersText, HstsText, ListenerText, RouteText, RuleStatus};
pub(in crate::check) use crate::value::FRAMING;
use crate::value::{HeaderName, HeaderTemplate, HeaderValue};

/// What lists of sites with `Strict-Transport-Security` ask for.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The help text for variables of other products where there is no exchange.
const NO_EXCHANGE_HINT: &str = "Weir sends this request itself: there is no exchange that values could be of";

/// What a listener settles for all its routes.
#[derive(Debug, Clone, Default)]
pub(in crate::check) struct ListenerDefaults {
    pub(in crate::check) request: HeaderChanges,
    pub(in crate::check) response: HeaderChanges,
    pub(in crate::check) error_pages: Vec<ErrorPage>,
    pub(in crate::check) rewriting: CheckedRewriting,
    /// Whether it has TLS, as far as can be read.
    pub(in crate::check) has_tls: bool,
}

/// The changes of a listener, with `Strict-Transport-Security` if it wants that.
pub(in crate::check) fn check_listener(
    text: &SpannedTable<ListenerText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ListenerDefaults {
    let ListenerText { request_headers, response_headers, hsts, .. } = &text.value;
    let place = TemplatePlace::SHARED;
    let request = check_request(request_headers, &place, diagnostics);
    let (hsts, has_tls) = (hsts.as_ref().map(|hsts| (hsts, text.key_at("hsts"))), !text.is_missing("tls"));
    let response =
        with_hsts(check_response(response_headers, &place, diagnostics), hsts, has_tls, diagnostics);
    let response = with_alt_svc(response, text.value.http3.as_ref());
    let error_pages = error_pages::check(text.value.error_pages.as_ref(), &place, around, diagnostics);
    let rewriting = CheckedRewriting::of_listener(&text.value, &place, diagnostics);
    ListenerDefaults { request, response, error_pages, rewriting, has_tls }
}

/// The changes of a route to responses, with `Strict-Transport-Security` if it wants that.
pub(in crate::check) fn check_response_of_route(
    text: &SpannedTable<RouteText>,
    place: &TemplatePlace<'_>,
    has_tls: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    let changes = check_response(&text.value.response_headers, place, diagnostics);
    let changes = expires::check(text, place, diagnostics).followed_by(&changes);
    let hsts = text.value.hsts.as_ref().map(|hsts| (hsts, text.key_at("hsts")));
    with_hsts(changes, hsts, has_tls, diagnostics)
}

fn with_hsts(
    mut changes: HeaderChanges,
    hsts: Option<(&SpannedTable<HstsText>, SourceSpan)>,
    has_tls: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    let header = hsts.and_then(|(hsts, key)| check_hsts((hsts, key), &changes, has_tls, diagnostics));
    changes.set.extend(header);
    changes
}

/// With the header that tells clients of HTTP/3 on the port that they know, unless the config has one of its own.
fn with_alt_svc(mut changes: HeaderChanges, http3: Option<&SpannedTable<ListenerHttp3>>) -> HeaderChanges {
    const NAME: &str = "alt-svc";
    let age = http3.map_or(0, |http3| http3.value.alt_svc_max_age.as_secs());
    if age > 0 && !changes.given().any(|(name, _)| &**name == NAME) {
        let value = format!("h3=\":{{port}}\"; ma={age}");
        changes.set.extend(NAME.parse().ok().zip(value.parse().ok()));
    }
    changes
}

/// The header for `hsts`.
fn check_hsts(
    (hsts, key): (&SpannedTable<HstsText>, SourceSpan),
    response: &HeaderChanges,
    has_tls: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<(HeaderName, HeaderTemplate)> {
    const NAME: &str = "strict-transport-security";
    let HstsText { max_age, subdomains, preload } = hsts.value;
    if !has_tls {
        let message = "`hsts` needs `tls`: browsers ignore it on a plain connection (RFC 6797 section 8.1)";
        let help = "write it for the listener with TLS, and redirect this one to that";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, key, message).help(help));
    }
    if preload && (!subdomains || max_age < YEAR) {
        let message = "`preload` needs `subdomains = true` and a `max_age` of a year";
        let help = "lists of sites to build in take no other: <https://hstspreload.org>";
        let at = hsts.key_at("preload");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    if response.given().any(|(name, _)| &**name == NAME) {
        let message = format!("`{NAME}` is set by `hsts` and by `response_headers`");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Duplicate, key, message).help("remove one of them"));
    }
    let subdomains = if subdomains { "; includeSubDomains" } else { "" };
    let preload = if preload { "; preload" } else { "" };
    let value = format!("max-age={}{subdomains}{preload}", max_age.as_secs());
    NAME.parse().ok().zip(value.parse().ok())
}

pub(in crate::check) fn check_request(
    text: &HeadersText,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    for table in &text.0 {
        for key in ["status", "from"] {
            if let Some(at) = table.written(key) {
                let message = format!("`{key}` is of responses: a request has none");
                let help = "write it in `response_headers`";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
            }
        }
    }
    let place = TemplatePlace { stage: Stage::Server, ..*place };
    let when = "when a request goes to a server";
    check_all(text, &[("host", "write `forward_host`")], (&place, when), diagnostics)
}

pub(in crate::check) fn check_response(
    text: &HeadersText,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    let place = TemplatePlace { stage: Stage::ResponseFields, ..*place };
    check_all(text, &[], (&place, "when a response goes to the client"), diagnostics)
}

/// The tables, each on top of those before it.
fn check_all(
    text: &HeadersText,
    elsewhere: &[(&str, &str)],
    (place, when): (&TemplatePlace<'_>, &'static str),
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    let mut all = HeaderChanges::default();
    for table in &text.0 {
        let changes = check(&table.value, elsewhere, place, diagnostics);
        let value = &table.value;
        let condition_place = ConditionPlace::new(place, place.stage, when);
        let rule = HeaderRule {
            when: conditions::check(value.when.as_ref(), &condition_place, diagnostics),
            status: value.status.as_ref().map(|status| RuleStatus::ranges(&status.0)).unwrap_or_default(),
            from: value.from.iter().flat_map(|from| from.0.iter().copied()).collect(),
            ..HeaderRule::default()
        };
        let is_of_responses = place.stage == Stage::ResponseFields;
        let changes = match is_of_responses && value.status.is_none() {
            true => header_rules::of_success(&rule, changes),
            false => header_rules::under(&rule, changes),
        };
        all = all.followed_by(&changes);
    }
    all
}

/// The headers of a response from the config.
pub(in crate::check) fn check_fixed(
    map: &Map<HeaderTemplate>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderTemplate)> {
    let elsewhere = [("content-type", "write `content_type`")];
    named(map, &elsewhere, diagnostics, |value, span, diagnostics| {
        check_template(value, span, place, diagnostics);
    })
}

/// The headers of files.
pub(in crate::check) fn check_of_files(
    map: &Map<HeaderTemplate>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderTemplate)> {
    let elsewhere = [("content-type", "write `types` or `default_type`")];
    named(map, &elsewhere, diagnostics, |value, span, diagnostics| {
        check_template(value, span, place, diagnostics);
    })
}

/// The headers of a probe from the config.
pub(in crate::check) fn check_probe(
    map: &Map<HeaderValue>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderValue)> {
    check_own(map, &[("host", "write `host = ...` next to `headers`")], diagnostics)
}

/// The headers of a question about a request.
pub(in crate::check) fn check_question(
    map: &Map<HeaderTemplate>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderTemplate)> {
    let place = TemplatePlace { stage: Stage::Route, ..TemplatePlace::SHARED };
    let elsewhere = [("host", "write `forward_host`")];
    named(map, &elsewhere, diagnostics, |value, span, diagnostics| {
        check_template(value, span, &place, diagnostics);
    })
}

/// Headers of a request of Weir's own, none of which may be one of `elsewhere`.
pub(in crate::check) fn check_own(
    map: &Map<HeaderValue>,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, elsewhere, diagnostics, |value, span, diagnostics| {
        templates::warn(value, span, NO_EXCHANGE_HINT, diagnostics);
    })
}

/// A template with values that have to be there.
fn check_template(
    template: &HeaderTemplate,
    span: SourceSpan,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    templates::check(template, span, place, diagnostics);
    templates::warn_of_variables(template, span, diagnostics);
}

fn check(
    text: &HeaderChangesText,
    elsewhere: &[(&str, &str)],
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    for name in &text.remove {
        report_reserved(name, elsewhere, diagnostics);
    }
    let changes = HeaderChanges {
        remove: text.remove.iter().map(|name| name.value.clone()).collect(),
        set: named(&text.set, elsewhere, diagnostics, |value, span, diagnostics| {
            check_template(value, span, place, diagnostics);
        }),
        add: named(&text.add, elsewhere, diagnostics, |value, span, diagnostics| {
            check_template(value, span, place, diagnostics);
        }),
        rules: Vec::new(),
    };
    for (name, _) in &text.set.0 {
        let lower = name.value.to_ascii_lowercase();
        if let Some(removed) = text.remove.iter().find(|removed| *removed.value == *lower) {
            let message = format!("`{}` is removed without effect: it is set afterwards", name.value);
            diagnostics.push(
                Diagnostic::new(DiagnosticKind::Suspicious, removed.span, message)
                    .label(name.span, "set here"),
            );
        }
    }
    changes
}

fn named<T: Clone>(
    map: &Map<T>,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
    check_value: impl Fn(&T, SourceSpan, &mut Vec<Diagnostic>),
) -> Vec<(HeaderName, T)> {
    let mut headers: Vec<(HeaderName, T)> = Vec::new();
    for (name, value) in &map.0 {
        match name.value.parse::<HeaderName>() {
            Ok(header) => {
                report_reserved(&Spanned { value: header.clone(), span: name.span }, elsewhere, diagnostics);
                if headers.iter().any(|(other, _)| *other == header) {
                    let message = format!("`{header}` appears twice: header names are case-insensitive");
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Duplicate, name.span, message));
                }
                check_value(value, name.span, diagnostics);
                headers.push((header, value.clone()));
            }
            Err(error) => {
                diagnostics.push(
                    Diagnostic::new(DiagnosticKind::BadValue, name.span, error.message).help_if(error.help),
                );
            }
        }
    }
    headers
}

pub(in crate::check) fn report_reserved(
    name: &Spanned<HeaderName>,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let Some(fault) = RouteFault::of_changed_header(&name.value) {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, fault.to_string()));
    }
    if let Some((_, help)) = elsewhere.iter().find(|(reserved, _)| *reserved == &*name.value) {
        let message = format!("`{}` cannot be changed here", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, message).help(*help));
    }
}
