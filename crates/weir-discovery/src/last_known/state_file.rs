//! The last known servers and addresses of names on disk, so that a start does not depend on a source or on DNS that is away. Written whole, by way of a second file; one that
//! cannot be read is ignored, with a warning.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_config::{Config, Upstream};
use weir_http::WallTime;

use crate::last_known::names_in_use::KnownAddresses;
use crate::last_known::source_state::SERVERS_MAX;
use crate::server_set::{DiscoveredServer, ServerReadiness};

const BYTES_MAX: u64 = 64 << 20;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct StateFile {
    version: u32,
    #[serde(flatten)]
    stored: StoredState,
}

/// What the file has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredState {
    /// By upstream.
    pub(crate) upstreams: BTreeMap<Box<str>, StoredUpstream>,
    /// Addresses of the names of servers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) names: KnownAddresses,
}

/// What is known of one upstream, as a file or another process takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredUpstream {
    /// The source in words: another one has other servers.
    pub(crate) source: Box<str>,
    /// Seconds since 1970.
    said_at: u64,
    servers: Vec<StoredServer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredServer {
    address: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Box<str>>,
    weight: u16,
    #[serde(default)]
    backup: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<Box<str>>,
    #[serde(default)]
    draining: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<Box<str>, Box<str>>,
}

impl StoredUpstream {
    /// The servers that `source`, in words, named at this time.
    pub fn new(source: &str, servers: &[DiscoveredServer], said_at: WallTime) -> Self {
        let stored = servers.iter().map(|server| StoredServer {
            address: server.address.to_string().into(),
            name: server.name.clone(),
            weight: server.weight,
            backup: server.backup,
            zone: server.zone.clone(),
            draining: server.readiness == ServerReadiness::Draining,
            metadata: server.metadata.clone(),
        });
        let said_at = said_at.seconds();
        Self { source: source.into(), said_at, servers: stored.collect() }
    }

    /// The servers, and when the source named them; `None`: one of them could be none of Weir's.
    pub(crate) fn servers(&self) -> Option<(Vec<DiscoveredServer>, WallTime)> {
        let server = |stored: &StoredServer| {
            let address = stored.address.parse().ok().filter(|_| stored.weight <= 256)?;
            let readiness = if stored.draining { ServerReadiness::Draining } else { ServerReadiness::Ready };
            Some(DiscoveredServer {
                address,
                name: stored.name.clone(),
                weight: stored.weight,
                backup: stored.backup,
                zone: stored.zone.clone(),
                readiness,
                metadata: stored.metadata.clone(),
            })
        };
        let servers: Option<Vec<DiscoveredServer>> = self.servers.iter().map(server).collect();
        let said_at = WallTime::from_seconds(self.said_at);
        servers.filter(|servers| servers.len() <= SERVERS_MAX).map(|servers| (servers, said_at))
    }
}

/// What an earlier process has left; nothing, with a warning, where it cannot be read.
pub(crate) fn read(path: &Path) -> StoredState {
    try_read(path).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(file = %path.display(), %error, "the file with the last known servers is ignored");
        }
        StoredState::default()
    })
}

fn try_read(path: &Path) -> io::Result<StoredState> {
    let state: StateFile = serde_json::from_str(&read_bounded(path)?).map_err(io::Error::other)?;
    match state.version {
        VERSION => Ok(state.stored),
        other => Err(io::Error::other(format!("its version is {other}; this Weir reads {VERSION}"))),
    }
}

/// Servers, and when a source named them.
pub type StoredServers = (Vec<DiscoveredServer>, WallTime);

/// The servers that the sources of a config named last, by upstream, and when: as the state file has them, without asking a source.
///
/// # Errors
/// When there is a state file and it cannot be read.
pub fn stored_servers(config: &Config) -> io::Result<BTreeMap<Box<str>, StoredServers>> {
    let Some(path) = config.discovery.state_file.as_deref() else { return Ok(BTreeMap::new()) };
    let stored = try_read(path)?.upstreams;
    let of_upstream = |upstream: &Upstream| {
        let known = stored.get(&upstream.name)?;
        let is_its = upstream.discovery.as_ref()?.to_string() == *known.source;
        Some((upstream.name.clone(), known.servers().filter(|_| is_its)?))
    };
    Ok(config.upstreams.iter().filter_map(|upstream| of_upstream(upstream)).collect())
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let len = File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    match len as u64 > BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Replaces the file; a crash at any moment leaves the old one or the new one.
pub(crate) fn write(path: &Path, stored: StoredState) -> io::Result<()> {
    let text = serde_json::to_vec(&StateFile { version: VERSION, stored }).map_err(io::Error::other)?;
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    // Another process, the one before in an upgrade, may write the same file.
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let replaced = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&temporary)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    replaced().inspect_err(|_| {
        let _was_gone = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        let mut server = DiscoveredServer::new("app.internal:80".parse().unwrap());
        server.zone = Some("a".into());
        server.readiness = ServerReadiness::Draining;
        server.metadata.insert("k".into(), "v".into());
        let at = WallTime::from_seconds(1_700_000_000);
        let known = StoredUpstream::new("file x", std::slice::from_ref(&server), at);
        let names =
            KnownAddresses::from([("b.internal".into(), vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()])]);
        let upstreams = BTreeMap::from([("app".into(), known)]);
        write(&path, StoredState { upstreams, names: names.clone() }).unwrap();
        let read = read(&path);
        assert_eq!(&*read.upstreams["app"].source, "file x");
        assert_eq!(read.upstreams["app"].servers(), Some((vec![server], at)));
        assert_eq!(read.names, names);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_broken_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        assert_eq!(read(&path), StoredState::default());
        for text in ["", "{", "{\"version\": 2, \"upstreams\": {}}", "[]"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path), StoredState::default(), "{text}");
        }
        let bad = r#"{"version": 1, "upstreams": {"app": {"source": "x", "said_at": 1, "servers": [{"address": "?", "weight": 1}]}}}"#;
        fs::write(&path, bad).unwrap();
        assert_eq!(read(&path).upstreams["app"].servers(), None);
    }

    #[test]
    fn a_file_without_names_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        fs::write(
            &path,
            r#"{"version": 1, "upstreams": {"app": {"source": "x", "said_at": 1, "servers": []}}}"#,
        )
        .unwrap();
        let read = read(&path);
        assert_eq!((read.upstreams.len(), read.names.len()), (1, 0));
    }
}
