//! Header changes of a route: well-formed, without duplicates, and without headers that Weir sets itself.

use super::templates;
use crate::config::HeaderChanges;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Map, Spanned};
use crate::text::HeaderChangesText;
use crate::value::{HeaderName, HeaderValue};

/// Headers that frame a message or control the connection. Changing one would break the headers that Weir sets.
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

/// The help text for such variables: the headers in which Weir itself sends these values.
const TEMPLATE_HINT: &str = "the client is in `X-Forwarded-*`, see `forwarded` of the listener, and the id of the request in `request_id`";

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
    named(map, &[("host", "write `host = ...` next to `headers`")], diagnostics)
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
            let message = format!("`{}` is removed without effect: it is set afterwards", name.value);
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
                    let message = format!("`{header}` appears twice: header names are case-insensitive");
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
        let message = format!("`{}` cannot be changed: Weir sets it for each connection", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, message));
    }
    if let Some((_, help)) = elsewhere.iter().find(|(reserved, _)| *reserved == &*name.value) {
        let message = format!("`{}` cannot be changed here", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, message).help(*help));
    }
}
