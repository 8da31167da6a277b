//! A Gateway and what is wanted beside it, in the terms of its objects: name, ports, labels, base of the configuration. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_gateway::api::{Gateway, SharedText};
use weir_gateway::{GatewayParameters, admin_port};

use super::names;

/// The label by which the Gateway API names the Gateway of an object (GEP-1762).
pub(crate) const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";

/// The label with the name of the objects of a Gateway and a class.
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// The label of everything that the controller makes.
pub(crate) const MANAGER_LABEL: &str = "app.kubernetes.io/managed-by";
/// Its value, which is also the name of the owner of the fields.
pub(crate) const MANAGER: &str = "weir-controller";

/// The annotation that names the controller of an object, by its `controllerName`: two installations of Weir can have made objects for one
/// Gateway, one after the other, and each removes its own alone.
pub(crate) const CONTROLLER_ANNOTATION: &str = "weir.dev/controller-name";

/// How long a pod serves after the signal to stop, until no other node sends it connections.
pub(crate) const STOP_DELAY_SECONDS: u32 = 5;

/// How long running exchanges may continue after that.
pub(crate) const STOP_GRACE_SECONDS: u32 = 30;

/// What the objects of all Gateways have in common.
#[derive(Debug, Clone)]
pub struct GatewayPods {
    /// Of the GatewayClasses that they serve.
    pub controller_name: SharedText,
    /// The image of Weir.
    pub image: Box<str>,
    /// The names of Secrets with which it is pulled.
    pub pull_secrets: Vec<Box<str>>,
    /// The ClusterRole that a Gateway's account has in the namespace of the Gateway: Secrets and Leases.
    pub namespace_role: Box<str>,
    /// Whether pods read the Secrets of all namespaces, for listeners that refer to other ones. Any pod in the namespace of a Gateway can have
    /// the rights of its account, so that this suits clusters whose tenants trust each other.
    pub has_all_secrets: bool,
    /// Whether each Gateway has a NetworkPolicy. Without it the controller needs no right to any.
    pub has_network_policies: bool,
}

/// A Gateway, and what is wanted beside it.
#[derive(Debug)]
pub(crate) struct GatewayRequest<'a> {
    pub(crate) gateway: &'a Gateway,
    /// Its uid, by which it owns its objects.
    pub(crate) uid: &'a str,
    pub(crate) parameters: &'a GatewayParameters,
    pub(crate) settings: &'a GatewayPods,
    /// The ports of its ListenerSets, with their protocols.
    pub(crate) ports_of_sets: BTreeMap<u16, SharedText>,
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

    /// The ports of its own listeners and of those of its sets.
    pub(crate) fn all_ports(&self) -> Vec<GatewayPort<'_>> {
        let mut ports = self.ports();
        let own: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let of_sets = self.ports_of_sets.iter().filter(|(number, _)| !own.contains(number));
        ports.extend(of_sets.map(|(number, protocol)| GatewayPort { number: *number, protocol }));
        ports
    }

    /// The ports of its own listeners whose protocol Weir knows, in ascending order, each once.
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
        admin_port(self.gateway)
    }

    /// The base of the configuration: that of the parameters, else one with an admin listener for probes and metrics.
    pub(crate) fn config(&self) -> String {
        match self.parameters.config.as_deref() {
            Some(config) => config.to_owned(),
            None => format!(
                "[process]\nstop_delay = \"{}s\"\nstop_grace = \"{}s\"\n\n[admin]\naddress = \"0.0.0.0:{}\"\n",
                STOP_DELAY_SECONDS,
                STOP_GRACE_SECONDS,
                self.admin_port()
            ),
        }
    }

    /// The labels that select the pods; they cannot change later.
    pub(crate) fn selector(&self) -> Value {
        json!({ GATEWAY_LABEL: names::of_label(&self.gateway.metadata.name), MANAGER_LABEL: MANAGER })
    }

    /// The labels that select the pods of this class alone: those of another one, which the Gateway had before, may still be there.
    pub(crate) fn pods_of_class(&self) -> Value {
        let mut selector = self.selector();
        selector[INSTANCE_LABEL] = json!(self.name());
        selector
    }

    /// The labels of all objects: those of the Gateway's infrastructure, and those of the controller, which win.
    pub(crate) fn labels(&self) -> Value {
        let mut labels = BTreeMap::new();
        for (key, value) in self.gateway.spec.infrastructure.iter().flat_map(|wanted| &wanted.labels) {
            labels.insert(&**key, value.to_string());
        }
        labels.insert("app.kubernetes.io/name", "weir".to_owned());
        labels.insert(INSTANCE_LABEL, self.name());
        labels.insert(CLASS_LABEL, names::of_label(&self.gateway.spec.gateway_class_name));
        labels.insert(GATEWAY_LABEL, names::of_label(&self.gateway.metadata.name));
        labels.insert(MANAGER_LABEL, MANAGER.to_owned());
        json!(labels)
    }

    /// The address that its load balancer is to have: the first IP address that it asks for.
    pub(crate) fn wanted_address(&self) -> Option<&str> {
        let values = self.gateway.spec.addresses.iter().filter_map(|address| address.value.as_deref());
        { values }.find(|value| value.parse::<std::net::IpAddr>().is_ok())
    }

    /// The annotations of all objects: those of the Gateway's infrastructure, and the controller's, which wins.
    pub(crate) fn object_annotations(&self) -> BTreeMap<&str, &str> {
        let mut annotations = self.annotations();
        annotations.insert(CONTROLLER_ANNOTATION, &self.settings.controller_name);
        annotations
    }

    /// The annotations of the Gateway's infrastructure.
    pub(crate) fn annotations(&self) -> BTreeMap<&str, &str> {
        let wanted = self.gateway.spec.infrastructure.iter().flat_map(|wanted| &wanted.annotations);
        wanted.map(|(key, value)| (&**key, &**value)).collect()
    }
}
