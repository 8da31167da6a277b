//! What is known of Ingresses between two translations, and what a change of an object concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_config::UpstreamIndex;
use weir_sort::CompactSort as _;
use weir_traffic::route::RegexCache;

use super::annotations::IngressProblem;
use super::assembly::{self, IngressAssembly, IngressParts};
use super::classes::is_ours;
use super::compile::{CompiledIngress, compile};
use super::default_certificate::DefaultCertificate;
use super::host_certificates::KeptCertificates;
use super::hosts::{HostTable, ProblemWeight};
use super::hsts::Hsts;
use crate::api::{
    GatewayStatusAddress, Ingress, IngressAddresses, IngressStatus, LoadBalancerPoint, SharedText,
};
use crate::backends::Backend;
use crate::options::settings::{GatewaySettings, IngressSettings};
use crate::store::{KubernetesObject, ObjectKey, ObjectKind, ObjectStore};

/// The annotations with URLs, which lead to other objects.
const URLS: [&str; 2] = ["/auth-url", "/mirror-target"];

/// What the author of an Ingress has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressReport {
    /// The Ingress.
    pub key: ObjectKey,
    /// What the API server knows it by.
    pub uid: SharedText,
    /// What is wrong with it; empty: nothing any more.
    pub problems: Vec<IngressProblem>,
}

/// The Ingresses of this controller.
#[derive(Debug, Default)]
pub(crate) struct IngressState {
    compiled: BTreeMap<ObjectKey, Arc<CompiledIngress>>,
    assembly: IngressAssembly,
    default_certificate: DefaultCertificate,
    kept_certificates: KeptCertificates,
    hsts: Hsts,
    regexes: RegexCache,
    pending: BTreeSet<ObjectKey>,
    all_pending: bool,
    certificate_pending: bool,
    config_map_pending: bool,
    /// What is wrong with each, and what of it was told.
    problems: BTreeMap<ObjectKey, Vec<IngressProblem>>,
    told: BTreeMap<ObjectKey, Vec<IngressProblem>>,
}

/// The Ingresses, put together for one configuration.
pub(crate) struct IngressInput<'a> {
    table: HostTable<'a>,
    assembly: &'a mut IngressAssembly,
    default_certificate: &'a DefaultCertificate,
    hsts: &'a Hsts,
    settings: (&'a GatewaySettings, &'a IngressSettings),
    compiled: &'a BTreeMap<ObjectKey, Arc<CompiledIngress>>,
}

impl IngressState {
    /// Notes what an object concerns, before or after a change.
    pub(crate) fn note(&mut self, object: &KubernetesObject) {
        let key = object.key();
        match object {
            KubernetesObject::Ingress(_) => drop(self.pending.insert(key)),
            KubernetesObject::IngressClass(_) => self.all_pending = true,
            KubernetesObject::Service(_)
            | KubernetesObject::Secret(_)
            | KubernetesObject::OpaqueSecret(_)
            | KubernetesObject::ConfigMap(_) => {
                self.certificate_pending |=
                    matches!(object.kind(), ObjectKind::Secret | ObjectKind::OpaqueSecret);
                self.config_map_pending |= object.kind() == ObjectKind::ConfigMap;
                let used = (object.kind(), key);
                self.note_users(|ingress| ingress.uses.contains(&used));
            }
            KubernetesObject::ReferenceGrant(_) | KubernetesObject::BackendTlsPolicy(_) => {
                let is_near = |(kind, used): &(ObjectKind, ObjectKey)| {
                    *kind == ObjectKind::Service && used.namespace == key.namespace
                };
                self.note_users(|ingress| ingress.uses.iter().any(is_near));
            }
            _ => {}
        }
    }

    fn note_users(&mut self, is_concerned: impl Fn(&CompiledIngress) -> bool) {
        let users = self.compiled.values().filter(|ingress| is_concerned(ingress));
        self.pending.extend(users.map(|ingress| ingress.key.clone()));
    }

    /// Has all compiled anew.
    pub(crate) fn renew(&mut self) {
        (self.all_pending, self.certificate_pending, self.config_map_pending) = (true, true, true);
    }

    /// Takes over the certificates that are in use.
    pub(crate) fn keep_certificates_of(&mut self, before: Self) {
        self.kept_certificates = before.kept_certificates;
        self.default_certificate = before.default_certificate;
    }

    /// Has all problems told anew.
    pub(crate) fn renew_reports(&mut self) {
        self.told.clear();
    }

    /// Compiles what has changed; whether anything has.
    pub(crate) fn retranslate(&mut self, store: &ObjectStore, settings: &GatewaySettings) -> bool {
        let mut pending = std::mem::take(&mut self.pending);
        let certificate_pending = std::mem::take(&mut self.certificate_pending);
        if std::mem::take(&mut self.config_map_pending)
            && let Some(ours) = &settings.ingress
        {
            let hsts = Hsts::load(store, ours);
            // What is compiled keeps the settings with the header.
            self.all_pending |= hsts != self.hsts;
            self.hsts = hsts;
        }
        if std::mem::take(&mut self.all_pending) {
            pending.extend(store.ingresses.keys().chain(self.compiled.keys()).cloned());
        }
        let Some(ours) = &settings.ingress else { return false };
        let mut has_changed = false;
        if certificate_pending {
            let loaded = DefaultCertificate::load(store, settings, ours, &self.default_certificate);
            has_changed |= loaded != self.default_certificate;
            self.default_certificate = loaded;
        }
        for key in pending {
            let found = store.ingresses.get(&key).filter(|ingress| is_ours(ingress, store, ours));
            has_changed |= match found {
                Some(ingress) => {
                    self.compiled.insert(key, Arc::new(compile(ingress, store, settings)));
                    true
                }
                None => self.compiled.remove(&key).is_some(),
            };
        }
        has_changed
    }

    /// The Ingresses for a configuration; nothing where this process serves none.
    pub(crate) fn input<'a>(&'a mut self, settings: &'a GatewaySettings) -> Option<IngressInput<'a>> {
        let ours = settings.ingress.as_ref()?;
        let certificates = (&self.default_certificate, &self.kept_certificates);
        let mut table = HostTable::new(&self.compiled, certificates, &mut self.regexes);
        self.kept_certificates = std::mem::take(&mut table.kept_certificates);
        // They are compiled anew with the next change, and hold nothing then.
        self.pending.extend(table.displaced.iter().cloned());
        for ingress in self.compiled.values() {
            let is_asked = ingress.draft.access.forward.is_some() && !ingress.is_refused;
            if is_asked && assembly::auth_backend(&table, ingress).is_none() {
                table.note_refused(
                    ingress,
                    "auth-url",
                    "it leads to no server of an Ingress that may be asked",
                );
            }
        }
        Some(IngressInput {
            table,
            assembly: &mut self.assembly,
            default_certificate: &self.default_certificate,
            hsts: &self.hsts,
            settings: (settings, ours),
            compiled: &self.compiled,
        })
    }

    /// Why the default certificate cannot be used, if there is to be one.
    pub(crate) fn default_certificate_problem(&self) -> Option<String> {
        self.default_certificate.problem()
    }

    /// What is wrong with the ConfigMap for all Ingresses.
    pub(crate) fn config_map_problem(&self) -> Option<&str> {
        self.hsts.problem()
    }

    /// What is wrong with each.
    pub(crate) fn set_problems(&mut self, problems: BTreeMap<ObjectKey, Vec<IngressProblem>>) {
        self.problems = problems;
    }

    /// What has to be told since the last time.
    pub(crate) fn reports(&mut self, store: &ObjectStore) -> Vec<IngressReport> {
        let mut reports = Vec::new();
        let keys: BTreeSet<&ObjectKey> = self.problems.keys().chain(self.told.keys()).collect();
        for key in keys {
            let now = self.problems.get(key).cloned().unwrap_or_default();
            let Some(ingress) = store.ingresses.get(key) else { continue };
            if self.told.get(key).is_none_or(|told| *told != now) {
                reports.push(IngressReport { key: key.clone(), uid: ingress.uid.clone(), problems: now });
            }
        }
        self.told.clone_from(&self.problems);
        reports
    }

    /// The statuses that Ingresses do not have yet. One that is another controller's now has no addresses of this one.
    pub(crate) fn statuses(
        &self,
        store: &ObjectStore,
        addresses: &[GatewayStatusAddress],
        manager: &str,
    ) -> Vec<(ObjectKey, IngressStatus)> {
        let point = |address: &GatewayStatusAddress| {
            let is_name = address.r#type.as_deref() == Some("Hostname");
            let value = Some(address.value.clone());
            match is_name {
                true => LoadBalancerPoint { ip: None, hostname: value },
                false => LoadBalancerPoint { ip: value, hostname: None },
            }
        };
        let wanted = IngressStatus {
            load_balancer: IngressAddresses { ingress: addresses.iter().map(point).collect() },
        };
        let differs = |key: &&ObjectKey| {
            store
                .ingresses
                .get(*key)
                .is_some_and(|ingress| ingress.status.as_deref().cloned().unwrap_or_default() != wanted)
        };
        let ours = self.compiled.keys().filter(differs).map(|key| (key.clone(), wanted.clone()));
        let has_left = |(key, ingress): &(&ObjectKey, &Arc<Ingress>)| {
            !self.compiled.contains_key(*key)
                && ingress.metadata.status_owners.is_only(manager, "loadBalancer")
                && ingress.status.as_deref().is_some_and(|status| !status.load_balancer.ingress.is_empty())
        };
        let left = store.ingresses.iter().filter(has_left);
        ours.chain(left.map(|(key, _)| (key.clone(), IngressStatus::default()))).collect()
    }
}

impl IngressInput<'_> {
    /// The upstreams that routes of Ingresses refer to.
    pub(crate) fn backends(&self) -> Vec<&Arc<Backend>> {
        assembly::backends(&self.table)
    }

    /// The listeners. No Gateway of the same process has their ports.
    pub(crate) fn parts(&mut self, index: &dyn Fn(&Backend) -> UpstreamIndex) -> IngressParts {
        self.assembly.assemble(&self.table, (self.default_certificate, self.hsts), self.settings, index)
    }

    /// What only several Ingresses show: what of it is not served, or less than it asks for.
    pub(super) fn problems_of_several(&self) -> impl Iterator<Item = (&ObjectKey, &IngressProblem, bool)> {
        let several = self.table.problems.iter().filter(|one| one.weight != ProblemWeight::Certificate);
        let of_table = several.map(|one| (&one.ingress, &one.problem, one.weight == ProblemWeight::Unserved));
        let of_url = self.compiled.iter().flat_map(|(key, ingress)| {
            let about_urls =
                |problem: &&IngressProblem| URLS.iter().any(|name| problem.annotation.ends_with(name));
            ingress.problems.iter().filter(about_urls).map(move |problem| (key, problem, problem.refuses))
        });
        of_table.chain(of_url)
    }

    /// What is wrong with each Ingress.
    pub(crate) fn problems(&self) -> BTreeMap<ObjectKey, Vec<IngressProblem>> {
        let mut problems: BTreeMap<ObjectKey, Vec<IngressProblem>> = BTreeMap::new();
        let own = self.compiled.iter().flat_map(|(key, ingress)| {
            ingress.problems.iter().map(move |problem| (key.clone(), problem.clone()))
        });
        let of_table = self.table.problems.iter().map(|one| (one.ingress.clone(), one.problem.clone()));
        for (key, problem) in own.chain(of_table) {
            problems.entry(key).or_default().push(problem);
        }
        for list in problems.values_mut() {
            list.sort_compact();
            list.dedup();
        }
        problems
    }
}
