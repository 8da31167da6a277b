//! GRPCRoute.

use std::collections::BTreeSet;

use weir_traffic::route::BoundedRegexes;

use super::matches;
use super::rule::{self, RuleParts, WeightedBackend};
use super::{CompiledRoute, CompiledRule, RouteKind, check_hostnames, created};
use crate::api::{
    BackendReference, GrpcRoute, GrpcRouteFilter, GrpcRouteRule, GrpcRouteRuleMatch, HttpRouteFilter,
    SharedText,
};
use crate::backends::{BackendScope, Payload};
use crate::options::settings::GatewaySettings;
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

pub(crate) fn compile(
    route: &GrpcRoute,
    store: &ObjectStore,
    settings: &GatewaySettings,
    regexes: &mut BoundedRegexes<'_>,
) -> CompiledRoute {
    let meta = &route.metadata;
    let kind = RouteKind::Grpc.name();
    let scope = BackendScope { store, settings, kind, namespace: &meta.namespace, payload: Payload::Grpc };
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
        kind: RouteKind::Grpc,
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
    written: &GrpcRouteRule,
    regexes: &mut BoundedRegexes<'_>,
    resolved: &mut Result<(), Refusal>,
) -> Result<CompiledRule, Refusal> {
    let every = [GrpcRouteRuleMatch::default()];
    let written_matches = if written.matches.is_empty() { &every[..] } else { &written.matches };
    if written.session_persistence.is_some() {
        return Err(Refusal::unsupported("sessionPersistence is not supported"));
    }
    let filters: Vec<HttpRouteFilter> = written.filters.iter().map(as_http).collect();
    let backends = written.backend_refs.iter().map(|backend| WeightedBackend {
        reference: BackendReference {
            group: backend.group.clone(),
            kind: backend.kind.clone(),
            name: backend.name.clone(),
            namespace: backend.namespace.clone(),
            port: backend.port,
        },
        weight: backend.weight.unwrap_or(1),
        filters: backend.filters.iter().map(as_http).collect(),
    });
    let parts = RuleParts {
        name: written.name.clone().unwrap_or_else(|| SharedText::recent(&number.to_string())),
        matches: written_matches
            .iter()
            .map(|one| matches::of_grpc(one, regexes))
            .collect::<Result<_, _>>()?,
        prefixes: vec![None; written_matches.len()],
        filters: &filters,
        backends: backends.collect(),
        request_timeout: None,
        backend_timeout: None,
        retry: None,
    };
    rule::compile(scope, parts, resolved)
}

/// The filters of gRPC are some of those of HTTP.
fn as_http(filter: &GrpcRouteFilter) -> HttpRouteFilter {
    HttpRouteFilter {
        extension_ref: filter.extension_ref.clone(),
        request_header_modifier: filter.request_header_modifier.clone(),
        request_mirror: filter.request_mirror.clone(),
        response_header_modifier: filter.response_header_modifier.clone(),
        r#type: filter.r#type.clone(),
        ..HttpRouteFilter::default()
    }
}
