//! Objects of Gateways, compared with what the types of Kubernetes say and with what users rely on.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_config::CheckedConfig;
use weir_gateway::api::Gateway;
use weir_gateway::{GatewayParameters, STOP_MAX};

use super::*;
use crate::controller::request::{CONTROLLER_ANNOTATION, GATEWAY_LABEL, MANAGER, MANAGER_LABEL};

fn gateway(fields: Value) -> Gateway {
    let mut spec = json!({
        "gatewayClassName": "weir",
        "listeners": [
            { "name": "web", "port": 80, "protocol": "HTTP" },
            { "name": "tls", "port": 443, "protocol": "HTTPS" },
            { "name": "more", "port": 443, "protocol": "HTTPS", "hostname": "a.test" },
            { "name": "dns", "port": 53, "protocol": "UDP" },
        ],
    });
    if let (Value::Object(spec), Value::Object(fields)) = (&mut spec, fields) {
        spec.extend(fields);
    }
    serde_json::from_value(json!({ "metadata": { "namespace": "shop", "name": "front" }, "spec": spec }))
        .expect("a Gateway")
}

fn parameters(pairs: &[(&str, &str)]) -> GatewayParameters {
    let data = pairs.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
    GatewayParameters::read(&data, 9000).expect("they are sound")
}

fn settings() -> GatewayPods {
    GatewayPods {
        controller_name: "weir.dev/gateway".into(),
        image: "weir:test".into(),
        pull_secrets: vec!["registry".into()],
        namespace_role: "weir-gateway-namespace".into(),
        has_all_secrets: false,
        has_network_policies: true,
    }
}

fn objects(gateway: &Gateway, parameters: &GatewayParameters) -> Vec<OwnedObject> {
    let settings = settings();
    GatewayRequest { gateway, uid: "u-1", parameters, settings: &settings, ports_of_sets: BTreeMap::new() }
        .objects()
}

fn one(kind: OwnedKind, gateway: &Gateway, parameters: &GatewayParameters) -> Value {
    objects(gateway, parameters).into_iter().find(|object| object.kind == kind).expect("it is made").value
}

/// A field that the type does not know, or that has another form there, is missing afterwards.
fn assert_is<T: DeserializeOwned + Serialize>(value: &Value) {
    let typed: T = serde_json::from_value(value.clone()).expect("the form of the type");
    let mut written = serde_json::to_value(typed).expect("it is written");
    // An empty list of what a type requires is written, an absent one too.
    let missing = difference("", value, &mut written);
    assert!(missing.is_empty(), "unknown to Kubernetes: {missing:?}");
}

/// The paths of what `value` has and `typed` has not.
fn difference(path: &str, value: &Value, typed: &mut Value) -> Vec<String> {
    match (value, typed) {
        (Value::Object(value), Value::Object(typed)) => value
            .iter()
            .flat_map(|(key, part)| {
                let path = format!("{path}.{key}");
                match typed.get_mut(key) {
                    Some(typed) => difference(&path, part, typed),
                    None => vec![path],
                }
            })
            .collect(),
        (Value::Array(value), Value::Array(typed)) if value.len() == typed.len() => {
            value.iter().zip(typed).flat_map(|(part, typed)| difference(path, part, typed)).collect()
        }
        (value, typed) if *value == *typed => Vec::new(),
        _ => vec![path.to_owned()],
    }
}

#[test]
fn every_object_has_the_form_of_its_kind_and_belongs_to_its_gateway() {
    let gateway = gateway(json!({}));
    let parameters =
        parameters(&[("tolerations", "[{ key: edge, operator: Exists }]"), ("nodeSelector", "a: b")]);
    let objects = objects(&gateway, &parameters);
    let kinds: Vec<OwnedKind> = objects.iter().map(|object| object.kind).collect();
    assert_eq!(kinds, OwnedKind::ALL);
    for object in &objects {
        match object.kind {
            OwnedKind::ServiceAccount => assert_is::<ServiceAccount>(&object.value),
            OwnedKind::ConfigMap => assert_is::<ConfigMap>(&object.value),
            OwnedKind::RoleBinding => assert_is::<RoleBinding>(&object.value),
            OwnedKind::NetworkPolicy => assert_is::<NetworkPolicy>(&object.value),
            OwnedKind::Service => assert_is::<Service>(&object.value),
            OwnedKind::PodDisruptionBudget => assert_is::<PodDisruptionBudget>(&object.value),
            OwnedKind::Deployment => assert_is::<Deployment>(&object.value),
        }
        let meta: ObjectMeta = serde_json::from_value(object.value["metadata"].clone()).expect("metadata");
        assert_eq!((meta.namespace.as_deref(), meta.name.as_deref()), (Some("shop"), Some("front-weir")));
        assert!(is_owned_by(&meta, "u-1") && !is_owned_by(&meta, "u-2"));
        assert_eq!(meta.labels.expect("labels")[MANAGER_LABEL], MANAGER);
    }
}

#[test]
fn the_service_has_each_port_once_and_the_type_that_is_wanted() {
    let service = one(OwnedKind::Service, &gateway(json!({})), &GatewayParameters::default());
    let ports: Vec<(Option<&str>, Option<u64>)> = service["spec"]["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| (port["name"].as_str(), port["port"].as_u64()))
        .collect();
    assert_eq!(ports, [(Some("http-80"), Some(80)), (Some("https-443"), Some(443))]);
    assert_eq!(service["spec"]["type"], "LoadBalancer");
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Cluster");
    let wanted = parameters(&[("serviceType", "ClusterIP")]);
    let service = one(OwnedKind::Service, &gateway(json!({})), &wanted);
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["externalTrafficPolicy"]),
        (&json!("ClusterIP"), &Value::Null)
    );
}

#[test]
fn a_gateway_without_usable_ports_has_no_service() {
    let gateway = gateway(json!({ "listeners": [{ "name": "dns", "port": 53, "protocol": "UDP" }] }));
    let kinds = objects(&gateway, &GatewayParameters::default()).into_iter().map(|object| object.kind);
    assert!(!kinds.collect::<Vec<_>>().contains(&OwnedKind::Service));
}

#[test]
fn the_network_policy_opens_all_ports_of_listeners_and_the_admin_listener_to_the_cluster() {
    let gateway = gateway(json!({}));
    let (settings, parameters) = (settings(), GatewayParameters::default());
    let ports_of_sets = BTreeMap::from([(8443, "TLS".into())]);
    let request = GatewayRequest {
        gateway: &gateway,
        uid: "u-1",
        parameters: &parameters,
        settings: &settings,
        ports_of_sets,
    };
    let objects = request.objects();
    let spec = |kind| &objects.iter().find(|object| object.kind == kind).expect("it is made").value["spec"];
    let policy = spec(OwnedKind::NetworkPolicy);
    let port = |number: u16| json!({ "protocol": "TCP", "port": number });
    assert_eq!(
        policy["ingress"],
        json!([
            { "ports": [port(80), port(443), port(8443)] },
            { "ports": [port(9000)], "from": [{ "namespaceSelector": {} }] },
        ])
    );
    assert_eq!(policy["policyTypes"], json!(["Ingress"]));
    let service: Vec<&Value> = spec(OwnedKind::Service)["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| &port["targetPort"])
        .collect();
    assert_eq!(json!(service), json!([80, 443, 8443]));
    let labels = &spec(OwnedKind::Deployment)["template"]["metadata"]["labels"];
    for (key, value) in policy["podSelector"]["matchLabels"].as_object().expect("a selector") {
        assert_eq!(labels[key], *value);
    }
}

#[test]
fn a_network_policy_without_listeners_does_not_open_every_port() {
    let gateway = gateway(json!({ "listeners": [{ "name": "dns", "port": 53, "protocol": "UDP" }] }));
    let policy = one(OwnedKind::NetworkPolicy, &gateway, &GatewayParameters::default());
    let rules = policy["spec"]["ingress"].as_array().expect("rules");
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0]["ports"][0]["port"], 9000);
}

#[test]
fn a_controller_without_the_right_makes_no_network_policy() {
    let settings = GatewayPods { has_network_policies: false, ..settings() };
    assert!(!OwnedKind::made(&settings).any(|kind| kind == OwnedKind::NetworkPolicy));
    assert_eq!(OwnedKind::made(&settings).count(), OwnedKind::ALL.len() - 1);
}

#[test]
fn labels_of_the_infrastructure_are_copied_but_do_not_replace_those_that_select() {
    let gateway = gateway(json!({ "infrastructure": {
        "labels": { "team": "edge", GATEWAY_LABEL: "other", MANAGER_LABEL: "me" },
        "annotations": { "example.com/lb": "internal", CONTROLLER_ANNOTATION: "example.com/other" },
    }}));
    for object in objects(&gateway, &GatewayParameters::default()) {
        let meta = &object.value["metadata"];
        assert_eq!(meta["labels"]["team"], "edge");
        assert_eq!(
            (&meta["labels"][GATEWAY_LABEL], &meta["labels"][MANAGER_LABEL]),
            (&json!("front"), &json!(MANAGER))
        );
        assert_eq!(meta["annotations"]["example.com/lb"], "internal");
        assert_eq!(meta["annotations"][CONTROLLER_ANNOTATION], "weir.dev/gateway");
    }
    let deployment = one(OwnedKind::Deployment, &gateway, &GatewayParameters::default());
    let template = &deployment["spec"]["template"]["metadata"];
    assert_eq!(
        (&template["labels"]["team"], &template["annotations"]["example.com/lb"]),
        (&json!("edge"), &json!("internal"))
    );
    let selector = deployment["spec"]["selector"]["matchLabels"].as_object().expect("a selector");
    for (key, value) in selector {
        assert_eq!(template["labels"][key], *value);
    }
}

#[test]
fn pods_satisfy_the_restricted_standard() {
    let deployment = one(OwnedKind::Deployment, &gateway(json!({})), &GatewayParameters::default());
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(pod["securityContext"]["sysctls"][0]["name"], "net.ipv4.ip_unprivileged_port_start");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(
        (&container["allowPrivilegeEscalation"], &container["readOnlyRootFilesystem"]),
        (&json!(false), &json!(true))
    );
    let high = gateway(json!({ "listeners": [{ "name": "web", "port": 8080, "protocol": "HTTP" }] }));
    let deployment = one(OwnedKind::Deployment, &high, &GatewayParameters::default());
    assert_eq!(deployment["spec"]["template"]["spec"]["securityContext"]["sysctls"], Value::Null);
}

#[test]
fn parameters_reach_the_deployment() {
    let wanted = parameters(&[
        ("replicas", "7"),
        ("resources", "limits: { memory: 1Gi }"),
        ("affinity", "nodeAffinity: {}"),
    ]);
    let deployment = one(OwnedKind::Deployment, &gateway(json!({})), &wanted);
    assert_eq!(deployment["spec"]["replicas"], 7);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["resources"], json!({ "limits": { "memory": "1Gi" } }));
    assert_eq!(pod["affinity"], json!({ "nodeAffinity": {} }));
    let scaled = one(OwnedKind::Deployment, &gateway(json!({})), &parameters(&[("replicas", "auto")]));
    assert_eq!(scaled["spec"]["replicas"], Value::Null, "another field manager has it");
}

#[test]
fn another_config_makes_new_pods() {
    let hash = |parameters: &GatewayParameters| {
        let deployment = one(OwnedKind::Deployment, &gateway(json!({})), parameters);
        deployment["spec"]["template"]["metadata"]["annotations"]["weir.dev/config-hash"].clone()
    };
    let text = "admin.address = \"0.0.0.0:9000\"\n[log]\nlevel = \"debug\"\n";
    let (plain, debug) = (GatewayParameters::default(), parameters(&[("config", text)]));
    assert_eq!(hash(&plain), hash(&parameters(&[("replicas", "5")])));
    assert_ne!(hash(&plain), hash(&debug));
}

#[test]
fn the_admin_listener_avoids_the_ports_of_listeners_and_the_probes_ask_it() {
    let gateway = gateway(json!({ "listeners": [{ "name": "web", "port": 9000, "protocol": "HTTP" }] }));
    let map = one(OwnedKind::ConfigMap, &gateway, &GatewayParameters::default());
    let text = map["data"]["weir.toml"].as_str().expect("a config");
    let config = CheckedConfig::parse_base(text, "weir.toml").config.expect("it is sound");
    assert_eq!(config.admin.address.map(|address| address.port()), Some(9001));
    let deployment = one(OwnedKind::Deployment, &gateway, &GatewayParameters::default());
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], 9001);
    }
    let grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    let stop = config.process.stop_delay + config.process.stop_grace;
    assert!(stop <= STOP_MAX && grace.is_some_and(|grace| grace > STOP_MAX.as_secs()), "{grace:?}");
}

#[test]
fn pods_of_the_class_of_before_are_not_those_of_the_next_one() {
    let of_class = |class: &str| gateway(json!({ "gatewayClassName": class }));
    let (before, after) = (of_class("weir"), of_class("fast"));
    let labels = |gateway: &Gateway| {
        let deployment = one(OwnedKind::Deployment, gateway, &GatewayParameters::default());
        deployment["spec"]["template"]["metadata"]["labels"].clone()
    };
    let (labels_before, labels_after) = (labels(&before), labels(&after));
    for (kind, path) in [
        (OwnedKind::Service, "/spec/selector"),
        (OwnedKind::NetworkPolicy, "/spec/podSelector/matchLabels"),
        (OwnedKind::PodDisruptionBudget, "/spec/selector/matchLabels"),
    ] {
        let object = one(kind, &after, &GatewayParameters::default());
        let selector = object.pointer(path).and_then(Value::as_object).expect("a selector");
        let selects = |labels: &Value| selector.iter().all(|(key, value)| labels[key] == *value);
        assert_eq!((selects(&labels_before), selects(&labels_after)), (false, true), "{kind:?}");
    }
}
