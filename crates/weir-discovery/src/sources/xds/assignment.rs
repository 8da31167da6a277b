//! A `ClusterLoadAssignment` as servers: the lowest priority with endpoints that may serve gets the requests, all others are backups; weights of
//! localities and of endpoints become weights of servers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weir_config::ServerAddress;

use super::messages::base::{
    Address, AddressKind, ProtoStruct, ProtoValue, ProtoValueKind, ResourceLocality,
};
use super::messages::endpoint::{
    AssignmentPolicy, FractionalPercent, LbEndpoint, LoadAssignment, LocalityEndpoints,
};
use crate::last_known::source_state::SERVERS_MAX;
use crate::server_set::{DiscoveredServer, ServerReadiness};
use crate::sources::weights::scaled;

/// What an assignment says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NamedServers {
    pub(super) servers: Vec<DiscoveredServer>,
    /// What it says that Weir does not follow.
    pub(super) unfollowed: BTreeSet<String>,
}

/// An endpoint that may serve.
struct UsableEndpoint {
    server: DiscoveredServer,
    priority: u32,
    /// The share that it is to have within its priority.
    share: f64,
}

/// Translates an assignment.
///
/// # Errors
/// Why it cannot be used: half of it would get all the load.
pub(super) fn servers_of(assignment: &LoadAssignment) -> Result<NamedServers, String> {
    let mut unfollowed = BTreeSet::new();
    if let Some(policy) = &assignment.policy {
        note_policy(policy, &mut unfollowed);
    }
    let mut usable = Vec::new();
    for (priority, localities) in by_priority(&assignment.endpoints) {
        let weighs_localities = localities.iter().any(|locality| locality.load_balancing_weight.is_some());
        for locality in localities {
            if locality.leds_cluster_locality_config.is_some() {
                return Err("endpoints of a locality are in resources of their own (LEDS)".into());
            }
            if locality.proximity.is_some() {
                unfollowed.insert("`proximity`".into());
            }
            let weight = match &locality.load_balancing_weight {
                Some(weight) => Some(f64::from(weight.value)),
                // "If unspecified, no load" beside others that have one.
                None => weighs_localities.then_some(0.0),
            };
            usable.extend(endpoints_of(locality, priority, weight, &mut unfollowed)?);
        }
    }
    if usable.len() > SERVERS_MAX {
        return Err(format!("it has {} endpoints; the most is {SERVERS_MAX}", usable.len()));
    }
    Ok(NamedServers { servers: weighted(usable), unfollowed })
}

fn note_policy(policy: &AssignmentPolicy, unfollowed: &mut BTreeSet<String>) {
    for drop in &policy.drop_overloads {
        let percent = percent_of(drop.drop_percentage.as_ref());
        unfollowed.insert(format!("`drop_overloads` ({} {percent} %)", excerpt(&drop.category)));
    }
    let others = [
        ("overprovisioning_factor", policy.overprovisioning_factor.is_some()),
        ("endpoint_stale_after", policy.endpoint_stale_after.is_some()),
        ("weighted_priority_health", policy.weighted_priority_health),
    ];
    for (field, is_set) in others {
        if is_set {
            unfollowed.insert(format!("`{field}`"));
        }
    }
}

fn percent_of(percent: Option<&FractionalPercent>) -> f64 {
    let Some(percent) = percent else { return 0.0 };
    let whole = match percent.denominator {
        1 => 10_000.0,
        2 => 1_000_000.0,
        _ => 100.0,
    };
    f64::from(percent.numerator) / whole * 100.0
}

fn by_priority(localities: &[LocalityEndpoints]) -> BTreeMap<u32, Vec<&LocalityEndpoints>> {
    let mut priorities: BTreeMap<u32, Vec<&LocalityEndpoints>> = BTreeMap::new();
    for locality in localities {
        priorities.entry(locality.priority).or_default().push(locality);
    }
    priorities
}

/// The endpoints of a locality that may serve; `weight`: the share of the locality, `None` where localities have none.
fn endpoints_of(
    locality: &LocalityEndpoints,
    priority: u32,
    weight: Option<f64>,
    unfollowed: &mut BTreeSet<String>,
) -> Result<Vec<UsableEndpoint>, String> {
    let listed = locality.load_balancer_endpoints.iter().flat_map(|list| &list.lb_endpoints);
    let mut usable = Vec::new();
    for endpoint in locality.lb_endpoints.iter().chain(listed) {
        let Some(server) = server_of(endpoint, locality.locality.as_ref(), unfollowed)? else { continue };
        let share = endpoint.load_balancing_weight.as_ref().map_or(1.0, |weight| f64::from(weight.value));
        usable.push(UsableEndpoint { server, priority, share });
    }
    if let Some(weight) = weight {
        let sum: f64 = usable.iter().map(|endpoint| endpoint.share).sum();
        for endpoint in &mut usable {
            endpoint.share = if sum > 0.0 { weight * endpoint.share / sum } else { 0.0 };
        }
    }
    Ok(usable)
}

/// The server of an endpoint; `None`: the control plane says that it does not serve.
fn server_of(
    endpoint: &LbEndpoint,
    locality: Option<&ResourceLocality>,
    unfollowed: &mut BTreeSet<String>,
) -> Result<Option<DiscoveredServer>, String> {
    let Some(described) = &endpoint.endpoint else {
        return Err(match &*endpoint.endpoint_name {
            "" => "an endpoint has no address".into(),
            name => format!("the endpoint `{}` is one of `named_endpoints`", excerpt(name)),
        });
    };
    let address = address_of(described.address.as_ref())?;
    let mut server = DiscoveredServer::new(address);
    match endpoint.health_status {
        // UNKNOWN, HEALTHY
        0 | 1 => {}
        // UNHEALTHY, TIMEOUT
        2 | 4 => return Ok(None),
        3 => server.readiness = ServerReadiness::Draining,
        // DEGRADED: when the others cannot take the load.
        5 => server.backup = true,
        other => return Err(format!("`{}` has a health status that is not known: {other}", server.address)),
    }
    if let Some(locality) = locality {
        for (key, part) in [("region", &locality.region), ("sub_zone", &locality.sub_zone)] {
            if !part.is_empty() {
                server.metadata.insert(key.into(), part.as_str().into());
            }
        }
        server.zone = Some(locality.zone.as_str()).filter(|zone| !zone.is_empty()).map(Box::from);
    }
    if !described.hostname.is_empty() {
        server.metadata.insert("hostname".into(), described.hostname.as_str().into());
    }
    for (namespace, values) in endpoint.metadata.iter().flat_map(|metadata| &metadata.filter_metadata) {
        for (key, value) in &values.fields {
            let key = if namespace == "envoy.lb" { key.clone() } else { format!("{namespace}.{key}") };
            server.metadata.insert(key.into(), plain(value).into());
        }
    }
    if described.health_check_config.is_some() {
        unfollowed.insert("`health_check_config` of endpoints".into());
    }
    if !described.additional_addresses.is_empty() {
        unfollowed.insert("`additional_addresses` of endpoints".into());
    }
    Ok(Some(server))
}

fn address_of(address: Option<&Address>) -> Result<ServerAddress, String> {
    let socket = match address.and_then(|address| address.kind.as_ref()) {
        Some(AddressKind::Socket(socket)) => socket,
        Some(AddressKind::Pipe(_)) => {
            return Err("an endpoint is a socket of this machine (`pipe`): list it in `servers`".into());
        }
        Some(AddressKind::Internal(_)) => return Err("an endpoint is an internal listener of Envoy".into()),
        None => return Err("an endpoint has no address".into()),
    };
    let refused = |why: &str| Err(format!("the endpoint `{}` {why}", excerpt(&socket.address)));
    if socket.protocol != 0 {
        return refused("is not one of TCP");
    }
    if !socket.named_port.is_empty() {
        return refused("has a named port");
    }
    if !socket.resolver_name.is_empty() {
        return refused("has a resolver of Envoy");
    }
    if !socket.network_namespace_filepath.is_empty() {
        return refused("is in a network namespace");
    }
    let Ok(port @ 1..) = u16::try_from(socket.port_value) else { return refused("has no port") };
    let text = match socket.address.contains(':') {
        true => format!("[{}]:{port}", socket.address),
        false => format!("{}:{port}", socket.address),
    };
    // Only host and port: no address of another kind by way of a strange name.
    match text.parse() {
        Ok(address @ (ServerAddress::Ip(_) | ServerAddress::Name { .. })) => Ok(address),
        _ => refused("is neither an address nor a name"),
    }
}

/// The longest name of the control plane in a message.
const EXCERPT_CHARS_MAX: usize = 100;

/// A name as a message has it: in one line, and not longer than is of use.
pub(super) fn excerpt(name: &str) -> String {
    let start: String = name.chars().take(EXCERPT_CHARS_MAX).collect();
    start.escape_debug().to_string()
}

/// The text of a value in metadata.
fn plain(value: &ProtoValue) -> String {
    match &value.kind {
        None | Some(ProtoValueKind::Null(_)) => String::new(),
        Some(ProtoValueKind::Number(number)) => number.to_string(),
        Some(ProtoValueKind::Text(text)) => text.clone(),
        Some(ProtoValueKind::Bool(flag)) => flag.to_string(),
        Some(ProtoValueKind::Struct(values)) => joined('{', values, '}'),
        Some(ProtoValueKind::List(list)) => {
            let texts: Vec<String> = list.values.iter().map(plain).collect();
            texts.join(",")
        }
    }
}

fn joined(open: char, values: &ProtoStruct, close: char) -> String {
    let mut text = String::from(open);
    for (key, value) in &values.fields {
        let comma = if text.len() > 1 { "," } else { "" };
        write!(text, "{comma}{key}={}", plain(value)).expect("a text takes any text");
    }
    text.push(close);
    text
}

/// The servers with their weights: shares count within a priority.
fn weighted(usable: Vec<UsableEndpoint>) -> Vec<DiscoveredServer> {
    let serves = |endpoint: &&UsableEndpoint| endpoint.share > 0.0 && !endpoint.server.backup;
    let first = usable.iter().filter(serves).map(|endpoint| endpoint.priority).min();
    let mut shares: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for endpoint in &usable {
        shares.entry(endpoint.priority).or_default().push(endpoint.share);
    }
    let mut weights: BTreeMap<u32, _> =
        shares.into_iter().map(|(priority, shares)| (priority, weights(&shares).into_iter())).collect();
    let servers = usable.into_iter().map(|mut endpoint| {
        let next = weights.get_mut(&endpoint.priority).and_then(Iterator::next);
        endpoint.server.weight = next.expect("each endpoint has a share");
        endpoint.server.backup |= first.is_some_and(|first| endpoint.priority != first);
        endpoint.server
    });
    servers.collect()
}

/// Shares as weights, of which 0 stays 0: it is the word of the control plane.
fn weights(shares: &[f64]) -> Vec<u16> {
    let some: Vec<f64> = shares.iter().copied().filter(|share| *share > 0.0).collect();
    let mut some = scaled(&some).into_iter();
    shares.iter().map(|share| if *share > 0.0 { some.next().unwrap_or(1) } else { 0 }).collect()
}

#[cfg(test)]
#[path = "assignment_tests.rs"]
mod tests;
