//! By which addresses clients reach the Gateways of a process: those that it was given, and those of the Service in front of it.

use std::net::IpAddr;

use super::options::settings::GatewaySettings;
use crate::api::{GatewayStatusAddress, Service};
use crate::store::ObjectStore;

/// All of them, without repetitions.
pub(crate) fn published(store: &ObjectStore, settings: &GatewaySettings) -> Vec<GatewayStatusAddress> {
    let mut addresses = settings.addresses.clone();
    let service = settings.published_service.as_ref().and_then(|key| store.services.get(key));
    for address in service.map(|service| of_service(service)).unwrap_or_default() {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Those of the load balancer where the Service is to have one, which may be still to come; else those inside of the cluster.
fn of_service(service: &Service) -> Vec<GatewayStatusAddress> {
    if service.spec.r#type.as_deref() == Some("LoadBalancer") {
        let points = service.status.iter().flat_map(|status| &status.load_balancer.ingress);
        return points
            .filter_map(|point| address(point.ip.as_deref().or(point.hostname.as_deref())?))
            .collect();
    }
    service.spec.cluster_ips.iter().filter_map(|ip| address(ip)).collect()
}

/// `None`: a Service without an address of the cluster says so in its place.
fn address(value: &str) -> Option<GatewayStatusAddress> {
    let kind = match value.parse::<IpAddr>() {
        Ok(_) => "IPAddress",
        Err(_) if matches!(value, "" | "None") => return None,
        Err(_) => "Hostname",
    };
    Some(GatewayStatusAddress { r#type: Some(kind.into()), value: value.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_load_balancer_comes_before_the_cluster() {
        for (written, expected) in [
            (json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.7"]}}), vec![]),
            (
                json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.7"]},
                    "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb.test"}, {"ip": "2001:db8::1"}]}}}),
                vec!["IPAddress 192.0.2.1", "Hostname lb.test", "IPAddress 2001:db8::1"],
            ),
            (
                json!({"spec": {"type": "NodePort", "clusterIPs": ["10.96.0.7", "fd00::7"]}}),
                vec!["IPAddress 10.96.0.7", "IPAddress fd00::7"],
            ),
            (json!({"spec": {"clusterIPs": ["None"]}}), vec![]),
        ] {
            let service: Service = serde_json::from_value(written).expect("a Service");
            let found = of_service(&service);
            let found: Vec<String> = found
                .iter()
                .map(|address| format!("{} {}", address.r#type.as_deref().unwrap_or_default(), address.value))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
