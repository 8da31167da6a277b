//! Weir's own shape, in TOML and in JSON: a list `servers` of tables with the keys of a server in `weir.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use weir_config::ServerAddress;

use super::ServersFileProblem;
use crate::server_set::{DiscoveredServer, ServerReadiness};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServersFile {
    servers: Vec<FileEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    #[serde(deserialize_with = "address")]
    address: ServerAddress,
    #[serde(default, deserialize_with = "name")]
    name: Option<Box<str>>,
    #[serde(default = "weight_of_one", deserialize_with = "weight")]
    weight: u16,
    #[serde(default)]
    backup: bool,
    #[serde(default)]
    zone: Option<Box<str>>,
    #[serde(default)]
    draining: bool,
    #[serde(default)]
    metadata: BTreeMap<Box<str>, Box<str>>,
}

const fn weight_of_one() -> u16 {
    1
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ServerAddress, D::Error> {
    let text = String::deserialize(deserializer)?;
    let hinted = |error: weir_config::ValueError| match error.help {
        Some(help) => de::Error::custom(format!("{} ({help})", error.message)),
        None => de::Error::custom(error.message),
    };
    text.parse().map_err(hinted)
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let name = Box::<str>::deserialize(deserializer)?;
    match is_server_name(&name) {
        true => Ok(Some(name)),
        false => Err(de::Error::custom(format!(
            "`{name}` is not a name for a server (names are 1 to 64 letters, digits, `-`, `_` and `.`)"
        ))),
    }
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let weight = i64::deserialize(deserializer)?;
    let in_range = u16::try_from(weight).ok().filter(|weight| *weight <= 256);
    in_range.ok_or_else(|| de::Error::custom(format!("the weight {weight} is not within 0 to 256")))
}

/// Whether a text may be the name of a server, as in `weir.toml`.
pub(crate) fn is_server_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn servers(file: ServersFile) -> Vec<DiscoveredServer> {
    let server = |entry: FileEntry| DiscoveredServer {
        address: entry.address,
        name: entry.name,
        weight: entry.weight,
        backup: entry.backup,
        zone: entry.zone,
        readiness: if entry.draining { ServerReadiness::Draining } else { ServerReadiness::Ready },
        metadata: entry.metadata,
    };
    file.servers.into_iter().map(server).collect()
}

pub(super) fn parse_toml(text: &str) -> Result<Vec<DiscoveredServer>, ServersFileProblem> {
    toml::from_str(text).map(servers).map_err(|error| ServersFileProblem::of_toml(&error, text))
}

pub(super) fn parse_json(text: &str) -> Result<Vec<DiscoveredServer>, ServersFileProblem> {
    serde_json::from_str(text).map(servers).map_err(|error| ServersFileProblem::of_json(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let toml = r#"
            [[servers]]
            address = "10.0.0.1:80"
            name = "one"
            weight = 10
            zone = "a"
            metadata = { version = "2" }
            [[servers]]
            address = "app.internal:80"
            backup = true
            draining = true
        "#;
        let json = r#"{"servers": [
            {"address": "10.0.0.1:80", "name": "one", "weight": 10, "zone": "a", "metadata": {"version": "2"}},
            {"address": "app.internal:80", "backup": true, "draining": true}
        ]}"#;
        let servers = parse_toml(toml).unwrap();
        assert_eq!(servers, parse_json(json).unwrap());
        assert_eq!((servers.len(), servers[0].weight, servers[0].zone.as_deref()), (2, 10, Some("a")));
        assert_eq!(&*servers[0].metadata["version"], "2");
        assert!(servers[1].backup && servers[1].readiness == ServerReadiness::Draining);
        assert_eq!(parse_toml("servers = []").unwrap(), []);
    }

    #[test]
    fn problems_have_their_place() {
        for (text, problem) in [
            ("servers = [\n  { address = \"10.0.0.1\" },\n]", "line 2, column 15: `10.0.0.1` has no port"),
            (
                "servers = [{ address = \"a:1\", weight = 257 }]",
                "column 40: the weight 257 is not within 0 to 256",
            ),
            ("servers = [{ address = \"a:1\", wieght = 2 }]", "column 31: unknown field `wieght`"),
            ("servers = [{ address = \"a:1\", name = \"a b\" }]", "`a b` is not a name for a server"),
            ("servers = [{ weight = 1 }]", "missing field `address`"),
            ("servers = [", "line 1"),
            ("", "missing field `servers`"),
        ] {
            let found = parse_toml(text).unwrap_err().to_string();
            assert!(found.contains(problem), "{text}: {found}");
        }
        for (text, problem) in [
            ("{\"servers\": [\n{\"address\": \"10.0.0.1\"}]}", "line 2, column 23: `10.0.0.1` has no port"),
            ("{\"servers\": [{\"address\": \"a:1\", \"weight\": -1}]}", "the weight -1"),
            ("{\"servers\": ", "line 1, column 12: EOF"),
        ] {
            let found = parse_json(text).unwrap_err().to_string();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
