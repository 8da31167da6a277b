//! Headers that a route changes: well-formed, none twice, and none that belongs to Weir.

use super::templates;
use crate::config::HeaderChanges;
use crate::key::{Map, Spanned};
use crate::mistake::{Finding, MistakeKind};
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

pub(super) fn check_request(text: &HeaderChangesText, findings: &mut Vec<Finding>) -> HeaderChanges {
    check(text, &[("host", "write `forward_host`")], findings)
}

pub(super) fn check_response(text: &HeaderChangesText, findings: &mut Vec<Finding>) -> HeaderChanges {
    check(text, &[], findings)
}

/// The headers of a response from the config.
pub(super) fn check_fixed(
    map: &Map<HeaderValue>,
    findings: &mut Vec<Finding>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, &[("content-type", "write `content_type`")], findings)
}

/// The headers of a probe from the config.
pub(super) fn check_probe(
    map: &Map<HeaderValue>,
    findings: &mut Vec<Finding>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, &[("host", "write `host = ...` beside `headers`")], findings)
}

/// Headers of a request of Weir's own, none of which may be one of `elsewhere`.
pub(super) fn check_own(
    map: &Map<HeaderValue>,
    elsewhere: &[(&str, &str)],
    findings: &mut Vec<Finding>,
) -> Vec<(HeaderName, HeaderValue)> {
    named(map, elsewhere, findings)
}

fn check(text: &HeaderChangesText, elsewhere: &[(&str, &str)], findings: &mut Vec<Finding>) -> HeaderChanges {
    for name in &text.remove {
        report_reserved(name, elsewhere, findings);
    }
    let changes = HeaderChanges {
        remove: text.remove.iter().map(|name| name.value.clone()).collect(),
        set: named(&text.set, elsewhere, findings),
        add: named(&text.add, elsewhere, findings),
    };
    for (name, _) in &text.set.0 {
        let lower = name.value.to_ascii_lowercase();
        if let Some(removed) = text.remove.iter().find(|removed| *removed.value == *lower) {
            let what = format!("`{}` need not be removed: it is set afterwards", name.value);
            findings.push(Finding::new(MistakeKind::Doubtful, removed.at, what).related(name.at, "set here"));
        }
    }
    changes
}

fn named(
    map: &Map<HeaderValue>,
    elsewhere: &[(&str, &str)],
    findings: &mut Vec<Finding>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, value) in &map.0 {
        match name.value.parse::<HeaderName>() {
            Ok(header) => {
                report_reserved(&Spanned { value: header.clone(), at: name.at }, elsewhere, findings);
                if headers.iter().any(|(other, _)| *other == header) {
                    let what = format!("`{header}` stands here twice: the case of a header does not matter");
                    findings.push(Finding::new(MistakeKind::Duplicate, name.at, what));
                }
                templates::warn(value, name.at, TEMPLATE_HINT, findings);
                headers.push((header, value.clone()));
            }
            Err(error) => {
                findings.push(Finding::new(MistakeKind::BadValue, name.at, error.what).hint_if(error.hint));
            }
        }
    }
    headers
}

pub(super) fn report_reserved(
    name: &Spanned<HeaderName>,
    elsewhere: &[(&str, &str)],
    findings: &mut Vec<Finding>,
) {
    if FRAMING.contains(&&*name.value) {
        let what = format!("`{}` cannot be changed: Weir writes it for each connection", name.value);
        findings.push(Finding::new(MistakeKind::Conflict, name.at, what));
    }
    if let Some((_, hint)) = elsewhere.iter().find(|(reserved, _)| *reserved == &*name.value) {
        let what = format!("`{}` cannot be changed here", name.value);
        findings.push(Finding::new(MistakeKind::Conflict, name.at, what).hint(*hint));
    }
}
