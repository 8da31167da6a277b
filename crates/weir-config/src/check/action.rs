//! The action of a route: exactly one, and one that can be done.

use super::{UpstreamNames, headers, templates};
use crate::config::{Action, Fixed, Redirect, RedirectPart, Split, UpstreamIndex};
use crate::key::Located;
use crate::mistake::{Finding, MistakeKind};
use crate::text::{RedirectText, RespondText, RouteText, SplitPart};

const ACTIONS: [&str; 4] = ["upstream", "split", "redirect", "respond"];

pub(super) fn check(
    text: &Located<RouteText>,
    upstreams: &UpstreamNames<'_>,
    findings: &mut Vec<Finding>,
) -> Action {
    let written: Vec<&str> = ACTIONS.into_iter().filter(|key| text.written(key).is_some()).collect();
    match written[..] {
        [] if ACTIONS.into_iter().all(|key| text.is_missing(key)) => {
            let what = "the route has no action";
            let hint = "write one of `upstream`, `split`, `redirect` and `respond`";
            findings.push(Finding::new(MistakeKind::MissingKey, text.at, what).hint(hint));
        }
        [first, second, ..] => {
            let what = format!("a route has one action; this has `{first}` and `{second}`");
            let finding = Finding::new(MistakeKind::Conflict, text.key_at(second), what);
            findings.push(finding.related(text.key_at(first), "the other one"));
        }
        [] | [_] => {}
    }
    let value = &text.value;
    // All of them are checked, so that every mistake is found; the first counts.
    let upstream = value.upstream.as_ref().map(|name| Action::Upstream(upstreams.find(name, findings)));
    let split = value.split.as_ref().map(|parts| Action::Split(split(&parts.0, upstreams, findings)));
    let redirect = value.redirect.as_ref().map(|text| Action::Redirect(redirect(text, findings)));
    let respond = value.respond.as_ref().map(|text| Action::Respond(Box::new(respond(text, findings))));
    upstream.or(split).or(redirect).or(respond).unwrap_or(Action::Upstream(UpstreamIndex(0)))
}

fn split(
    parts: &[Located<SplitPart>],
    upstreams: &UpstreamNames<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Split> {
    let mut split: Vec<Split> = Vec::new();
    for part in parts {
        let Some(name) = &part.value.upstream else { continue };
        let found = findings.len();
        let upstream = upstreams.find(name, findings);
        if findings.len() == found && split.iter().any(|other| other.upstream == upstream) {
            let what = format!("`{}` stands twice in the split", name.value);
            findings.push(Finding::new(MistakeKind::Duplicate, name.at, what).hint("add the weights up"));
        }
        split.push(Split { upstream, weight: part.value.weight.unwrap_or(0) });
    }
    let all_sound = parts.iter().all(|part| part.is_sound);
    if let Some(first) = parts.first().filter(|_| all_sound && split.iter().all(|part| part.weight == 0)) {
        let what = "every weight of the split is 0: no upstream would get a request";
        findings.push(Finding::new(MistakeKind::Conflict, first.at, what));
    }
    split
}

fn redirect(text: &Located<RedirectText>, findings: &mut Vec<Finding>) -> Redirect {
    let status = text.value.status;
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let what = format!("{status} is not a redirect");
        let hint = "write 301, 302, 303, 307 or 308";
        findings.push(Finding::new(MistakeKind::BadValue, text.key_at("status"), what).hint(hint));
    }
    if let Some(to) = &text.value.to {
        let hint = "the placeholders of a redirect are `{host}`, `{path}` and `{query}`";
        for part in &to.value.parts {
            // A brace in a literal was written twice, on purpose.
            if let RedirectPart::Literal(literal) = part
                && !literal.contains('{')
            {
                templates::warn(literal, to.at, hint, findings);
            }
        }
    }
    let to = text.value.to.as_ref().map_or_else(|| vec![RedirectPart::Path], |to| to.value.parts.clone());
    Redirect { to, status }
}

fn respond(text: &Located<RespondText>, findings: &mut Vec<Finding>) -> Fixed {
    let value = &text.value;
    if matches!(value.status, 204 | 205 | 304) && !value.body.is_empty() {
        let what = format!("a response with status {} has no body (RFC 9110)", value.status);
        findings.push(Finding::new(MistakeKind::Conflict, text.key_at("body"), what));
    }
    Fixed {
        status: value.status,
        body: value.body.clone(),
        content_type: value.content_type.clone(),
        headers: headers::check_fixed(&value.headers, findings),
    }
}
