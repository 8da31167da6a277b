//! What a Gateway wants of its Deployment beyond the listeners: the ConfigMap that its `infrastructure.parametersRef` names.
//!
//! Read in two places, which must agree: the controller makes the Deployment of it, and the status of the Gateway tells what is wrong with it.
//! The keys give no privileges: a person who may write a Gateway and a ConfigMap cannot choose the image, the account or the mounts of a pod,
//! nor have a pod read, write or send a file by its config, which can set only what [`CheckedConfig::parse_restricted`] permits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value};
use weir_config::{CheckedConfig, Config, Process};

use crate::api::{ConfigMap, Gateway, GatewayListener, LocalReference, SharedText};
use crate::refusal::excerpt;

/// The keys, in the order of the documentation.
const KEYS: [&str; 8] = [
    "replicas",
    "serviceType",
    "externalTrafficPolicy",
    "resources",
    "nodeSelector",
    "tolerations",
    "affinity",
    "config",
];

const SERVICE_TYPES: [&str; 3] = ["LoadBalancer", "NodePort", "ClusterIP"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const REPLICAS_MAX: u32 = 1_000;

/// The longest stop that the pods of a Gateway have the time for: `stop_delay` and `stop_grace` together.
pub const STOP_MAX: Duration = Duration::from_secs(40);

/// The port of the admin listener: this, or the next one that no listener of the Gateway has.
const ADMIN_PORT: u16 = 9000;

/// The port at which the probes of the pods of a Gateway ask the admin listener.
pub fn admin_port(gateway: &Gateway) -> u16 {
    let is_served =
        |listener: &&GatewayListener| matches!(&*listener.protocol, "HTTP" | "HTTPS" | "TLS" | "TCP");
    let has_it = |port: u16| {
        gateway.spec.listeners.iter().filter(is_served).any(|listener| listener.port == i32::from(port))
    };
    (ADMIN_PORT..=u16::MAX).find(|port| !has_it(*port)).unwrap_or(ADMIN_PORT)
}

/// What a Gateway wants of its Deployment and Service.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayParameters {
    /// How many pods there are; `None`: something else scales them.
    pub replicas: Option<u32>,
    /// The type of the Service.
    pub service_type: SharedText,
    /// The `externalTrafficPolicy` of the Service; for `ClusterIP` it has none.
    pub external_traffic_policy: SharedText,
    /// The `resources` of the container.
    pub resources: Option<Value>,
    /// The `nodeSelector` of the pods.
    pub node_selector: Option<Value>,
    /// The `tolerations` of the pods.
    pub tolerations: Option<Value>,
    /// The `affinity` of the pods.
    pub affinity: Option<Value>,
    /// The base of the configuration: process, log, admin listener, in TOML.
    pub config: Option<SharedText>,
}

impl Default for GatewayParameters {
    fn default() -> Self {
        Self {
            replicas: Some(2),
            service_type: SERVICE_TYPES[0].into(),
            external_traffic_policy: TRAFFIC_POLICIES[0].into(),
            resources: None,
            node_selector: None,
            tolerations: None,
            affinity: None,
            config: None,
        }
    }
}

impl GatewayParameters {
    /// Those of a Gateway, whose ConfigMap `find` looks up by its name in the namespace of the Gateway.
    ///
    /// # Errors
    /// A message that names all that is wrong with the reference or with the ConfigMap.
    pub fn new<'a>(
        gateway: &Gateway,
        find: impl FnOnce(&str) -> Option<&'a ConfigMap>,
    ) -> Result<Self, String> {
        let reference =
            gateway.spec.infrastructure.as_deref().and_then(|wanted| wanted.parameters_ref.as_deref());
        let Some(LocalReference { group, kind, name }) = reference else { return Ok(Self::default()) };
        if !group.is_empty() || **kind != *"ConfigMap" {
            let group = if group.is_empty() { "core" } else { group };
            return Err(format!(
                "infrastructure.parametersRef: `{}` of the group `{}` holds no parameters; refer to a ConfigMap (`group: \"\"`, `kind: ConfigMap`)",
                excerpt(kind),
                excerpt(group)
            ));
        }
        let namespace = &gateway.metadata.namespace;
        let found = find(name).ok_or_else(|| {
            format!(
                "infrastructure.parametersRef: there is no ConfigMap `{}` in the namespace `{namespace}`",
                excerpt(name)
            )
        })?;
        Self::read(&found.data, admin_port(gateway))
            .map_err(|problems| format!("ConfigMap `{name}`: {}", problems.join("; ")))
    }

    /// The parameters that these keys state, of a Gateway whose pods are asked at this port whether they are ready.
    ///
    /// # Errors
    /// All that is wrong with them, a sentence for each.
    pub fn read(data: &BTreeMap<SharedText, SharedText>, admin_port: u16) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut read = Self::default();
        for (key, text) in data {
            if let Err(problem) = read.set(key, text, admin_port) {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(read) } else { Err(problems) }
    }

    fn set(&mut self, key: &str, text: &str, admin_port: u16) -> Result<(), String> {
        match key {
            "replicas" => self.replicas = read_replicas(text)?,
            "serviceType" => self.service_type = one_of(key, text, &SERVICE_TYPES)?,
            "externalTrafficPolicy" => self.external_traffic_policy = one_of(key, text, &TRAFFIC_POLICIES)?,
            "resources" => self.resources = Some(read_resources(text)?),
            "nodeSelector" => self.node_selector = Some(mapping(key, text)?),
            "tolerations" => match yaml(key, text)? {
                list @ Value::Array(_) => self.tolerations = Some(list),
                _ => return Err(format!("`{key}`: write a list, as in the specification of a pod")),
            },
            "affinity" => self.affinity = Some(mapping(key, text)?),
            "config" => self.config = Some(read_config(text, admin_port)?),
            "image" => {
                return Err("`image`: the image is that of the controller, see its option --image".to_owned());
            }
            other => {
                return Err(format!(
                    "`{}` is not a parameter; there are {}",
                    excerpt(other),
                    KEYS.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// A base of the configuration, if it has no errors: a pod that cannot start, or is never ready, or is killed while it stops, could not say
/// why.
fn read_config(text: &str, admin_port: u16) -> Result<SharedText, String> {
    let mut checked = CheckedConfig::parse_restricted(text, "config");
    if let Some(([section, key], problem, help)) =
        checked.config.as_ref().and_then(|config| unfit_for_pods(config, admin_port))
    {
        checked = checked.reject_key(&[section, key], &*problem, &*help);
        // The key may not be in the text.
        if checked.config.is_some() {
            return Err(format!("`config`: {problem} ({help})"));
        }
    }
    match checked.config {
        Some(_) => Ok(text.into()),
        None => {
            let found = &checked.diagnostics;
            let errors: Vec<String> = found.errors().map(|error| found.line(error)).collect();
            Err(format!("`config`: {}", errors.join("; ")))
        }
    }
}

/// What a Deployment cannot do for a config: the key, what is wrong with it, and what to write.
fn unfit_for_pods(config: &Config, admin_port: u16) -> Option<([&'static str; 2], String, String)> {
    let is_asked = |address: &SocketAddr| address.port() == admin_port && !address.ip().is_loopback();
    if !config.admin.address.as_ref().is_some_and(is_asked) {
        let problem = format!("the probes of the pods ask the admin listener at port {admin_port}");
        let help = format!("write `address = \"0.0.0.0:{admin_port}\"` in `[admin]`");
        return Some((["admin", "address"], problem, help));
    }
    let Process { stop_delay, stop_grace, .. } = &config.process;
    (stop_delay.saturating_add(*stop_grace) > STOP_MAX).then(|| {
        // The larger one is to blame; the other may be a default.
        let key = if stop_delay > stop_grace { "stop_delay" } else { "stop_grace" };
        let problem = format!(
            "pods are killed before they have stopped: `stop_delay` and `stop_grace` are {} s together",
            stop_delay.saturating_add(*stop_grace).as_secs()
        );
        (["process", key], problem, format!("{} s are the most", STOP_MAX.as_secs()))
    })
}

/// A number, or `auto` where something else scales the Deployment.
fn read_replicas(text: &str) -> Result<Option<u32>, String> {
    match text.trim() {
        "auto" => Ok(None),
        number => match number.parse() {
            Ok(replicas) if replicas <= REPLICAS_MAX => Ok(Some(replicas)),
            _ => Err(format!(
                "`replicas`: `{}` is not a number from 0 to {REPLICAS_MAX}, nor `auto` (left to a HorizontalPodAutoscaler)",
                excerpt(number)
            )),
        },
    }
}

fn one_of(key: &str, text: &str, values: &[&str]) -> Result<SharedText, String> {
    let text = text.trim();
    match values.iter().find(|value| **value == text) {
        Some(value) => Ok((*value).into()),
        None => Err(format!("`{key}`: `{}` is not one of {}", excerpt(text), values.join(", "))),
    }
}

fn yaml(key: &str, text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let error = error.to_string();
        format!("`{key}` is not YAML: {}", error.lines().next().unwrap_or_default())
    })
}

fn mapping(key: &str, text: &str) -> Result<Value, String> {
    match yaml(key, text)? {
        mapping @ Value::Object(_) => Ok(mapping),
        _ => Err(format!("`{key}`: write a mapping, as in the specification of a pod")),
    }
}

/// `requests` and `limits` of quantities; numbers become texts, as the API server makes them.
fn read_resources(text: &str) -> Result<Value, String> {
    let mut resources = mapping("resources", text)?;
    for (part, amounts) in resources.as_object_mut().into_iter().flatten() {
        if !matches!(&**part, "requests" | "limits") {
            return Err(format!("`resources`: `{}` is neither `requests` nor `limits`", excerpt(part)));
        }
        let amounts: Option<&mut Map<String, Value>> = amounts.as_object_mut();
        let Some(amounts) = amounts else {
            return Err(format!("`resources.{part}`: write a mapping, such as `cpu: 500m`"));
        };
        for (resource, amount) in amounts {
            match amount {
                Value::Number(number) => *amount = Value::String(number.to_string()),
                Value::String(_) => {}
                _ => return Err(format!("`resources.{part}.{resource}` is not a quantity, such as `500m`")),
            }
        }
    }
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "admin.address = \"0.0.0.0:9000\"\n[log]\nlevel = \"debug\"\n";

    fn read(pairs: &[(&str, &str)]) -> Result<GatewayParameters, Vec<String>> {
        let data = pairs.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
        GatewayParameters::read(&data, 9000)
    }

    #[test]
    fn each_key_is_read() {
        let read = read(&[
            ("replicas", "5\n"),
            ("serviceType", "NodePort"),
            ("externalTrafficPolicy", "Local"),
            ("resources", "requests: { cpu: 2, memory: 64Mi }\n"),
            ("nodeSelector", "kubernetes.io/arch: arm64"),
            ("tolerations", "- key: edge\n  operator: Exists\n"),
            ("affinity", "podAntiAffinity: {}"),
            ("config", CONFIG),
        ]);
        let read = read.expect("all of them are sound");
        assert_eq!(read.replicas, Some(5));
        assert_eq!((&*read.service_type, &*read.external_traffic_policy), ("NodePort", "Local"));
        assert_eq!(read.resources, Some(serde_json::json!({"requests": {"cpu": "2", "memory": "64Mi"}})));
        assert_eq!(read.node_selector, Some(serde_json::json!({"kubernetes.io/arch": "arm64"})));
        assert_eq!(read.tolerations, Some(serde_json::json!([{"key": "edge", "operator": "Exists"}])));
        assert_eq!(read.affinity, Some(serde_json::json!({"podAntiAffinity": {}})));
        assert_eq!(read.config.as_deref(), Some(CONFIG));
    }

    #[test]
    fn pods_may_take_all_the_time_that_they_have_to_stop() {
        let longest = format!("{CONFIG}[process]\nstop_delay = \"10s\"\nstop_grace = \"30s\"\n");
        assert_eq!(read(&[("config", &longest)]).expect("40 s").config.as_deref(), Some(&*longest));
    }

    #[test]
    fn replicas_may_be_left_to_others() {
        assert_eq!(read(&[("replicas", "auto")]).expect("a word").replicas, None);
        assert_eq!(read(&[]).expect("nothing is required").replicas, Some(2));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        for (key, text, said) in [
            ("replicas", "-1", "is not a number from 0 to 1000"),
            ("replicas", "1001", "is not a number from 0 to 1000"),
            ("serviceType", "ExternalName", "is not one of LoadBalancer, NodePort, ClusterIP"),
            ("externalTrafficPolicy", "local", "is not one of Cluster, Local"),
            ("resources", "claims: []", "neither `requests` nor `limits`"),
            ("resources", "limits: 5", "write a mapping"),
            ("resources", "limits: { cpu: [1] }", "is not a quantity"),
            ("nodeSelector", "- a", "write a mapping"),
            ("tolerations", "a: b", "write a list"),
            ("affinity", "{", "is not YAML"),
            ("config", "[log]\nlevel = \"loud\"\n", "config:2:"),
            ("config", "[log", "config:1:"),
            ("config", "[upstream.app]\nservers = [\"10.0.0.1:80\"]\n", "`upstream` has no place here"),
            ("config", "include = [\"/etc/passwd\"]\n", "config:1:1: error: `include`"),
            (
                "config",
                "[routes_from.x]\netcd = \"a\"\n",
                "config:1:2: error: `routes_from` has no place here",
            ),
            ("config", "[process]\nuser = \"weir\"\n", "config:2:1: error: `process.user` has no place here"),
            (
                "config",
                "[traces]\nendpoint = \"http://a:4318/v1/traces\"\nheader_files = { x-a = \"/run/token\" }\n",
                "config:3:1: error: `traces.header_files` has no place here",
            ),
            (
                "config",
                "[process]\nname = \"${POD_NAME}\"\n",
                "config:2:8: error: variables of the environment",
            ),
            ("config", "[log]\nlevel = \"debug\"\n", "ask the admin listener at port 9000"),
            ("config", "[admin]\naddress = \"0.0.0.0:9001\"\n", "config:2:1: error: the probes of the pods"),
            (
                "config",
                "[admin]\naddress = \"127.0.0.1:9000\"\n",
                "config:2:1: error: the probes of the pods",
            ),
            ("config", "[admin]\naddress = \"off\"\n", "config:2:1: error: the probes of the pods"),
            (
                "config",
                "admin.address = \"0.0.0.0:9000\"\n[process]\nstop_delay = \"5s\"\nstop_grace = \"36s\"\n",
                "config:4:1: error: pods are killed before they have stopped: `stop_delay` and `stop_grace` are 41 s together (40 s are the most)",
            ),
            (
                "config",
                "admin.address = \"0.0.0.0:9000\"\n[process]\nstop_delay = \"1h\"\n",
                "config:3:1: error: pods are killed",
            ),
            ("image", "weir:2", "that of the controller"),
            ("hostNetwork", "true", "is not a parameter; there are replicas, "),
        ] {
            let problems = read(&[(key, text)]).expect_err(key);
            assert!(problems.len() == 1 && problems[0].contains(said), "{key}: {problems:?}");
        }
        assert_eq!(read(&[("replicas", "x"), ("serviceType", "y")]).expect_err("two").len(), 2);
    }
}
