//! Answers of Consul to servers. Pure.
//!
//! As in Consul's own DNS, an instance with a critical check is left out, one with a warning serves with the weight for that.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_config::ServerAddress;

use crate::server_set::DiscoveredServer;
use crate::sources::weights::scaled;

#[derive(Deserialize)]
struct Instance {
    #[serde(rename = "Node")]
    node: Node,
    #[serde(rename = "Service")]
    service: InstanceService,
    #[serde(rename = "Checks", default)]
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "Node", default)]
    name: Box<str>,
    #[serde(rename = "Address", default)]
    address: Box<str>,
    #[serde(rename = "Meta", default)]
    meta: Option<BTreeMap<Box<str>, Box<str>>>,
}

#[derive(Deserialize)]
struct InstanceService {
    #[serde(rename = "ID", default)]
    id: Box<str>,
    #[serde(rename = "Address", default)]
    address: Box<str>,
    #[serde(rename = "Port", default)]
    port: u16,
    #[serde(rename = "Tags", default)]
    tags: Option<Vec<Box<str>>>,
    #[serde(rename = "Meta", default)]
    meta: Option<BTreeMap<Box<str>, Box<str>>>,
    #[serde(rename = "Weights", default)]
    weights: Option<Weights>,
    #[serde(rename = "Locality", default)]
    locality: Option<Locality>,
}

#[derive(Deserialize, Clone, Copy)]
struct Weights {
    #[serde(rename = "Passing")]
    passing: u32,
    #[serde(rename = "Warning")]
    warning: u32,
}

#[derive(Deserialize)]
struct Locality {
    #[serde(rename = "Zone", default)]
    zone: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Check {
    #[serde(rename = "Status", default)]
    status: Box<str>,
}

/// The key of metadata with the zone, where Consul knows no locality (before 1.17).
const ZONE: &str = "zone";

/// The servers of an answer, of which all but the first `nearest` are backups.
///
/// # Errors
/// When it is not what Consul sends.
pub(super) fn servers_of(body: &[u8], nearest: Option<u16>) -> Result<Vec<DiscoveredServer>, String> {
    let instances: Vec<Instance> =
        serde_json::from_slice(body).map_err(|error| format!("the answer cannot be read: {error}"))?;
    let mut found = Vec::new();
    for instance in instances {
        let has = |status: &str| instance.checks.iter().any(|check| &*check.status == status);
        if has("critical") {
            continue;
        }
        let weights = instance.service.weights.unwrap_or(Weights { passing: 1, warning: 1 });
        let share = if has("warning") { weights.warning } else { weights.passing };
        // An address that no server can have is a fault of one registration, not of all.
        match server(&instance) {
            Ok(server) => found.push((f64::from(share), server)),
            Err(why) => {
                tracing::warn!(instance = &*instance.service.id, node = &*instance.node.name, %why, "an instance in Consul is left out");
            }
        }
    }
    let shares: Vec<f64> = found.iter().map(|(share, _)| *share).collect();
    let weighted = found.into_iter().zip(scaled(&shares)).enumerate();
    let is_backup = |place: usize| nearest.is_some_and(|nearest| place >= nearest.into());
    Ok(weighted
        .map(|(place, ((_, server), weight))| DiscoveredServer { weight, backup: is_backup(place), ..server })
        .collect())
}

fn server(instance: &Instance) -> Result<DiscoveredServer, String> {
    let Instance { node, service, .. } = instance;
    let host = if service.address.is_empty() { &node.address } else { &service.address };
    let text = if host.contains(':') {
        format!("[{host}]:{}", service.port)
    } else {
        format!("{host}:{}", service.port)
    };
    let address: ServerAddress = text.parse().map_err(|error: weir_config::ValueError| error.message)?;
    let mut metadata = service.meta.clone().unwrap_or_default();
    let of_node = node.meta.as_ref().and_then(|meta| meta.get(ZONE));
    let of_locality = service.locality.as_ref().and_then(|locality| locality.zone.as_ref());
    let zone = of_locality.or(metadata.get(ZONE)).or(of_node).cloned();
    metadata.insert("consul.node".into(), node.name.clone());
    metadata.insert("consul.id".into(), service.id.clone());
    if let Some(tags) = service.tags.as_ref().filter(|tags| !tags.is_empty()) {
        metadata.insert("consul.tags".into(), tags.join(",").into());
    }
    Ok(DiscoveredServer { zone, metadata, ..DiscoveredServer::new(address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(address: &str, weights: [u32; 2], status: &str) -> String {
        format!(
            r#"{{"Node": {{"Node": "n1", "Address": "10.0.0.9", "Meta": {{"zone": "node-zone"}}, "Unknown": 1}},
                "Service": {{"ID": "app-1", "Service": "app", "Address": "{address}", "Port": 80, "Tags": ["v2", "eu"],
                             "Meta": {{"version": "3"}}, "Weights": {{"Passing": {}, "Warning": {}}}}},
                "Checks": [{{"CheckID": "serfHealth", "Status": "passing"}}, {{"CheckID": "x", "Status": "{status}"}}]}}"#,
            weights[0], weights[1]
        )
    }

    fn shown(instances: &[String]) -> Vec<(String, u16)> {
        let servers = servers_of(format!("[{}]", instances.join(",")).as_bytes(), None).unwrap();
        servers.iter().map(|server| (server.address.to_string(), server.weight)).collect()
    }

    #[test]
    fn instances_are_servers_by_the_state_of_their_checks() {
        let instances = [
            instance("10.0.0.1", [10, 1], "passing"),
            instance("10.0.0.2", [10, 1], "warning"),
            instance("10.0.0.3", [10, 1], "critical"),
            instance("", [5, 5], "passing"),
            instance("fd00::1", [1, 1], "passing"),
            instance("not a host", [1, 1], "passing"),
        ];
        let expected = [("10.0.0.1:80", 10), ("10.0.0.2:80", 1), ("10.0.0.9:80", 5), ("[fd00::1]:80", 1)];
        assert_eq!(shown(&instances), expected.map(|(address, weight)| (address.to_owned(), weight)));
    }

    #[test]
    fn large_weights_are_scaled() {
        let instances =
            [instance("10.0.0.1", [65535, 1], "passing"), instance("10.0.0.2", [32768, 1], "passing")];
        assert_eq!(shown(&instances), [("10.0.0.1:80".to_owned(), 256), ("10.0.0.2:80".to_owned(), 128)]);
    }

    #[test]
    fn all_but_the_nearest_are_backups() {
        let instances = [
            instance("10.0.0.1", [1, 1], "critical"),
            instance("10.0.0.2", [1, 1], "passing"),
            instance("10.0.0.3", [1, 1], "warning"),
            instance("10.0.0.4", [1, 1], "passing"),
        ];
        let servers = servers_of(format!("[{}]", instances.join(",")).as_bytes(), Some(2)).unwrap();
        assert_eq!(servers.iter().map(|server| server.backup).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn what_consul_says_beside_is_metadata() {
        let servers =
            servers_of(format!("[{}]", instance("10.0.0.1", [1, 1], "passing")).as_bytes(), None).unwrap();
        let metadata: Vec<(&str, &str)> =
            servers[0].metadata.iter().map(|(key, value)| (&**key, &**value)).collect();
        let expected =
            [("consul.id", "app-1"), ("consul.node", "n1"), ("consul.tags", "v2,eu"), ("version", "3")];
        assert_eq!(metadata, expected);
        assert_eq!(servers[0].zone.as_deref(), Some("node-zone"));
        assert!(servers_of(b"{}", None).is_err());
        assert_eq!(servers_of(b"[]", None).unwrap(), []);
    }
}
