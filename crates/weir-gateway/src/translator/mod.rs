//! Objects in; configuration, servers and statuses out. Keeps what it has translated and translates only what a change concerns.
//!
//! A change of a route translates that route; of a Service, the routes that refer to it; of a BackendTLSPolicy, ConfigMap or ReferenceGrant,
//! the routes to services of namespaces that it may concern; of an EndpointSlice, none: only the servers of its service are collected. A
//! change of a Gateway, its class, a Secret or the labels of a namespace plans all listeners anew, and looks anew at which routes they
//! take, but translates no route. Listeners, routes and upstreams that come out equal are the same objects as before.

mod routes;
mod route_regexes;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use weir_config::{Config, ConfigFault};

use super::options::isolation::Refusals;
use super::options::settings::GatewaySettings;
use crate::addresses;
use crate::api::RouteStatus;
use crate::assembly::{Assembly, RouteKey, RouteState};
use crate::attachment::attach;
use crate::backends::Backend;
use crate::compile::{RouteKind, SharedParts};
use crate::host_conflicts;
use crate::ingress::{IngressReport, IngressState};
use crate::listeners::{self, GatewayPlan, ListenerCertificates};
use crate::policies;
use crate::servers::{SlicesByService, UpstreamServers, service_of};
use crate::status::{self, ObjectStatus, StatusUpdate};
use crate::store::{KubernetesObject, ObjectKey, ObjectKind, ObjectStore};
use crate::withdrawal;

use self::route_regexes::RouteRegexes;

/// The objects, and what was made of them.
#[derive(Debug, Default)]
pub struct Translator {
    settings: GatewaySettings,
    store: ObjectStore,
    slices: SlicesByService,
    plans: Vec<GatewayPlan>,
    kept_certificates: ListenerCertificates,
    routes: BTreeMap<RouteKey, RouteState>,
    shared_parts: SharedParts,
    regexes: RouteRegexes,
    /// The routes that refer to a service.
    users: BTreeMap<ObjectKey, BTreeSet<RouteKey>>,
    assembly: Assembly,
    ingress: IngressState,
    pending: PendingWork,
}

/// What has to be done at the next translation.
#[derive(Debug, Default)]
struct PendingWork {
    /// Routes to translate; those that are gone are forgotten.
    routes: BTreeSet<RouteKey>,
    /// Routes whose status has to be compared with what they are to have.
    statuses: BTreeSet<RouteKey>,
    /// Services whose servers have to be collected.
    services: BTreeSet<ObjectKey>,
    /// All Gateways.
    gateways: bool,
    /// The statuses of classes, Gateways and policies.
    other_statuses: bool,
}

/// What has come out since the last translation.
#[derive(Debug)]
pub struct Translation {
    /// The configuration, if it may be another than the one before.
    pub config: Option<Config>,
    /// The servers of upstreams that are new or whose endpoints have changed.
    pub servers: Vec<UpstreamServers>,
    /// The statuses that objects do not have yet. `Programmed` is said of what [`Translation::config`] has: write them once it is applied.
    pub statuses: Vec<StatusUpdate>,
    /// What the authors of Ingresses have to know, as far as it is new.
    pub ingress_reports: Vec<IngressReport>,
    /// Why the default certificate of Ingresses cannot be used, as long as it cannot.
    pub default_certificate_problem: Option<Box<str>>,
    /// What is wrong with the ConfigMap for all Ingresses, as long as it is.
    pub ingress_config_map_problem: Option<Box<str>>,
    /// What could not be made as it was meant to be, and why: routes of it answer 500, upstreams 503, listeners are left out.
    pub faults: Vec<ConfigFault>,
    /// How many routes were translated.
    pub routes_translated: usize,
}

impl Translator {
    /// Without objects.
    pub fn new(settings: GatewaySettings) -> Self {
        let pending = PendingWork { gateways: true, ..PendingWork::default() };
        let mut ingress = IngressState::default();
        ingress.renew();
        Self { settings, pending, ingress, ..Self::default() }
    }

    /// Without objects again, which are listed anew. Certificates that are in use stay: a Secret may have been damaged meanwhile.
    pub fn begin_anew(&mut self, settings: GatewaySettings) {
        let before = std::mem::replace(self, Self::new(settings));
        self.kept_certificates = before.kept_certificates;
        self.ingress.keep_certificates_of(before.ingress);
    }

    /// Other settings; what depends on them is made anew.
    pub fn set_settings(&mut self, settings: GatewaySettings) {
        self.settings = settings;
        self.pending.gateways = true;
        self.ingress.renew();
        self.pending.routes.extend(self.routes.keys().cloned());
    }

    /// Another configuration beside listeners and upstreams.
    pub fn set_base(&mut self, base: Config) {
        self.settings.base = base;
        self.pending.gateways = true;
    }

    /// Takes the latest form of an object.
    pub fn upsert(&mut self, object: &KubernetesObject) {
        if object.metadata().unreadable.is_some() && !object.kind().is_taken_in_part() {
            return;
        }
        let before = self.store.upsert(object);
        if let Some(KubernetesObject::EndpointSlice(slice)) = &before {
            self.slices.remove(slice);
        }
        if let KubernetesObject::EndpointSlice(slice) = object {
            self.slices.insert(slice);
        }
        match &before {
            Some(before) if is_same_but_status(before, object) => self.note_status(object),
            _ => {
                before.iter().for_each(|before| self.note(before));
                self.note(object);
            }
        }
    }

    /// Forgets an object.
    pub fn delete(&mut self, kind: ObjectKind, key: &ObjectKey) {
        let Some(object) = self.store.delete(kind, key) else { return };
        if let KubernetesObject::EndpointSlice(slice) = &object {
            self.slices.remove(slice);
        }
        self.note(&object);
    }

    /// Forgets the objects of a kind, of one namespace or of all, that a complete list does not name.
    pub fn retain_listed(&mut self, kind: ObjectKind, namespace: Option<&str>, listed: &HashSet<ObjectKey>) {
        let is_gone = |key: &&ObjectKey| {
            namespace.is_none_or(|namespace| *key.namespace == *namespace) && !listed.contains(*key)
        };
        let gone: Vec<ObjectKey> = self.store.keys(kind).filter(is_gone).cloned().collect();
        for key in gone {
            self.delete(kind, &key);
        }
    }

    /// Has every status compared anew with what its object is to have: those that were returned before may not have been written.
    pub fn renew_statuses(&mut self) {
        self.pending.statuses.extend(self.routes.keys().cloned());
        self.pending.other_statuses = true;
        self.ingress.renew_reports();
    }

    /// Has all problems of Ingresses reported anew.
    pub fn renew_reports(&mut self) {
        self.ingress.renew_reports();
    }

    /// The names of listeners of the last configuration that belong to sets of Gateways alone.
    pub fn listeners_of_sets(&self) -> BTreeSet<Box<str>> {
        listeners::names_of_sets(&self.plans)
    }

    /// Says which kinds of the Gateway API the cluster does not have.
    pub fn set_missing_kinds(&mut self, kinds: BTreeSet<&'static str>) {
        if self.settings.missing_kinds != kinds {
            self.settings.missing_kinds = kinds;
            self.pending.other_statuses = true;
        }
    }

    /// Says what of the last translation could not be applied, and why. Whether that is new: then statuses that were returned with it are
    /// outdated, and the next translation has others.
    pub fn set_refusals(&mut self, refusals: Refusals) -> bool {
        let is_new = self.settings.refusals != refusals;
        if is_new {
            self.settings.refusals = refusals;
            self.renew_statuses();
        }
        is_new
    }

    /// An object says what it said before: only its status may have to be repeated.
    fn note_status(&mut self, object: &KubernetesObject) {
        match route_key(object) {
            Some(key) => drop(self.pending.statuses.insert(key)),
            None => self.pending.other_statuses = true,
        }
        // The plan of a Gateway has the object and its sets, with the statuses that are compared.
        self.pending.gateways |=
            matches!(object, KubernetesObject::Gateway(_) | KubernetesObject::ListenerSet(_));
    }

    /// Notes what an object concerns, before and after a change.
    fn note(&mut self, object: &KubernetesObject) {
        let key = object.key();
        self.ingress.note(object);
        match object {
            KubernetesObject::HttpRoute(_)
            | KubernetesObject::GrpcRoute(_)
            | KubernetesObject::TlsRoute(_)
            | KubernetesObject::TcpRoute(_) => self.pending.routes.extend(route_key(object)),
            KubernetesObject::Service(_) => {
                self.note_users(|service| *service == key);
                self.pending.other_statuses |= self.settings.published_service.as_ref() == Some(&key);
                self.pending.services.insert(key);
            }
            KubernetesObject::EndpointSlice(slice) => self.pending.services.extend(service_of(slice)),
            KubernetesObject::BackendTlsPolicy(_) => {
                self.note_users(|service| service.namespace == key.namespace);
                self.pending.other_statuses = true;
            }
            KubernetesObject::ConfigMap(_) => {
                self.note_users(|service| service.namespace == key.namespace);
                self.pending.gateways = true;
                self.pending.other_statuses = true;
            }
            KubernetesObject::ReferenceGrant(_) => {
                self.note_users(|service| service.namespace == key.namespace);
                self.pending.gateways = true;
            }
            KubernetesObject::GatewayClass(_)
            | KubernetesObject::Gateway(_)
            | KubernetesObject::ListenerSet(_)
            | KubernetesObject::Secret(_)
            | KubernetesObject::Namespace(_)
            | KubernetesObject::IngressClass(_) => self.pending.gateways = true,
            KubernetesObject::Ingress(_) | KubernetesObject::OpaqueSecret(_) => {}
        }
    }

    fn note_users(&mut self, is_concerned: impl Fn(&ObjectKey) -> bool) {
        let users = self.users.iter().filter(|(service, _)| is_concerned(service));
        self.pending.routes.extend(users.flat_map(|(_, routes)| routes).cloned());
    }

    /// Translates what has changed; `now` is the time for conditions that do (RFC 3339).
    pub fn translate(&mut self, now: &str) -> Translation {
        let pending = std::mem::take(&mut self.pending);
        let mut changed_statuses = pending.statuses;
        let translated = self.retranslate_all(&pending.routes);
        changed_statuses.extend(translated.iter().cloned());
        if pending.gateways {
            self.plans = listeners::plan(&self.store, &self.settings, &mut self.kept_certificates);
            for (key, state) in &mut self.routes {
                let mut attachments = attach(&state.compiled, &self.plans, &self.store);
                for (one, before) in attachments.iter_mut().zip(&state.attachments) {
                    one.rival.clone_from(&before.rival);
                }
                if attachments != state.attachments {
                    state.attachments = attachments;
                    changed_statuses.insert(key.clone());
                }
            }
        }
        if pending.gateways || !pending.routes.is_empty() {
            changed_statuses.extend(host_conflicts::judge(&mut self.routes));
        }
        let has_ingress_changed = self.ingress.retranslate(&self.store, &self.settings);
        let has_changed = pending.gateways || !pending.routes.is_empty() || has_ingress_changed;
        let config = has_changed.then_some(()).and_then(|()| {
            let mut ingress = self.ingress.input(&self.settings);
            let config = self.assembly.assemble(&self.plans, &self.routes, &self.settings, ingress.as_mut());
            let problems = ingress.map(|ingress| ingress.problems()).unwrap_or_default();
            self.ingress.set_problems(problems);
            config
        });
        let servers = self.collect_servers(&pending.services);
        let mut statuses = Vec::new();
        if has_changed || pending.other_statuses {
            self.push_statuses(now, &mut statuses);
        }
        for key in &changed_statuses {
            statuses.extend(self.route_status(key, now));
        }
        let ingress_reports = self.ingress.reports(&self.store);
        for update in &mut statuses {
            update.version = self.store.version(update.kind, &update.key).cloned().unwrap_or_default();
            update.manager = self.settings.field_manager(update.kind);
        }
        let default_certificate_problem = self.ingress.default_certificate_problem().map(Into::into);
        Translation {
            config,
            servers,
            statuses,
            ingress_reports,
            default_certificate_problem,
            faults: self.assembly.take_faults(),
            ingress_config_map_problem: self.ingress.config_map_problem().map(Into::into),
            routes_translated: translated.len(),
        }
    }

    fn collect_servers(&mut self, services: &BTreeSet<ObjectKey>) -> Vec<UpstreamServers> {
        let mut backends: BTreeMap<Box<str>, Arc<Backend>> = BTreeMap::new();
        let fresh = self.assembly.take_fresh();
        let of_services = services.iter().flat_map(|service| self.assembly.of_service(service));
        for backend in fresh.iter().chain(of_services) {
            backends.insert(backend.name.clone(), Arc::clone(backend));
        }
        let collect = |(upstream, backend): (Box<str>, Arc<Backend>)| {
            let service = backend.service.as_ref()?;
            Some(UpstreamServers {
                upstream,
                servers: self.slices.servers(&self.store, service, &backend.port_name),
            })
        };
        backends.into_iter().filter_map(collect).collect()
    }

    /// The statuses of classes, Gateways and policies.
    fn push_statuses(&self, now: &str, statuses: &mut Vec<StatusUpdate>) {
        let is_ours = |name: &str| *name == *self.settings.controller_name;
        // A process behind a Service of its own was made by the controller, which tells the statuses of classes: another version of it has
        // other features, and the two would write in turn.
        let of_controller = self.settings.served.is_some() && self.settings.published_service.is_some();
        let classes = self.store.gateway_classes.iter().filter(|_| !of_controller);
        for (key, class) in classes {
            if let Some(status) = is_ours(&class.spec.controller_name)
                .then(|| status::of_class(class, &self.settings, now))
                .flatten()
            {
                let status = ObjectStatus::GatewayClass(status);
                statuses.push(StatusUpdate::new(ObjectKind::GatewayClass, key, status));
            }
        }
        let mut attached: Vec<Vec<i32>> =
            self.plans.iter().map(|plan| vec![0; plan.listeners.len()]).collect();
        for attachment in self.routes.values().flat_map(|state| &state.attachments) {
            for one in attachment.listeners() {
                attached[attachment.gateway][one.listener] += 1;
            }
        }
        let addresses = addresses::published(&self.store, &self.settings);
        for (plan, attached) in self.plans.iter().zip(&attached) {
            if let Some(status) = status::of_gateway(plan, attached, (&self.settings, &addresses), now) {
                let status = ObjectStatus::Gateway(status);
                statuses.push(StatusUpdate::new(ObjectKind::Gateway, &plan.key, status));
            }
            for (place, set) in plan.sets.iter().enumerate() {
                let context = (&self.settings, &addresses[..]);
                if let Some(status) = status::of_listener_set((plan, place), attached, context, now) {
                    let status = ObjectStatus::ListenerSet(status);
                    statuses.push(StatusUpdate::new(ObjectKind::ListenerSet, &set.key, status));
                }
            }
        }
        let manager = self.settings.field_manager(ObjectKind::Ingress);
        for (key, status) in self.ingress.statuses(&self.store, &addresses, &manager) {
            statuses.push(StatusUpdate::new(ObjectKind::Ingress, &key, ObjectStatus::Ingress(status)));
        }
        statuses.extend(withdrawal::of_objects(&self.store, &self.settings));
        for (key, policy) in &self.store.backend_tls_policies {
            let verdict = policies::read(policy, &self.store, &self.settings);
            let services =
                policy.spec.target_refs.iter().map(|target| ObjectKey::new(&key.namespace, &target.name));
            let users: BTreeSet<&RouteKey> =
                services.filter_map(|service| self.users.get(&service)).flatten().collect();
            let used =
                users.iter().filter_map(|user| self.routes.get(*user)).flat_map(|state| &state.attachments);
            let gateways: BTreeSet<&ObjectKey> =
                used.map(|attachment| &self.plans[attachment.gateway].key).collect();
            let gateways: Vec<&ObjectKey> = gateways.into_iter().collect();
            let effect = policies::check_effect(policy, &self.store);
            let status =
                status::of_policy(policy, &verdict, &effect, &gateways, (&self.settings, &self.store), now);
            if let Some(status) = status.map(ObjectStatus::Policy) {
                statuses.push(StatusUpdate::new(ObjectKind::BackendTlsPolicy, key, status));
            }
        }
    }

    fn route_status(&self, key: &RouteKey, now: &str) -> Option<StatusUpdate> {
        let state = self.routes.get(key)?;
        let (kind, present) = self.present(key)?;
        let status = status::of_route(state, present, (&self.settings, &self.store), now)?;
        Some(StatusUpdate::new(kind, &key.key, ObjectStatus::Route(status)))
    }

    /// The status that a route has.
    fn present(&self, RouteKey { kind, key }: &RouteKey) -> Option<(ObjectKind, Option<&RouteStatus>)> {
        let store = &self.store;
        Some(match kind {
            RouteKind::Http => (ObjectKind::HttpRoute, store.http_routes.get(key)?.status.as_deref()),
            RouteKind::Grpc => (ObjectKind::GrpcRoute, store.grpc_routes.get(key)?.status.as_deref()),
            RouteKind::Tls => (ObjectKind::TlsRoute, store.tls_routes.get(key)?.status.as_deref()),
            RouteKind::Tcp => (ObjectKind::TcpRoute, store.tcp_routes.get(key)?.status.as_deref()),
        })
    }
}

fn route_key(object: &KubernetesObject) -> Option<RouteKey> {
    let kind = match object {
        KubernetesObject::HttpRoute(_) => RouteKind::Http,
        KubernetesObject::GrpcRoute(_) => RouteKind::Grpc,
        KubernetesObject::TlsRoute(_) => RouteKind::Tls,
        KubernetesObject::TcpRoute(_) => RouteKind::Tcp,
        _ => return None,
    };
    Some(RouteKey { kind, key: object.key() })
}

/// Whether two forms of an object want the same: most events are echoes of statuses that were written.
fn is_same_but_status(before: &KubernetesObject, after: &KubernetesObject) -> bool {
    macro_rules! same {
        ($($kind:ident),+) => {
            match (before, after) {
                $((KubernetesObject::$kind(before), KubernetesObject::$kind(after)) => {
                    before.spec == after.spec && before.metadata == after.metadata
                })+
                (KubernetesObject::Ingress(before), KubernetesObject::Ingress(after)) => {
                    before.spec == after.spec
                        && before.metadata == after.metadata
                        && before.annotations == after.annotations
                }
                (KubernetesObject::IngressClass(before), KubernetesObject::IngressClass(after)) => before == after,
                (KubernetesObject::OpaqueSecret(before), KubernetesObject::OpaqueSecret(after)) => before == after,
                (KubernetesObject::EndpointSlice(before), KubernetesObject::EndpointSlice(after)) => before == after,
                (KubernetesObject::Secret(before), KubernetesObject::Secret(after)) => before == after,
                (KubernetesObject::ConfigMap(before), KubernetesObject::ConfigMap(after)) => before == after,
                (KubernetesObject::Namespace(before), KubernetesObject::Namespace(after)) => before == after,
                _ => false,
            }
        };
    }
    same!(
        GatewayClass,
        Gateway,
        ListenerSet,
        HttpRoute,
        GrpcRoute,
        TlsRoute,
        TcpRoute,
        ReferenceGrant,
        BackendTlsPolicy,
        Service
    )
}
