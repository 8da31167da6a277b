//! The Deployment of a Gateway. Pure.
//!
//! Pods satisfy the `restricted` Pod Security Standard: no root, no capability, no writable file system. Ports below 1024 need none of these:
//! the pod's own network has no privileged ports, by a sysctl that the standard permits.

use serde_json::{Value, json};

use super::names;
use super::request::{GatewayRequest, STOP_DELAY_SECONDS, STOP_GRACE_SECONDS};

/// What the kubelet waits beyond both before it kills the pod.
const STOP_RESERVE_SECONDS: u32 = 10;

/// The user and group of the image.
const USER_ID: u32 = 65_532;

/// The first port that needs no privileges elsewhere.
const UNPRIVILEGED_PORT: u16 = 1_024;

/// The part of a Deployment below its metadata.
pub(crate) fn deployment(request: &GatewayRequest<'_>) -> Value {
    let mut annotations = json!(request.annotations());
    // Pods read their configuration when they start: another one makes new pods.
    annotations["weir.dev/config-hash"] = json!(names::hash(&request.config()));
    let mut spec = json!({
        "selector": { "matchLabels": request.selector() },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": "25%" } },
        "minReadySeconds": 1,
        "revisionHistoryLimit": 3,
        "template": {
            "metadata": { "labels": request.labels(), "annotations": annotations },
            "spec": pod(request),
        },
    });
    if let Some(replicas) = request.parameters.replicas {
        spec["replicas"] = json!(replicas);
    }
    json!({ "spec": spec })
}

fn pod(request: &GatewayRequest<'_>) -> Value {
    let parameters = request.parameters;
    let mut security = json!({
        "runAsNonRoot": true,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    if request.ports().iter().any(|port| port.number < UNPRIVILEGED_PORT) {
        security["sysctls"] = json!([{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }]);
    }
    let mut pod = json!({
        "serviceAccountName": request.name(),
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": STOP_DELAY_SECONDS + STOP_GRACE_SECONDS + STOP_RESERVE_SECONDS,
        "securityContext": security,
        "topologySpreadConstraints": [
            spread(request, "topology.kubernetes.io/zone"),
            spread(request, "kubernetes.io/hostname"),
        ],
        "containers": [container(request)],
        "volumes": [{ "name": "config", "configMap": { "name": request.name() } }],
    });
    for (key, value) in [
        ("nodeSelector", &parameters.node_selector),
        ("tolerations", &parameters.tolerations),
        ("affinity", &parameters.affinity),
    ] {
        if let Some(value) = value {
            pod[key] = value.clone();
        }
    }
    if !request.settings.pull_secrets.is_empty() {
        let secrets = request.settings.pull_secrets.iter().map(|name| json!({ "name": name }));
        pod["imagePullSecrets"] = secrets.collect();
    }
    pod
}

/// Pods spread over what the label of nodes tells apart, where that is possible.
fn spread(request: &GatewayRequest<'_>, label: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": label,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": request.selector() },
    })
}

fn container(request: &GatewayRequest<'_>) -> Value {
    let admin = request.admin_port();
    let (namespace, name) = (request.namespace(), request.name());
    let mut ports: Vec<Value> = request
        .ports()
        .iter()
        .map(|port| json!({ "name": port.name(), "containerPort": port.number, "protocol": "TCP" }))
        .collect();
    ports.push(json!({ "name": "admin", "containerPort": admin, "protocol": "TCP" }));
    let probe = |path: &str, period: u32, failures: u32| {
        json!({
            "httpGet": { "path": path, "port": admin, "scheme": "HTTP" },
            "periodSeconds": period,
            "failureThreshold": failures,
            "timeoutSeconds": 2,
        })
    };
    let mut args = vec![
        "serve".to_owned(),
        "/etc/weir/weir.toml".to_owned(),
        format!("--kubernetes={namespace}/{}", request.gateway.metadata.name),
        format!("--controller-name={}", request.settings.controller_name),
        format!("--publish-service={namespace}/{name}"),
        // Persons who may write ConfigMaps here can change the file, whatever the controller has judged.
        "--restricted-config".to_owned(),
    ];
    if !request.settings.has_all_secrets {
        args.push(format!("--secrets-namespace={namespace}"));
    }
    let default_resources = || json!({ "requests": { "cpu": "100m", "memory": "128Mi" } });
    json!({
        "name": "weir",
        "image": request.settings.image,
        "args": args,
        "env": [
            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
        ],
        "ports": ports,
        // Ready once the first translation is in effect; that may take a minute where the API server is slow, and is no reason to begin anew.
        "readinessProbe": probe("/ready", 2, 1),
        "livenessProbe": probe("/live", 10, 3),
        "startupProbe": probe("/live", 1, 30),
        "resources": request.parameters.resources.clone().unwrap_or_else(default_resources),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        "volumeMounts": [{ "name": "config", "mountPath": "/etc/weir", "readOnly": true }],
    })
}
