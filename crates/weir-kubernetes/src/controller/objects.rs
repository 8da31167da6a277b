//! From a Gateway to the objects that run it: account, access, configuration, Service, disruption budget, Deployment. Pure.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde_json::{Value, json};
use weir_gateway::GatewayParameters;
use weir_gateway::api::Gateway;

use super::names;
use super::pods;

/// The label by which the Gateway API names the Gateway of an object (GEP-1762).
pub(crate) const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";

/// The label of everything that the controller makes.
pub(crate) const MANAGER_LABEL: &str = "app.kubernetes.io/managed-by";
/// Its value, which is also the name of the owner of the fields.
pub(crate) const MANAGER: &str = "weir-controller";

/// The port of the admin listener, or one of those behind it where a listener of the Gateway has it.
const ADMIN_PORT: u16 = 9000;

/// A kind of object that the controller makes for a Gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnedKind {
    ServiceAccount,
    ConfigMap,
    RoleBinding,
    Service,
    PodDisruptionBudget,
    Deployment,
}

impl OwnedKind {
    /// In the order in which they are made: a pod finds its account and its configuration.
    pub(crate) const ALL: [Self; 6] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::RoleBinding,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::Deployment,
    ];

    /// Group, version, kind and plural.
    pub(crate) fn names(self) -> [&'static str; 4] {
        match self {
            Self::ServiceAccount => ["", "v1", "ServiceAccount", "serviceaccounts"],
            Self::ConfigMap => ["", "v1", "ConfigMap", "configmaps"],
            Self::RoleBinding => ["rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"],
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

/// What the objects of all Gateways have in common.
#[derive(Debug, Clone)]
pub struct GatewayPods {
    /// Of the GatewayClasses that they serve.
    pub controller_name: Box<str>,
    /// The image of Weir.
    pub image: Box<str>,
    /// The names of Secrets with which it is pulled.
    pub pull_secrets: Vec<Box<str>>,
    /// The ClusterRole that a Gateway's account has in the namespace of the Gateway: Secrets and Leases.
    pub namespace_role: Box<str>,
    /// Whether pods read the Secrets of all namespaces, for listeners that refer to other ones. Any pod in the namespace of a Gateway can have
    /// the rights of its account, so that this suits clusters whose tenants trust each other.
    pub has_all_secrets: bool,
}

/// A Gateway, and what is wanted beside it.
#[derive(Debug)]
pub(crate) struct GatewayRequest<'a> {
    pub(crate) gateway: &'a Gateway,
    /// Its uid, by which it owns its objects.
    pub(crate) uid: &'a str,
    pub(crate) parameters: &'a GatewayParameters,
    pub(crate) settings: &'a GatewayPods,
}

/// A port on which the listeners of a Gateway accept connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GatewayPort<'a> {
    pub(crate) number: u16,
    pub(crate) protocol: &'a str,
}

impl GatewayPort<'_> {
    /// A name for a Service and for a container, which permits 15 bytes.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.protocol.to_ascii_lowercase(), self.number)
    }
}

impl GatewayRequest<'_> {
    pub(crate) fn name(&self) -> String {
        names::of_objects(&self.gateway.metadata.name, &self.gateway.spec.gateway_class_name)
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.gateway.metadata.namespace
    }

    /// The ports of the listeners whose protocol Weir knows, in ascending order, each once.
    pub(crate) fn ports(&self) -> Vec<GatewayPort<'_>> {
        let mut ports = BTreeMap::new();
        for listener in &self.gateway.spec.listeners {
            let is_known = matches!(&*listener.protocol, "HTTP" | "HTTPS" | "TLS" | "TCP");
            if let Some(number) = u16::try_from(listener.port).ok().filter(|number| *number > 0 && is_known) {
                ports.entry(number).or_insert(&*listener.protocol);
            }
        }
        ports.into_iter().map(|(number, protocol)| GatewayPort { number, protocol }).collect()
    }

    /// The port of the admin listener, which none of the listeners has.
    pub(crate) fn admin_port(&self) -> u16 {
        let ports = self.ports();
        let is_free = |port: &u16| ports.iter().all(|known| known.number != *port);
        (ADMIN_PORT..=u16::MAX).find(is_free).unwrap_or(ADMIN_PORT)
    }

    /// The base of the configuration: that of the parameters, else one with an admin listener for probes and metrics.
    pub(crate) fn config(&self) -> String {
        match self.parameters.config.as_deref() {
            Some(config) => config.to_owned(),
            None => format!(
                "[process]\nstop_delay = \"{}s\"\nstop_grace = \"{}s\"\n\n[admin]\naddress = \"0.0.0.0:{}\"\n",
                pods::STOP_DELAY_SECONDS,
                pods::STOP_GRACE_SECONDS,
                self.admin_port()
            ),
        }
    }

    /// The labels that select the pods; they cannot change later.
    pub(crate) fn selector(&self) -> Value {
        json!({ GATEWAY_LABEL: names::of_label(&self.gateway.metadata.name), MANAGER_LABEL: MANAGER })
    }

    /// The labels of all objects: those of the Gateway's infrastructure, and those of the controller, which win.
    pub(crate) fn labels(&self) -> Value {
        let mut labels = BTreeMap::new();
        for (key, value) in self.gateway.spec.infrastructure.iter().flat_map(|wanted| &wanted.labels) {
            labels.insert(&**key, value.to_string());
        }
        labels.insert("app.kubernetes.io/name", "weir".to_owned());
        labels.insert("app.kubernetes.io/instance", self.name());
        labels.insert(CLASS_LABEL, names::of_label(&self.gateway.spec.gateway_class_name));
        labels.insert(GATEWAY_LABEL, names::of_label(&self.gateway.metadata.name));
        labels.insert(MANAGER_LABEL, MANAGER.to_owned());
        json!(labels)
    }

    /// The annotations of the Gateway's infrastructure.
    pub(crate) fn annotations(&self) -> BTreeMap<&str, &str> {
        let wanted = self.gateway.spec.infrastructure.iter().flat_map(|wanted| &wanted.annotations);
        wanted.map(|(key, value)| (&**key, &**value)).collect()
    }

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
                "annotations": self.annotations(),
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
            OwnedKind::Service => self.service(),
            OwnedKind::PodDisruptionBudget => Some(json!({
                "spec": { "maxUnavailable": 1, "selector": { "matchLabels": self.selector() } },
            })),
            OwnedKind::Deployment => Some(pods::deployment(self)),
        };
        OwnedKind::ALL.into_iter().filter_map(|kind| Some(self.object(kind, fields(kind)?))).collect()
    }

    /// `None`: without ports there is no Service.
    fn service(&self) -> Option<Value> {
        let ports = self.ports();
        let ports: Vec<Value> = ports
            .iter()
            .map(|port| {
                json!({ "name": port.name(), "protocol": "TCP", "port": port.number, "targetPort": port.number })
            })
            .collect();
        let parameters = self.parameters;
        let mut spec = json!({
            "type": parameters.service_type,
            "selector": self.selector(),
            "ports": ports,
            "ipFamilyPolicy": "PreferDualStack",
        });
        if &*parameters.service_type != "ClusterIP" {
            spec["externalTrafficPolicy"] = json!(parameters.external_traffic_policy);
        }
        (!ports.is_empty()).then(|| json!({ "spec": spec }))
    }
}

/// Whether an object with this metadata belongs to the Gateway with this uid.
pub(crate) fn is_owned_by(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
