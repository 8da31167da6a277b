//! From a Gateway to the objects that run it: account, access, configuration, network policy, Service, disruption budget,
//! Deployment. Pure.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde_json::{Value, json};
use weir_gateway::api::Gateway;

use super::pods;
use super::request::{CONTROLLER_ANNOTATION, GatewayPods, GatewayRequest, MANAGER, MANAGER_LABEL};

/// A kind of object that the controller makes for a Gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnedKind {
    ServiceAccount,
    ConfigMap,
    RoleBinding,
    NetworkPolicy,
    Service,
    PodDisruptionBudget,
    Deployment,
}

impl OwnedKind {
    /// In the order in which they are made: a pod finds its account and its configuration, and no pod starts without its policy.
    pub(crate) const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::RoleBinding,
        Self::NetworkPolicy,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::Deployment,
    ];

    /// Those that each Gateway has.
    pub(crate) fn made(pods: &GatewayPods) -> impl Iterator<Item = Self> + use<> {
        let has_policies = pods.has_network_policies;
        Self::ALL.into_iter().filter(move |kind| has_policies || *kind != Self::NetworkPolicy)
    }

    /// Group, version, kind and plural.
    pub(crate) fn names(self) -> [&'static str; 4] {
        match self {
            Self::ServiceAccount => ["", "v1", "ServiceAccount", "serviceaccounts"],
            Self::ConfigMap => ["", "v1", "ConfigMap", "configmaps"],
            Self::RoleBinding => ["rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"],
            Self::NetworkPolicy => ["networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"],
            Self::Service => ["", "v1", "Service", "services"],
            Self::PodDisruptionBudget => ["policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"],
            Self::Deployment => ["apps", "v1", "Deployment", "deployments"],
        }
    }
}

/// An object as it is applied.
#[derive(Debug, Clone)]
pub(crate) struct OwnedObject {
    pub(crate) kind: OwnedKind,
    pub(crate) name: String,
    pub(crate) value: Value,
}

impl GatewayRequest<'_> {
    fn object(&self, kind: OwnedKind, fields: Value) -> OwnedObject {
        let [group, version, kind_name, _] = kind.names();
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let mut value = json!({
            "apiVersion": api_version,
            "kind": kind_name,
            "metadata": {
                "name": self.name(),
                "namespace": self.namespace(),
                "labels": self.labels(),
                "annotations": self.object_annotations(),
                "ownerReferences": [{
                    "apiVersion": "gateway.networking.k8s.io/v1",
                    "kind": Gateway::KIND,
                    "name": self.gateway.metadata.name,
                    "uid": self.uid,
                    "controller": true,
                    "blockOwnerDeletion": false,
                }],
            },
        });
        if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields) {
            value.extend(fields);
        }
        OwnedObject { kind, name: self.name(), value }
    }

    /// All objects, in the order in which they are to be made.
    pub(crate) fn objects(&self) -> Vec<OwnedObject> {
        let fields = |kind| match kind {
            OwnedKind::ServiceAccount => Some(json!({ "automountServiceAccountToken": false })),
            OwnedKind::ConfigMap => Some(json!({ "data": { "weir.toml": self.config() } })),
            OwnedKind::RoleBinding => Some(json!({
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": self.settings.namespace_role,
                },
                "subjects": [{ "kind": "ServiceAccount", "name": self.name(), "namespace": self.namespace() }],
            })),
            OwnedKind::NetworkPolicy => Some(self.network_policy()),
            OwnedKind::Service => self.service(),
            OwnedKind::PodDisruptionBudget => Some(json!({
                "spec": { "maxUnavailable": 1, "selector": { "matchLabels": self.pods_of_class() } },
            })),
            OwnedKind::Deployment => Some(pods::deployment(self)),
        };
        OwnedKind::made(self.settings).filter_map(|kind| Some(self.object(kind, fields(kind)?))).collect()
    }

    /// The ports of the listeners are open to everything that reaches the pods, the admin listener to pods of the cluster. Connections to servers
    /// are not restricted: a Service can have endpoints anywhere.
    fn network_policy(&self) -> Value {
        let port = |number: u16| json!({ "protocol": "TCP", "port": number });
        let listeners: Vec<Value> = self.all_ports().iter().map(|known| port(known.number)).collect();
        let admin = json!({ "ports": [port(self.admin_port())], "from": [{ "namespaceSelector": {} }] });
        // A rule without ports would open all of them.
        let listeners = (!listeners.is_empty()).then(|| json!({ "ports": listeners }));
        json!({ "spec": {
            "podSelector": { "matchLabels": self.pods_of_class() },
            "policyTypes": ["Ingress"],
            "ingress": listeners.into_iter().chain([admin]).collect::<Vec<Value>>(),
        } })
    }

    /// `None`: without ports there is no Service.
    fn service(&self) -> Option<Value> {
        let ports = self.all_ports();
        let ports: Vec<Value> = ports
            .iter()
            .map(|port| {
                json!({ "name": port.name(), "protocol": "TCP", "port": port.number, "targetPort": port.number })
            })
            .collect();
        let parameters = self.parameters;
        let mut spec = json!({
            "type": parameters.service_type,
            "selector": self.pods_of_class(),
            "ports": ports,
            "ipFamilyPolicy": "PreferDualStack",
        });
        if &*parameters.service_type != "ClusterIP" {
            spec["externalTrafficPolicy"] = json!(parameters.external_traffic_policy);
        }
        if let Some(address) = self.wanted_address().filter(|_| &*parameters.service_type == "LoadBalancer") {
            spec["loadBalancerIP"] = json!(address);
        }
        (!ports.is_empty()).then(|| json!({ "spec": spec }))
    }
}

/// Whether the controller of this name has made an object with this metadata, for the Gateway with this uid.
pub(crate) fn is_made_by(meta: &ObjectMeta, controller_name: &str, uid: &str) -> bool {
    let has = |texts: &Option<BTreeMap<String, String>>, key: &str, value: &str| {
        texts.as_ref().and_then(|texts| texts.get(key)).is_some_and(|found| found == value)
    };
    has(&meta.labels, MANAGER_LABEL, MANAGER)
        && has(&meta.annotations, CONTROLLER_ANNOTATION, controller_name)
        && is_owned_by(meta, uid)
}

/// Whether an object with this metadata belongs to the Gateway with this uid.
pub(crate) fn is_owned_by(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
