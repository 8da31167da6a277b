//! HTTPRoute.

use std::collections::BTreeSet;

use weir_traffic::route::BoundedRegexes;

use super::duration::limit;
use super::matches;
use super::retry;
use super::rule::{self, RuleParts, WeightedBackend};
use super::{CompiledRoute, CompiledRule, RouteKind, check_hostnames, created};
use crate::api::{BackendReference, HttpRoute, HttpRouteRule, HttpRouteRuleMatch, SharedText};
use crate::backends::{BackendScope, Payload};
use crate::options::settings::GatewaySettings;
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

pub(crate) fn compile(
    route: &HttpRoute,
    store: &ObjectStore,
    settings: &GatewaySettings,
    regexes: &mut BoundedRegexes<'_>,
) -> CompiledRoute {
    let meta = &route.metadata;
    let kind = RouteKind::Http.name();
    let scope = BackendScope { store, settings, kind, namespace: &meta.namespace, payload: Payload::Http };
    let mut resolved = Ok(());
    let rules: Result<Vec<CompiledRule>, Refusal> = (route.spec.rules.iter().enumerate())
        .map(|(number, written)| compile_rule(&scope, number, written, regexes, &mut resolved))
        .collect();
    let mut services = BTreeSet::new();
    for rule in &route.spec.rules {
        let filters = rule.backend_refs.iter().flat_map(|backend| &backend.filters).chain(&rule.filters);
        let mirrors = filters.filter_map(|filter| Some(&filter.request_mirror.as_deref()?.backend_ref));
        services.extend(mirrors.map(|reference| scope.service_key(reference)));
        services.extend(
            rule.backend_refs
                .iter()
                .map(|backend| ObjectKey::named(meta, backend.namespace.as_ref(), &backend.name)),
        );
    }
    let rules = check_hostnames(&route.spec.hostnames).and(rules);
    let (rules, accepted) = rules.map_or_else(|refusal| (Vec::new(), Err(refusal)), |rules| (rules, Ok(())));
    CompiledRoute {
        kind: RouteKind::Http,
        key: ObjectKey::from_object_meta(meta),
        generation: meta.generation,
        created: created(meta),
        parents: route.spec.parent_refs.clone(),
        hostnames: route.spec.hostnames.clone(),
        rules,
        accepted,
        resolved,
        services: services.into_iter().collect(),
    }
}

fn compile_rule(
    scope: &BackendScope<'_>,
    number: usize,
    written: &HttpRouteRule,
    regexes: &mut BoundedRegexes<'_>,
    resolved: &mut Result<(), Refusal>,
) -> Result<CompiledRule, Refusal> {
    let every = [HttpRouteRuleMatch::default()];
    let written_matches = if written.matches.is_empty() { &every[..] } else { &written.matches };
    let timeouts = written.timeouts.as_deref();
    if written.session_persistence.is_some() {
        return Err(Refusal::unsupported("sessionPersistence is not supported"));
    }
    let backends = written.backend_refs.iter().map(|backend| WeightedBackend {
        reference: BackendReference {
            group: backend.group.clone(),
            kind: backend.kind.clone(),
            name: backend.name.clone(),
            namespace: backend.namespace.clone(),
            port: backend.port,
        },
        weight: backend.weight.unwrap_or(1),
        filters: backend.filters.clone(),
    });
    let parts = RuleParts {
        name: written.name.clone().unwrap_or_else(|| SharedText::recent(&number.to_string())),
        matches: written_matches
            .iter()
            .map(|one| matches::of_http(one, regexes))
            .collect::<Result<_, _>>()?,
        prefixes: written_matches.iter().map(prefix_of).collect(),
        filters: &written.filters,
        backends: backends.collect(),
        request_timeout: limit("timeouts.request", timeouts.and_then(|limits| limits.request.as_deref()))?,
        backend_timeout: limit(
            "timeouts.backendRequest",
            timeouts.and_then(|limits| limits.backend_request.as_deref()),
        )?,
        retry: written.retry.as_deref().map(retry::read).transpose()?.map(Box::new),
    };
    rule::compile(scope, parts, resolved)
}

/// The prefix that a match is, if it is one.
fn prefix_of(written: &HttpRouteRuleMatch) -> Option<&str> {
    let Some(path) = written.path.as_deref() else { return Some("/") };
    let is_prefix = matches!(path.r#type.as_deref(), None | Some("PathPrefix"));
    is_prefix.then(|| matches::prefix(path.value.as_deref().unwrap_or("/")))
}
