//! From EndpointSlices to the servers of an upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_config::{Server, ServerAddress, ServerDescription};
use weir_traffic::{Mode, ServerTier};

use crate::api::{EndpointSlice, SharedText};
use crate::store::{ObjectKey, ObjectStore};

/// The label of a slice that names its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// All servers of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamServers {
    /// The name of the upstream.
    pub upstream: Box<str>,
    /// The servers in the order of their addresses, which are their names.
    pub servers: Vec<ZonedServer>,
}

/// A server, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonedServer {
    /// The server. One that is ending is draining, but serves when no other does.
    pub server: Server,
    /// Its zone, if the cluster knows it.
    pub zone: Option<SharedText>,
    /// The zones whose clients should use it; empty: all.
    pub for_zones: Box<[SharedText]>,
}

impl ZonedServer {
    /// The server of an upstream: one that is ending is of the last resort, and knows its zone.
    pub fn into_server(self) -> Server {
        let Self { mut server, zone, .. } = self;
        if server.mode == Mode::Draining {
            (server.mode, server.tier) = (Mode::Serving, ServerTier::LastResort);
        }
        if let Some(zone) = zone {
            let mut description = ServerDescription::default();
            description.zone = Some(zone.into());
            server.description = Some(Arc::new(description));
        }
        server
    }
}

/// The slices of each service.
#[derive(Debug, Default)]
pub(crate) struct SlicesByService(BTreeMap<ObjectKey, BTreeSet<ObjectKey>>);

/// The service of a slice.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let service = slice.metadata.labels.get(SERVICE_LABEL)?;
    Some(ObjectKey::new(&slice.metadata.namespace, service))
}

impl SlicesByService {
    pub(crate) fn insert(&mut self, slice: &EndpointSlice) {
        if let Some(service) = service_of(slice) {
            self.0.entry(service).or_default().insert(ObjectKey::from_object_meta(&slice.metadata));
        }
    }

    pub(crate) fn remove(&mut self, slice: &EndpointSlice) {
        let Some(service) = service_of(slice) else { return };
        if let Some(slices) = self.0.get_mut(&service) {
            slices.remove(&ObjectKey::from_object_meta(&slice.metadata));
            if slices.is_empty() {
                self.0.remove(&service);
            }
        }
    }

    /// The endpoints of a service on its port of this name.
    pub(crate) fn servers(
        &self,
        store: &ObjectStore,
        service: &ObjectKey,
        port_name: &str,
    ) -> Vec<ZonedServer> {
        let mut found: BTreeMap<SocketAddr, (ZonedServer, Readiness)> = BTreeMap::new();
        let slices = self.0.get(service).into_iter().flatten();
        for slice in slices.filter_map(|key| store.endpoint_slices.get(key)) {
            collect(slice, port_name, &mut found);
        }
        let any_ready = found.values().any(|(_, readiness)| *readiness == Readiness::Ready);
        let with_mode = |(mut zoned, readiness): (ZonedServer, Readiness)| {
            let drains = readiness == Readiness::Ending && any_ready;
            zoned.server.mode = if drains { Mode::Draining } else { Mode::Serving };
            zoned
        };
        found.into_values().map(with_mode).collect()
    }
}

/// Whether an endpoint takes requests; the better of two for one address counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Readiness {
    /// It ends, but still serves.
    Ending,
    Ready,
}

fn collect(
    slice: &Arc<EndpointSlice>,
    port_name: &str,
    found: &mut BTreeMap<SocketAddr, (ZonedServer, Readiness)>,
) {
    let of_port = slice.ports.iter().find(|port| port.name.as_deref().unwrap_or_default() == port_name);
    let Some(port) = of_port.and_then(|port| u16::try_from(port.port?).ok()).filter(|port| *port != 0) else {
        return;
    };
    for endpoint in &slice.endpoints {
        let conditions = endpoint.conditions;
        let readiness = if conditions.ready != Some(false) {
            Readiness::Ready
        } else if conditions.serving == Some(true) && conditions.terminating == Some(true) {
            Readiness::Ending
        } else {
            continue;
        };
        // Names (FQDN) are no addresses: such slices are not used by the proxies of Kubernetes either.
        let Some(ip) = endpoint.addresses.first().and_then(|text| text.parse::<IpAddr>().ok()) else {
            continue;
        };
        let address = SocketAddr::new(ip, port);
        let zoned = ZonedServer {
            server: Server::new(ServerAddress::Ip(address)),
            zone: endpoint.zone.clone(),
            for_zones: endpoint
                .hints
                .iter()
                .flat_map(|hints| hints.for_zones.iter().map(|zone| zone.name.clone()))
                .collect(),
        };
        let is_better = found.get(&address).is_none_or(|(_, known)| readiness > *known);
        if is_better {
            found.insert(address, (zoned, readiness));
        }
    }
}
