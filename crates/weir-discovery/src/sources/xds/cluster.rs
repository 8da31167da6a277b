//! A `Cluster` as the place where its endpoints are, and what else it says that Weir does not follow: settings of an upstream are in the config
//! of Weir. Pure.

use std::collections::BTreeSet;

use prost::Message as _;

use super::assignment::{NamedServers, servers_of};
use super::messages::cluster::{Cluster, EdsClusterConfig, LB_POLICIES, OTHER_FIELDS, USED_FIELDS};
use super::messages::wire::field_numbers;

/// What a cluster says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClusterMeaning {
    pub(super) endpoints: ClusterEndpoints,
    /// What it says that Weir does not follow.
    pub(super) unfollowed: BTreeSet<String>,
}

/// Where the endpoints of a cluster are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClusterEndpoints {
    /// In the assignment of this name.
    Assignment(Box<str>),
    /// In the cluster itself.
    Inline(NamedServers),
}

/// Reads a cluster that the control plane calls `name`.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn read_cluster(name: &str, bytes: &[u8]) -> Result<ClusterMeaning, String> {
    let malformed = |error: prost::DecodeError| format!("it is no Cluster: {error}");
    let cluster = Cluster::decode(bytes).map_err(malformed)?;
    let mut unfollowed = unfollowed(&field_numbers(bytes).map_err(malformed)?);
    if let Some(policy) = usize::try_from(cluster.lb_policy).ok().filter(|policy| *policy != 0) {
        let policy = LB_POLICIES.get(policy).copied().unwrap_or("of another kind");
        unfollowed.insert(format!("`lb_policy` {policy}"));
    }
    if let Some(custom) = &cluster.cluster_type {
        return Err(format!("`cluster_type` {} is an extension of Envoy", custom.name));
    }
    let endpoints = match cluster.discovery_type {
        0..=2 => {
            let assignment = cluster.load_assignment.unwrap_or_default();
            let mut named = servers_of(&assignment)?;
            unfollowed.append(&mut named.unfollowed);
            if cluster.discovery_type == 0 {
                refuse_names(&named)?;
            }
            ClusterEndpoints::Inline(named)
        }
        3 => ClusterEndpoints::Assignment(assignment_name(name, cluster.eds_cluster_config.as_ref())?),
        4 => return Err("`ORIGINAL_DST` has no endpoints: they are what clients have connected to".into()),
        other => return Err(format!("its type is not known: {other}")),
    };
    Ok(ClusterMeaning { endpoints, unfollowed })
}

fn unfollowed(fields: &BTreeSet<u32>) -> BTreeSet<String> {
    let others = fields.iter().filter(|number| !USED_FIELDS.contains(number));
    let name = |number: &u32| {
        let known = OTHER_FIELDS.iter().find(|(known, _)| known == number);
        known.map_or_else(|| format!("field {number}"), |(_, name)| format!("`{name}`"))
    };
    others.map(name).collect()
}

fn refuse_names(named: &NamedServers) -> Result<(), String> {
    let is_name =
        |address: &weir_config::ServerAddress| matches!(address, weir_config::ServerAddress::Name { .. });
    let name = named.servers.iter().find(|server| is_name(&server.address));
    name.map_or(Ok(()), |server| Err(format!("it is STATIC, and `{}` is not an address", server.address)))
}

fn assignment_name(cluster: &str, config: Option<&EdsClusterConfig>) -> Result<Box<str>, String> {
    if let Some(source) = config.and_then(|config| config.eds_config.as_ref()) {
        if source.path.is_some() || source.path_config_source.is_some() {
            return Err("its endpoints are in a file: use `discovery = { file = ... }`".into());
        }
        if source.api_config_source.is_some() {
            return Err(
                "its endpoints are in another control plane: its `eds_config` must be `ads` or `self`".into(),
            );
        }
    }
    let service = config.map(|config| &*config.service_name).filter(|service| !service.is_empty());
    Ok(service.unwrap_or(cluster).into())
}

#[cfg(test)]
mod tests {
    use super::super::messages::base::EmptyMessage;
    use super::super::messages::cluster::{CustomClusterType, EdsConfigSource};
    use super::super::messages::endpoint::LoadAssignment;
    use super::super::test_messages::assignment;
    use super::*;

    fn cluster(discovery_type: i32) -> Cluster {
        Cluster { name: "app".into(), discovery_type, ..Cluster::default() }
    }

    fn read(cluster: &Cluster) -> Result<ClusterMeaning, String> {
        read_cluster("app", &cluster.encode_to_vec())
    }

    #[test]
    fn a_cluster_of_eds_names_its_assignment() {
        let with = |service: &str, source: EdsConfigSource| Cluster {
            eds_cluster_config: Some(EdsClusterConfig {
                eds_config: Some(source),
                service_name: service.into(),
            }),
            ..cluster(3)
        };
        let name = |cluster: &Cluster| match read(cluster)?.endpoints {
            ClusterEndpoints::Assignment(name) => Ok(name.to_string()),
            other => Err(format!("{other:?}")),
        };
        assert_eq!(name(&cluster(3)).unwrap(), "app");
        assert_eq!(name(&with("", EdsConfigSource::default())).unwrap(), "app");
        assert_eq!(name(&with("app-v2", EdsConfigSource::default())).unwrap(), "app-v2");
        let file = EdsConfigSource { path: Some("/x".into()), ..EdsConfigSource::default() };
        assert!(name(&with("", file)).unwrap_err().contains("in a file"));
        let other =
            EdsConfigSource { api_config_source: Some(EmptyMessage {}), ..EdsConfigSource::default() };
        assert!(name(&with("", other)).unwrap_err().contains("another control plane"));
    }

    #[test]
    fn endpoints_may_be_in_the_cluster() {
        for discovery_type in [0, 1, 2] {
            let load_assignment = Some(assignment("app", &[("10.0.0.1", 80)]));
            let read = read(&Cluster { load_assignment, ..cluster(discovery_type) }).unwrap();
            let ClusterEndpoints::Inline(named) = read.endpoints else { panic!("{read:?}") };
            assert_eq!(named.servers[0].address.to_string(), "10.0.0.1:80");
        }
        let names = Some(assignment("app", &[("app.example", 80)]));
        let of = |discovery_type| Cluster { load_assignment: names.clone(), ..cluster(discovery_type) };
        assert!(read(&of(0)).unwrap_err().contains("is not an address"));
        assert!(matches!(read(&of(1)).unwrap().endpoints, ClusterEndpoints::Inline(_)));
        let empty = Cluster { load_assignment: Some(LoadAssignment::default()), ..cluster(0) };
        assert_eq!(read(&empty).unwrap().endpoints, ClusterEndpoints::Inline(NamedServers::default()));
    }

    #[test]
    fn what_is_not_followed_has_a_name() {
        let mut bytes = Cluster { lb_policy: 2, ..cluster(3) }.encode_to_vec();
        // `connect_timeout`, `transport_socket`, and a field of a later version.
        bytes.extend([0x22, 0, 0xc2, 1, 0, 0xa2, 0x38, 0]);
        let unfollowed = read_cluster("app", &bytes).unwrap().unfollowed;
        let expected = ["`connect_timeout`", "`lb_policy` RING_HASH", "`transport_socket`", "field 900"];
        assert_eq!(unfollowed, expected.map(str::to_owned).into());
        assert!(read(&cluster(3)).unwrap().unfollowed.is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(read(&cluster(4)).unwrap_err().contains("ORIGINAL_DST"));
        assert!(read(&cluster(9)).unwrap_err().contains("not known: 9"));
        let custom = CustomClusterType { name: "envoy.clusters.aggregate".into() };
        let error = read(&Cluster { cluster_type: Some(custom), ..cluster(0) }).unwrap_err();
        assert!(error.contains("envoy.clusters.aggregate"), "{error}");
        assert!(read_cluster("app", &[0x0a, 200]).unwrap_err().contains("it is no Cluster"));
    }
}
