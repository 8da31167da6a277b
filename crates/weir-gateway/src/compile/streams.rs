//! TLSRoute and TCPRoute: connections that are forwarded as they are.

use std::collections::BTreeSet;

use weir_config::RouteSettings;
use weir_traffic::route::RouteMatch;

use super::rule::{WeightedBackend, targets};
use super::{
    CompiledAction, CompiledRoute, CompiledRule, CompiledTarget, RouteKind, RouteParents, check_hostnames,
    created,
};
use crate::api::{BackendReference, ObjectMeta, SharedText, StreamRouteRule, TcpRoute, TlsRoute};
use crate::backends::{Backend, BackendScope, Payload};
use crate::options::settings::GatewaySettings;
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

pub(crate) fn compile_tls(
    route: &TlsRoute,
    store: &ObjectStore,
    settings: &GatewaySettings,
) -> CompiledRoute {
    let spec = &route.spec;
    compile(
        RouteKind::Tls,
        &route.metadata,
        (&spec.parent_refs, &spec.hostnames, &spec.rules),
        store,
        settings,
    )
}

pub(crate) fn compile_tcp(
    route: &TcpRoute,
    store: &ObjectStore,
    settings: &GatewaySettings,
) -> CompiledRoute {
    let spec = &route.spec;
    compile(RouteKind::Tcp, &route.metadata, (&spec.parent_refs, &[], &spec.rules), store, settings)
}

fn compile(
    kind: RouteKind,
    meta: &ObjectMeta,
    (parents, hostnames, written): (&RouteParents, &[SharedText], &[StreamRouteRule]),
    store: &ObjectStore,
    settings: &GatewaySettings,
) -> CompiledRoute {
    let scope = BackendScope {
        store,
        settings,
        kind: kind.name(),
        namespace: &meta.namespace,
        payload: Payload::Stream,
    };
    let mut resolved = Ok(());
    let rules = match written {
        [rule] => compile_rule(&scope, rule, &mut resolved).map(|rule| vec![rule]),
        [] => Ok(Vec::new()),
        _ => Err(Refusal::unsupported("rules: a connection has nothing to tell several rules apart by")),
    };
    let references = written.iter().flat_map(|rule| &rule.backend_refs);
    let services: BTreeSet<ObjectKey> =
        references.map(|backend| ObjectKey::named(meta, backend.namespace.as_ref(), &backend.name)).collect();
    let rules = check_hostnames(hostnames).and(rules);
    let (rules, accepted) = rules.map_or_else(|refusal| (Vec::new(), Err(refusal)), |rules| (rules, Ok(())));
    CompiledRoute {
        kind,
        key: ObjectKey::from_object_meta(meta),
        generation: meta.generation,
        created: created(meta),
        parents: parents.clone(),
        hostnames: hostnames.into(),
        rules,
        accepted,
        resolved,
        services: services.into_iter().collect(),
    }
}

fn compile_rule(
    scope: &BackendScope<'_>,
    written: &StreamRouteRule,
    resolved: &mut Result<(), Refusal>,
) -> Result<CompiledRule, Refusal> {
    let backends: Vec<WeightedBackend> = (written.backend_refs.iter())
        .map(|backend| WeightedBackend {
            reference: BackendReference {
                group: backend.group.clone(),
                kind: backend.kind.clone(),
                name: backend.name.clone(),
                namespace: backend.namespace.clone(),
                port: backend.port,
            },
            weight: backend.weight.unwrap_or(1),
            filters: Box::default(),
        })
        .collect();
    let mut targets = targets(scope, &backends, |_, _| Ok(None), resolved)?;
    if targets.is_empty() {
        // A connection cannot be answered: without a server it is closed.
        targets.push(CompiledTarget { backend: None, weight: 1, own: None });
    }
    for target in &mut targets {
        target.backend.get_or_insert_with(Backend::unresolved);
    }
    let name = written.name.clone().unwrap_or_else(|| "0".into());
    let action = CompiledAction::Backends(targets);
    Ok(CompiledRule::new(name, vec![RouteMatch::default()], action, RouteSettings::default(), Vec::new()))
}
