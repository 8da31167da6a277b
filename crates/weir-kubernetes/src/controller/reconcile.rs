//! Carries out what is due: applies the objects of Gateways, keeps the accounts' binding, writes statuses that no pod writes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;
use weir_gateway::api::{ConfigMap, GROUP, Gateway};
use weir_gateway::{
    GatewayParameters, GatewaySettings, KubernetesObject, ObjectKey, ObjectKind, StatusUpdate, Translator,
};

use super::ControllerSettings;
use super::accounts::{AccountPlace, BoundAccounts};
use super::known::{KnownCluster, KnownGateway};
use super::objects::{OwnedKind, OwnedObject, is_made_by, is_owned_by};
use super::request::{GatewayRequest, MANAGER};
use super::watches::{binding_resource, class_resource, gateway_resource, resource};
use crate::watched::{KINDS, names_of, versions_of};

/// What went wrong with one object; it is tried again.
type ReconcileFailure = String;

/// The I/O of the controller.
pub(crate) struct Reconciler {
    client: Client,
    settings: ControllerSettings,
    /// What was logged last of each Gateway, so that a failure that lasts is logged once.
    logged: std::collections::BTreeMap<ObjectKey, ReconcileFailure>,
    accounts: BoundAccounts,
}

impl Reconciler {
    pub(crate) fn new(client: Client, settings: ControllerSettings) -> Self {
        let (logged, accounts) = (std::collections::BTreeMap::new(), BoundAccounts::default());
        Self { client, settings, logged, accounts }
    }

    /// When the accounts are to be looked at again.
    pub(crate) fn accounts_due(&self) -> Option<Instant> {
        self.accounts.due()
    }

    /// Does what is due; what fails stays due. Returns whether nothing has failed.
    pub(crate) async fn run(&mut self, cluster: &mut KnownCluster) -> bool {
        for key in std::mem::take(&mut cluster.due_classes) {
            let outcome = self.write_class_status(cluster, &key).await;
            if !self.note("GatewayClass", &key, outcome) {
                cluster.due_classes.insert(key);
            }
        }
        if std::mem::take(&mut cluster.are_accounts_due) {
            let outcome = self.bind_accounts(cluster).await;
            let key = ObjectKey::new("", &self.settings.accounts_binding);
            cluster.are_accounts_due = !self.note("ClusterRoleBinding", &key, outcome);
            let gateways = cluster.gateways.keys().filter(|key| !self.left(cluster, key).is_empty());
            let left: Vec<ObjectKey> = gateways.cloned().collect();
            cluster.due_gateways.extend(left);
        }
        for key in std::mem::take(&mut cluster.due_gateways) {
            let outcome = match self.apply_gateway(cluster, &key).await {
                Ok(()) => self.remove_left(cluster, &key).await,
                failed => failed,
            };
            if !self.note("Gateway", &key, outcome) {
                cluster.due_gateways.insert(key);
            }
        }
        cluster.due_classes.is_empty() && cluster.due_gateways.is_empty() && !cluster.are_accounts_due
    }

    fn note(&mut self, kind: &str, key: &ObjectKey, outcome: Result<(), ReconcileFailure>) -> bool {
        match outcome {
            Ok(()) => {
                if self.logged.remove(key).is_some() {
                    tracing::info!("{kind} {key}: as it is to be again");
                }
                true
            }
            Err(failure) => {
                if self.logged.get(key) != Some(&failure) {
                    tracing::warn!("{kind} {key}: {failure}; trying again");
                    self.logged.insert(key.clone(), failure);
                }
                false
            }
        }
    }

    fn api(&self, kind: OwnedKind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(kind.names()))
    }

    /// Makes the objects of a Gateway as they are to be.
    async fn apply_gateway(&self, cluster: &KnownCluster, key: &ObjectKey) -> Result<(), ReconcileFailure> {
        let Some(known) = cluster.served(key) else { return self.withdraw(cluster, key).await };
        let map = self.parameters_of(&known.gateway).await?;
        let parameters = match GatewayParameters::new(&known.gateway, |_| map.as_ref()) {
            Ok(parameters) => parameters,
            Err(_) => return self.refuse_parameters(cluster, key, known, map).await,
        };
        let request = GatewayRequest {
            gateway: &known.gateway,
            uid: &known.uid,
            parameters: &parameters,
            settings: &self.settings.pods,
            ports_of_sets: cluster.ports_of_sets(key),
        };
        for object in request.objects() {
            self.apply(cluster, key, &known.uid, &object).await?;
        }
        Ok(())
    }

    /// Applies one object, unless one of this name belongs to others.
    async fn apply(
        &self,
        cluster: &KnownCluster,
        gateway: &ObjectKey,
        uid: &str,
        object: &OwnedObject,
    ) -> Result<(), ReconcileFailure> {
        let kind_name = object.kind.names()[2];
        let api = self.api(object.kind, &gateway.namespace);
        let failed = |error: kube::Error| format!("{kind_name} {}: {error}", object.name);
        let key = ObjectKey::new(&gateway.namespace, &object.name);
        let is_known = cluster.mark(object.kind, &key).is_some_and(|mark| mark.owner.as_deref() == Some(uid));
        if !is_known {
            match api.get_metadata_opt(&object.name).await.map_err(failed)? {
                Some(present) if !is_owned_by(&present.metadata, uid) => {
                    return Err(format!(
                        "{kind_name} {key} exists and is not owned by this Gateway: it stays as it is; rename or delete it"
                    ));
                }
                Some(_) => {}
                None => tracing::info!("Gateway {gateway}: making {kind_name} {}", object.name),
            }
        }
        let apply = PatchParams::apply(MANAGER).force();
        api.patch(&object.name, &apply, &Patch::Apply(&object.value)).await.map_err(failed)?;
        Ok(())
    }

    /// What is left of a Gateway that has changed its class, once its pods have had the time to take back what they have told.
    fn left(&self, cluster: &KnownCluster, gateway: &ObjectKey) -> Vec<(OwnedKind, ObjectKey)> {
        let mut left = cluster.left(gateway);
        left.retain(|(_, key)| !self.accounts.has(&key.namespace, &key.name));
        left
    }

    /// Removes it. If the Gateway has another class of this controller, once the pods of that one serve.
    async fn remove_left(&self, cluster: &KnownCluster, gateway: &ObjectKey) -> Result<(), ReconcileFailure> {
        let left = self.left(cluster, gateway);
        let Some(known) = cluster.gateways.get(gateway).filter(|_| !left.is_empty()) else { return Ok(()) };
        if cluster.served(gateway).is_some() {
            self.check_available(known).await?;
        }
        for (kind, key) in left {
            tracing::info!(
                "Gateway {gateway}: removing {} {}: its class is {} now",
                kind.names()[2],
                key.name,
                known.gateway.spec.gateway_class_name
            );
            let removed = self.remove(kind, &key, &known.uid).await;
            removed.map_err(|error| format!("{} {}: {error}", kind.names()[2], key.name))?;
        }
        Ok(())
    }

    /// Removes an object if it is still one of this controller's and the Gateway's, as it is read here: in any other version it stays.
    async fn remove(&self, kind: OwnedKind, key: &ObjectKey, uid: &str) -> Result<(), kube::Error> {
        let api = self.api(kind, &key.namespace);
        let Some(present) = api.get_metadata_opt(&key.name).await? else { return Ok(()) };
        if !is_made_by(&present.metadata, &self.settings.pods.controller_name, uid) {
            return Ok(());
        }
        let version = Preconditions {
            uid: present.metadata.uid.clone(),
            resource_version: present.metadata.resource_version.clone(),
        };
        let parameters = DeleteParams { preconditions: Some(version), ..DeleteParams::background() };
        match api.delete(&key.name, &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// An error as long as the Deployment of a Gateway has no pod that serves.
    async fn check_available(&self, known: &KnownGateway) -> Result<(), ReconcileFailure> {
        let meta = &known.gateway.metadata;
        let name = super::names::of_objects(&meta.name, &known.gateway.spec.gateway_class_name);
        let api = self.api(OwnedKind::Deployment, &meta.namespace);
        let found = api.get_opt(&name).await.map_err(|error| format!("Deployment {name}: {error}"))?;
        let number = |path: &str| found.as_ref()?.data.pointer(path)?.as_u64();
        let is_available = number("/status/availableReplicas").is_some_and(|count| count > 0)
            || number("/spec/replicas") == Some(0);
        is_available.then_some(()).ok_or_else(|| {
            format!(
                "Deployment {name} has no pod that is available: what was made for the class of before stays"
            )
        })
    }

    /// Takes back what was told of a Gateway that is of no class of this controller any more: its pods may be gone.
    async fn withdraw(&self, cluster: &KnownCluster, key: &ObjectKey) -> Result<(), ReconcileFailure> {
        let Some(known) = cluster.gateways.get(key).filter(|known| !known.is_ending) else { return Ok(()) };
        let mut translator = self.translator(Some(key.clone()));
        for class in cluster.classes.values() {
            translator.upsert(&KubernetesObject::GatewayClass(class.clone()));
        }
        translator.upsert(&KubernetesObject::Gateway(known.gateway.clone()));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, &gateway_resource());
        let statuses = translator.translate(&Timestamp::now().to_string()).statuses;
        for update in statuses.iter().filter(|update| update.kind == ObjectKind::Gateway) {
            write_status(&api, update, WrittenVersion::Known).await?;
        }
        Ok(())
    }

    /// The ConfigMap that a Gateway refers to, if it is there.
    async fn parameters_of(&self, gateway: &Gateway) -> Result<Option<ConfigMap>, ReconcileFailure> {
        let wanted = gateway.spec.infrastructure.as_deref();
        let Some(reference) = wanted.and_then(|wanted| wanted.parameters_ref.as_deref()) else {
            return Ok(None);
        };
        if !reference.group.is_empty() || *reference.kind != *"ConfigMap" {
            return Ok(None);
        }
        let api = self.api(OwnedKind::ConfigMap, &gateway.metadata.namespace);
        let found = api.get_opt(&reference.name).await;
        let found = found.map_err(|error| format!("ConfigMap {}: {error}", reference.name))?;
        found
            .map(|found| {
                serde_json::to_value(found)
                    .and_then(serde_json::from_value)
                    .map_err(|error| error.to_string())
            })
            .transpose()
    }

    /// Parameters that cannot be read change nothing. The pods tell the status of their Gateway; before there are any, the controller does.
    async fn refuse_parameters(
        &self,
        cluster: &KnownCluster,
        key: &ObjectKey,
        known: &KnownGateway,
        map: Option<ConfigMap>,
    ) -> Result<(), ReconcileFailure> {
        let name = super::names::of_objects(&key.name, &known.gateway.spec.gateway_class_name);
        if cluster.mark(OwnedKind::Deployment, &ObjectKey::new(&key.namespace, &name)).is_some() {
            return Ok(());
        }
        let mut translator = self.translator(Some(key.clone()));
        let class = ObjectKey::new("", &known.gateway.spec.gateway_class_name);
        if let Some(class) = cluster.classes.get(&class) {
            translator.upsert(&KubernetesObject::GatewayClass(class.clone()));
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, &gateway_resource());
        // What is known may be older than the status that was written last.
        let Some(present) = api.get_opt(&key.name).await.map_err(|error| error.to_string())? else {
            return Ok(());
        };
        let present: Gateway = serde_json::to_value(present)
            .and_then(serde_json::from_value)
            .map_err(|error| error.to_string())?;
        translator.upsert(&KubernetesObject::from(present));
        if let Some(map) = map {
            translator.upsert(&KubernetesObject::from(map));
        }
        let statuses = translator.translate(&Timestamp::now().to_string()).statuses;
        for update in statuses.iter().filter(|update| update.kind == ObjectKind::Gateway) {
            write_status(&api, update, WrittenVersion::Any).await?;
        }
        Ok(())
    }

    async fn write_class_status(
        &self,
        cluster: &KnownCluster,
        key: &ObjectKey,
    ) -> Result<(), ReconcileFailure> {
        let Some(class) = cluster.classes.get(key) else { return Ok(()) };
        let mut translator = self.translator(None);
        translator.set_missing_kinds(self.missing_kinds().await);
        translator.upsert(&KubernetesObject::GatewayClass(class.clone()));
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &class_resource());
        for update in translator.translate(&Timestamp::now().to_string()).statuses {
            write_status(&api, &update, WrittenVersion::Any).await?;
        }
        Ok(())
    }

    /// The kinds of the Gateway API that the cluster does not have; none if it does not say.
    async fn missing_kinds(&self) -> BTreeSet<&'static str> {
        // A kind that is read in an older version as well is not missed.
        let kinds = KINDS.iter().filter(|kind| versions_of(**kind).len() == 1);
        let names = kinds.map(|kind| names_of(*kind)).filter(|[group, ..]| *group == GROUP);
        let Ok(served) = self.client.list_api_group_resources(&format!("{GROUP}/v1")).await else {
            return BTreeSet::new();
        };
        let is_served = |kind: &str| served.resources.iter().any(|known| known.kind == kind);
        names.map(|[_, _, kind, _]| kind).filter(|kind| !is_served(kind)).collect()
    }

    fn translator(&self, served: Option<ObjectKey>) -> Translator {
        let controller_name = self.settings.pods.controller_name.clone();
        Translator::new(GatewaySettings { controller_name, served, ..GatewaySettings::default() })
    }

    /// Gives the accounts of all Gateways the right to read routes, and takes it from those that have been gone for a while.
    async fn bind_accounts(&mut self, cluster: &KnownCluster) -> Result<(), ReconcileFailure> {
        let served: BTreeSet<AccountPlace> = cluster
            .all_served()
            .map(|known| {
                let meta = &known.gateway.metadata;
                let name = super::names::of_objects(&meta.name, &known.gateway.spec.gateway_class_name);
                (meta.namespace.clone(), name)
            })
            .collect();
        let subjects = self.accounts.wanted(served, Instant::now()).into_iter().map(
            |(namespace, name)| json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name }),
        );
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &binding_resource());
        let change = json!({ "subjects": subjects.collect::<Vec<Value>>() });
        let name = &self.settings.accounts_binding;
        api.patch(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// For which version of its object a status is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrittenVersion {
    Any,
    /// The one that is known: others write it, too.
    Known,
}

async fn write_status(
    api: &Api<DynamicObject>,
    update: &StatusUpdate,
    version: WrittenVersion,
) -> Result<(), ReconcileFailure> {
    let mut change = json!({ "status": update.status.patch() });
    if version == WrittenVersion::Known {
        change["metadata"] = json!({ "resourceVersion": update.version.as_str() });
    }
    let parameters =
        PatchParams { field_manager: Some(update.manager.to_string()), ..PatchParams::default() };
    let written = api.patch_status(&update.key.name, &parameters, &Patch::Merge(&change)).await;
    written.map(drop).map_err(|error| format!("its status cannot be written: {error}"))
}
