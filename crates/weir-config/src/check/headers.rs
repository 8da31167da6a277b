//! Headers that a route changes: well-formed, none twice, and none that belongs to Weir.

use super::templates;
use crate::config::HeaderChanges;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Map, Spanned};
use crate::text::HeaderChangesText;
use crate::value::{HeaderName, HeaderValue};

/// Headers that say where a message ends or what becomes of the connection. Setting one would break what Weir itself writes.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// What Weir says by itself of what such variables stand for.
const TEMPLATE_HINT: &str = "servers get the client in `X-Forwarded-*`, see `forwarded` of the listener, and the id of the request by `request_id`";

pub(super) fn check_request(text: &HeaderChangesText, diagnostics: &mut Vec<Diagnostic>) -> HeaderChanges {
    check(text, &[("host", "write `forward_host`")], diagnostics)
}

pub(super) fn check_response(text: &HeaderChangesText, diagnostics: &mut Vec<Diagnostic>) -> HeaderChanges {
    check(text, &[], diagnostics)
}

/// The headers of a response from the config.
pub(super) fn check_fixed(
    map: &Map<HeaderValue>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, &[("content-type", "write `content_type`")], diagnostics)
}

/// The headers of a probe from the config.
pub(super) fn check_probe(
    map: &Map<HeaderValue>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, &[("host", "write `host = ...` beside `headers`")], diagnostics)
}

/// Headers of a request of Weir's own, none of which may be one of `elsewhere`.
pub(super) fn check_own(
    map: &Map<HeaderValue>,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, elsewhere, diagnostics)
}

fn check(
    text: &HeaderChangesText,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    for name in &text.remove {
        report_reserved(name, elsewhere, diagnostics);
    }
    let changes = HeaderChanges {
        remove: text.remove.iter().map(|name| name.value.clone()).collect(),
        set: named(&text.set, elsewhere, diagnostics),
        add: named(&text.add, elsewhere, diagnostics),
    };
    for (name, _) in &text.set.0 {
        let lower = name.value.to_ascii_lowercase();
        if let Some(removed) = text.remove.iter().find(|removed| *removed.value == *lower) {
            let message = format!("`{}` need not be removed: it is set afterwards", name.value);
            diagnostics.push(
                Diagnostic::new(DiagnosticKind::Suspicious, removed.span, message)
                    .label(name.span, "set here"),
            );
        }
    }
    changes
}

fn named(
    map: &Map<HeaderValue>,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, value) in &map.0 {
        match name.value.parse::<HeaderName>() {
            Ok(header) => {
                report_reserved(&Spanned { value: header.clone(), span: name.span }, elsewhere, diagnostics);
                if headers.iter().any(|(other, _)| *other == header) {
                    let message =
                        format!("`{header}` stands here twice: the case of a header does not matter");
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Duplicate, name.span, message));
                }
                templates::warn(value, name.span, TEMPLATE_HINT, diagnostics);
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

pub(super) fn report_reserved(
    name: &Spanned<HeaderName>,
    elsewhere: &[(&str, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) {
    if FRAMING.contains(&&*name.value) {
        let message = format!("`{}` cannot be changed: Weir writes it for each connection", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, message));
    }
    if let Some((_, help)) = elsewhere.iter().find(|(reserved, _)| *reserved == &*name.value) {
        let message = format!("`{}` cannot be changed here", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, message).help(*help));
    }
}
