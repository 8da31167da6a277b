//! `mirror` of a route, or of a target of its split.

use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::scope::CheckScope;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::{Mirror, RouteFault, UpstreamIndex};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{OneOrMany, SpannedTable};
use crate::order::Stage;
use crate::text::MirrorText;
use crate::value::ShareFraction;

/// The mirrors that a route or a target has.
pub(in crate::check) fn check_all(
    written: Option<&OneOrMany<SpannedTable<MirrorText>>>,
    place: &TemplatePlace<'_>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Mirror> {
    let mirrors = written.into_iter().flat_map(|mirrors| &mirrors.0);
    mirrors.map(|mirror| check(mirror, place, around, diagnostics)).collect()
}

fn check(
    text: &SpannedTable<MirrorText>,
    place: &TemplatePlace<'_>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Mirror {
    let value = &text.value;
    let upstream = value.upstream.as_ref().map(|upstream| around.upstreams.find_fixed(upstream, diagnostics));
    let asked = ConditionPlace::new(place, Stage::BeforeServer, "when copies of requests are decided about");
    if let Some(path) = &value.path {
        let at = text.key_at("path");
        let early = TemplatePlace { stage: Stage::BeforeServer, ..*place };
        templates::check(&path.0, at, &early, diagnostics);
        templates::warn_of_variables(&path.0, at, diagnostics);
    }
    let mirror = Mirror {
        path: value.path.as_ref().map(|path| path.0.clone()),
        upstream: upstream.unwrap_or(UpstreamIndex(0)),
        share: ShareFraction::of_percent(value.share),
        when: conditions::check(value.when.as_ref(), &asked, diagnostics),
        methods: value.methods.clone(),
        compare: value.compare.clone(),
        ignore_headers: value.ignore_headers.clone(),
        route_header: value.route_header.clone(),
        body_max: value.body_max,
        concurrent_max: value.concurrent_max,
        timeout: value.timeout,
        forward_host: value.forward_host.clone(),
        mark_header: value.mark_header.clone(),
    };
    for fault in mirror.faults() {
        let at = text.key_at(if fault == RouteFault::CopyOfTunnel { "methods" } else { "mark_header" });
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, fault.to_string()));
    }
    mirror
}
