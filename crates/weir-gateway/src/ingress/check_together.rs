//! Ingresses of manifests, judged together as a cluster would: whose each host is, and where URLs lead.
//!
//! Services and classes that the manifests do not have are taken to be there: they are not what is checked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::annotations::IngressProblem;
use super::lookup::service_of_url;
use super::state::IngressState;
use crate::api::{CLASS_ANNOTATION, NGINX_PREFIX};
use crate::options::settings::{GatewaySettings, INGRESS_CONTROLLER_NAME, IngressSettings};
use crate::store::{KubernetesObject, ObjectKey, ObjectKind, ObjectStore};

/// What is wrong with an Ingress among others.
#[derive(Debug)]
pub(super) struct JointFinding {
    pub(super) ingress: ObjectKey,
    pub(super) problem: IngressProblem,
    /// Whether something of it is not served.
    pub(super) is_unserved: bool,
}

/// Judges those of each class together. `grants` are the ReferenceGrants.
pub(super) fn judge(ingresses: &[Value], grants: &[Value]) -> Vec<JointFinding> {
    let mut by_class: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for ingress in ingresses {
        by_class.entry(class(ingress)).or_default().push(ingress);
    }
    by_class.values().flat_map(|ingresses| judge_class(ingresses, grants)).collect()
}

/// The class that an Ingress names, in the one way or the other.
fn class(ingress: &Value) -> String {
    let by_annotation = ingress["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let by_name = ingress["spec"]["ingressClassName"].as_str();
    by_annotation.or(by_name).unwrap_or_default().to_owned()
}

fn judge_class(ingresses: &[&Value], grants: &[Value]) -> Vec<JointFinding> {
    let settings =
        GatewaySettings { ingress: Some(IngressSettings::default()), ..GatewaySettings::default() };
    let mut state = IngressState::default();
    let mut store = ObjectStore::default();
    let mut add = |kind, value: &Value| {
        if let Ok(object) = KubernetesObject::from_json(kind, value.to_string().as_bytes()) {
            state.note(&object);
            store.upsert(&object);
        }
    };
    let class = json!({
        "metadata": { "name": "checked", "annotations": { "ingressclass.kubernetes.io/is-default-class": "true" } },
        "spec": { "controller": INGRESS_CONTROLLER_NAME },
    });
    add(ObjectKind::IngressClass, &class);
    grants.iter().for_each(|grant| add(ObjectKind::ReferenceGrant, grant));
    for ((namespace, name), ports) in services(ingresses) {
        let ports: Vec<Value> = (1..)
            .zip(&ports)
            .map(|(place, port)| match port {
                PortReference::Number(number) => json!({ "name": format!("n{number}"), "port": number }),
                // The number has no meaning.
                PortReference::Name(name) => json!({ "name": name, "port": 50_000 + place }),
            })
            .collect();
        let service =
            json!({ "metadata": { "namespace": namespace, "name": name }, "spec": { "ports": ports } });
        add(ObjectKind::Service, &service);
    }
    for ingress in ingresses {
        let mut ingress = (*ingress).clone();
        ingress["spec"]["ingressClassName"] = Value::Null;
        if let Some(annotations) = ingress["metadata"]["annotations"].as_object_mut() {
            annotations.remove(CLASS_ANNOTATION);
        }
        add(ObjectKind::Ingress, &ingress);
    }
    state.retranslate(&store, &settings);
    let Some(input) = state.input(&settings) else { return Vec::new() };
    let found = input.problems_of_several().map(|(ingress, problem, is_unserved)| JointFinding {
        ingress: ingress.clone(),
        problem: problem.clone(),
        is_unserved,
    });
    found.collect()
}

/// A port of a Service, as an Ingress names it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PortReference {
    Number(u64),
    Name(String),
}

/// The Services that Ingresses refer to, with the ports that they name.
fn services(ingresses: &[&Value]) -> BTreeMap<(String, String), BTreeSet<PortReference>> {
    let mut services: BTreeMap<(String, String), BTreeSet<PortReference>> = BTreeMap::new();
    for ingress in ingresses {
        let namespace = ingress["metadata"]["namespace"].as_str().unwrap_or_default();
        let rules = ingress["spec"]["rules"].as_array().into_iter().flatten();
        let paths = rules.flat_map(|rule| rule["http"]["paths"].as_array().into_iter().flatten());
        let backends = paths.map(|path| &path["backend"]).chain([&ingress["spec"]["defaultBackend"]]);
        for service in backends.map(|backend| &backend["service"]) {
            let Some(name) = service["name"].as_str() else { continue };
            let ports = services.entry((namespace.to_owned(), name.to_owned())).or_default();
            let port = &service["port"];
            ports.extend(port["number"].as_u64().map(PortReference::Number));
            ports.extend(port["name"].as_str().map(|name| PortReference::Name(name.to_owned())));
        }
        for name in ["auth-url", "mirror-target"] {
            let url = ingress["metadata"]["annotations"][format!("{NGINX_PREFIX}{name}")].as_str();
            let Some((key, port)) = url.and_then(service_of_url) else { continue };
            let ports = services.entry((key.namespace.to_string(), key.name.to_string())).or_default();
            ports.insert(PortReference::Number(port.into()));
        }
    }
    services
}
