//! Prometheus' `file_sd` in JSON: groups of targets with labels. Some labels have a meaning here; all of them become metadata.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use weir_config::ServerAddress;

use super::ServersFileProblem;
use crate::server_set::{DiscoveredServer, ServerReadiness};

/// The label with the weight of a server, 0 to 256.
const WEIGHT: &str = "__weir_weight";
/// The label that is `true` for a backup.
const BACKUP: &str = "__weir_backup";
/// The label that is `true` for a server that gets no new requests.
const DRAINING: &str = "__weir_draining";
/// The labels with the zone, the first that is there.
const ZONES: [&str; 2] = ["__weir_zone", "zone"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetGroup {
    targets: Vec<ScrapeTarget>,
    #[serde(default, deserialize_with = "labels")]
    labels: GroupLabels,
}

struct ScrapeTarget(ServerAddress);

impl<'de> Deserialize<'de> for ScrapeTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|error: weir_config::ValueError| de::Error::custom(error.message))
    }
}

/// The labels of a group, with those that have a meaning already read.
#[derive(Default)]
struct GroupLabels {
    weight: Option<u16>,
    backup: bool,
    draining: bool,
    all: BTreeMap<Box<str>, Box<str>>,
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GroupLabels, D::Error> {
    let all = BTreeMap::<Box<str>, Box<str>>::deserialize(deserializer)?;
    let weight = all.get(WEIGHT).map(|text| {
        let weight = text.parse().ok().filter(|weight| *weight <= 256);
        weight.ok_or_else(|| de::Error::custom(format!("`{WEIGHT}` is `{text}`, not a number from 0 to 256")))
    });
    let flag = |name: &str| match all.get(name).map(|text| &**text) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(de::Error::custom(format!("`{name}` is `{other}`, neither `true` nor `false`"))),
    };
    let (weight, backup, draining) = (weight.transpose()?, flag(BACKUP)?, flag(DRAINING)?);
    Ok(GroupLabels { weight, backup, draining, all })
}

pub(super) fn parse(text: &str) -> Result<Vec<DiscoveredServer>, ServersFileProblem> {
    let groups: Vec<TargetGroup> =
        serde_json::from_str(text).map_err(|error| ServersFileProblem::of_json(&error))?;
    let servers = groups.into_iter().flat_map(|group| {
        let GroupLabels { weight, backup, draining, all } = group.labels;
        let zone = ZONES.iter().find_map(|name| all.get(*name)).cloned();
        group.targets.into_iter().map(move |target| DiscoveredServer {
            weight: weight.unwrap_or(1),
            backup,
            zone: zone.clone(),
            readiness: if draining { ServerReadiness::Draining } else { ServerReadiness::Ready },
            metadata: all.clone(),
            ..DiscoveredServer::new(target.0)
        })
    });
    Ok(servers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_group_hold_for_its_targets() {
        let text = r#"[
            {"targets": ["10.0.0.1:80", "10.0.0.2:80"], "labels": {"zone": "a", "__weir_weight": "5", "__meta_id": "x"}},
            {"targets": ["10.0.0.3:80"], "labels": {"__weir_backup": "true", "__weir_draining": "true"}},
            {"targets": ["[::1]:80"]}
        ]"#;
        let servers = parse(text).unwrap();
        let seen: Vec<_> = servers.iter().map(|s| (s.weight, s.backup, s.zone.as_deref())).collect();
        assert_eq!(seen, [(5, false, Some("a")), (5, false, Some("a")), (1, true, None), (1, false, None)]);
        assert_eq!(&*servers[0].metadata["__meta_id"], "x");
        assert_eq!(servers[2].readiness, ServerReadiness::Draining);
    }

    #[test]
    fn problems_have_their_place() {
        for (text, problem) in [
            ("[\n{\"targets\": [\"10.0.0.1\"]}]", "line 2, column 24: `10.0.0.1` has no port"),
            ("[{\"targets\": [], \"labels\": {\"__weir_weight\": \"heavy\"}}]", "`__weir_weight` is `heavy`"),
            ("[{\"targets\": [], \"labels\": {\"__weir_backup\": \"yes\"}}]", "neither `true` nor `false`"),
            ("[{\"labels\": {}}]", "missing field `targets`"),
        ] {
            let found = parse(text).unwrap_err().to_string();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
