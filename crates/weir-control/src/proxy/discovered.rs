//! What sources of servers say takes effect: from a set of servers as a source describes them to the servers of an upstream.
//!
//! Servers that the config names beside a source come first and stay. The last set of each source is kept, so that a reload goes on with it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;

use weir_config::{Config, Server, ServerDescription, ServerSource, Upstream};
use weir_discovery::{
    DiscoveredServer, RememberedServers, ServerReadiness, ServerSet, ServerSetOrigin, StoredUpstream,
};
use weir_http::WallTime;
use weir_proxy::state::snapshot::SourceStatement;
use weir_traffic::ServerTier;

use super::{Proxy, ServerChanges};
use crate::servers::discovery::DiscoveryThread;

/// Names in a log line about servers that came or went.
const NAMES_LOGGED_MAX: usize = 10;

/// The last servers that each source has named, by upstream, and who asks the sources.
#[derive(Debug, Default)]
pub(super) struct DiscoveredServers {
    known: HashMap<Box<str>, Vec<DiscoveredServer>>,
    /// Those of which a file has the servers, as long as their sources have neither answered nor failed.
    unheard: HashSet<Box<str>>,
    pub(super) thread: Option<DiscoveryThread>,
}

impl DiscoveredServers {
    /// The servers of an upstream of the config: those that it names, and those of its source.
    fn servers_of(&self, upstream: &Upstream) -> Vec<Server> {
        let known = self.known.get(&upstream.name).map_or(&[][..], |known| known);
        joined(&upstream.servers, known.iter().map(|discovered| server(discovered, upstream)))
    }

    /// The first config, with the servers that are known before any source is asked.
    pub(super) fn begin_with(&mut self, known: &RememberedServers, config: &Config) -> Config {
        let mut complete = config.clone();
        complete.set_servers(|upstream| {
            let known = known.of(upstream)?;
            let servers = known.servers.iter().map(|discovered| server(discovered, upstream));
            let servers = joined(&upstream.servers, servers);
            if !known.is_handed_over {
                self.unheard.insert(upstream.name.clone());
            }
            if known.is_of_source {
                self.known.insert(upstream.name.clone(), known.servers);
            }
            Some(servers)
        });
        complete
    }

    /// The config of the file, with the servers that sources have named.
    pub(super) fn named(&self, of_file: &Config) -> Config {
        let mut config = of_file.clone();
        config.set_servers(|upstream| {
            let is_known = upstream.discovery.is_some() && self.known.contains_key(&upstream.name);
            is_known.then(|| self.servers_of(upstream))
        });
        config
    }

    /// The servers in use of upstreams that have a source, for the next process; `said_at`: when the source of an upstream named them.
    pub(super) fn to_hand_over(
        &self,
        of_file: &Config,
        in_use: &Config,
        said_at: impl Fn(&str) -> WallTime,
    ) -> BTreeMap<Box<str>, StoredUpstream> {
        let in_use: HashMap<&str, &Upstream> = in_use.upstreams.iter().map(|it| (&*it.name, &**it)).collect();
        let handed = |upstream: &Arc<Upstream>| {
            let source = upstream.discovery.as_ref()?;
            let known = match (self.known.get(&upstream.name), in_use.get(&*upstream.name)) {
                (Some(known), _) => StoredUpstream::new(&source.to_string(), known, said_at(&upstream.name)),
                // What an earlier config has left: no source has named it.
                (None, Some(in_use)) => {
                    let others = in_use.servers.iter().filter(|server| !upstream.servers.contains(server));
                    let others: Vec<DiscoveredServer> = others.map(described).collect();
                    StoredUpstream::new("", &others, WallTime::EPOCH)
                }
                (None, None) => return None,
            };
            Some((upstream.name.clone(), known))
        };
        of_file.upstreams.iter().filter_map(handed).collect()
    }

    /// A config that follows `before`, with the servers that sources have named which both have. Where a source has not said
    /// anything yet, the servers `in_use` stay: a reload leaves no upstream without servers.
    pub(super) fn complete(&self, config: &Config, before: &Config, in_use: &Config) -> Config {
        let sources = sources(before);
        let in_use: HashMap<&str, &Upstream> = in_use.upstreams.iter().map(|it| (&*it.name, &**it)).collect();
        let mut config = config.clone();
        config.set_servers(|upstream| {
            // Names that requests have given stay as far as they are still allowed.
            if let Some(settings) = &upstream.dynamic {
                let before = in_use.get(&*upstream.name).filter(|before| before.dynamic.is_some())?;
                let stay = before.servers.iter().filter(|server| settings.allow.allows(&server.address));
                let mut stay: Vec<Server> = stay.cloned().collect();
                stay.iter_mut().for_each(|server| server.max_requests = upstream.max_requests);
                return Some(stay);
            }
            let source = upstream.discovery.as_ref()?;
            let is_known = self.known.contains_key(&upstream.name)
                && sources.get(&*upstream.name).copied() == Some(source);
            let before = in_use.get(&*upstream.name).filter(|before| !is_known && before.dynamic.is_none());
            Some(match before {
                Some(in_use) => joined(&upstream.servers, in_use.servers.iter().cloned()),
                None => self.servers_of(upstream),
            })
        });
        config
    }

    /// Forgets the servers of upstreams whose source the config that follows `before` does not have, or has otherwise.
    pub(super) fn forget_others(&mut self, config: &Config, before: &Config) {
        let (now, before) = (sources(config), sources(before));
        self.known.retain(|name, _| now.contains_key(&**name) && now.get(&**name) == before.get(&**name));
    }
}

/// A config with the servers that its sources named last, and when each did, by upstream: as the state file has them.
///
/// # Errors
/// When there is a state file and it cannot be read.
pub fn with_stored_servers(config: &Config) -> io::Result<(Config, HashMap<Box<str>, WallTime>)> {
    let (mut config, mut said_at) = (config.clone(), HashMap::new());
    let mut stored = weir_discovery::stored_servers(&config)?;
    config.set_servers(|upstream| {
        let (servers, at) = stored.remove(&upstream.name)?;
        said_at.insert(upstream.name.clone(), at);
        let known = servers.iter().map(|discovered| server(discovered, upstream));
        Some(joined(&upstream.servers, known))
    });
    Ok((config, said_at))
}

/// The first servers, and those of the others that have other names.
fn joined(first: &[Server], others: impl Iterator<Item = Server>) -> Vec<Server> {
    let mut servers = first.to_vec();
    let mut names: HashSet<Box<str>> = servers.iter().map(|server| server.name.clone()).collect();
    servers.extend(others.filter(|server| names.insert(server.name.clone())));
    servers
}

/// The sources of a config by upstream.
fn sources(config: &Config) -> HashMap<&str, &Arc<ServerSource>> {
    config.upstreams.iter().filter_map(|it| Some((&*it.name, it.discovery.as_ref()?))).collect()
}

/// A server of an upstream, as its source describes it.
fn server(discovered: &DiscoveredServer, upstream: &Upstream) -> Server {
    let tier = match discovered.readiness {
        ServerReadiness::Draining => ServerTier::LastResort,
        ServerReadiness::Ready if discovered.backup => ServerTier::Backup,
        ServerReadiness::Ready => ServerTier::Primary,
    };
    let mut description = ServerDescription::default();
    (description.zone, description.metadata) = (discovered.zone.clone(), discovered.metadata.clone());
    let mut server = Server::new(discovered.address.clone());
    server.name = discovered.shown_name();
    server.weight = discovered.weight;
    server.max_requests = upstream.max_requests;
    server.source_address = upstream.source_address;
    server.tier = tier;
    server.description = (description != ServerDescription::default()).then(|| Arc::new(description));
    server
}

/// A server in use, as a source would describe it.
fn described(server: &Server) -> DiscoveredServer {
    let description = server.description.as_ref();
    DiscoveredServer {
        name: Some(server.name.clone()),
        weight: server.weight,
        backup: server.tier == ServerTier::Backup,
        zone: description.and_then(|description| description.zone.clone()),
        readiness: match server.tier {
            ServerTier::LastResort => ServerReadiness::Draining,
            ServerTier::Primary | ServerTier::Backup => ServerReadiness::Ready,
        },
        metadata: description.map(|description| description.metadata.clone()).unwrap_or_default(),
        ..DiscoveredServer::new(server.address.clone())
    }
}

impl Proxy {
    /// The upstreams whose source has never named any servers.
    pub fn sources_unknown(&self) -> Vec<Box<str>> {
        let config = self.file_config.load();
        let with_source = config.upstreams.iter().filter(|it| it.discovery.is_some()).map(|it| &it.name);
        with_source.filter(|name| !self.discovered.known.contains_key(*name)).cloned().collect()
    }

    /// Whether a source has neither answered nor failed whose servers are those of an earlier process.
    pub fn has_unheard_sources(&self) -> bool {
        !self.discovered.unheard.is_empty()
    }

    /// Makes what sources say take effect; sets of upstreams that the config does not have, or that it names the servers of, are passed over.
    pub fn take_server_sets(&mut self, sets: Vec<ServerSet>) {
        let current = self.current.load_full();
        let file_config = self.file_config.load_full();
        let mut changes = Vec::new();
        for ServerSet { upstream: name, servers, origin } in sets {
            let Some((place, plan)) = current.upstream(&name) else { continue };
            let declared = &file_config.upstreams[place];
            if declared.discovery.is_none() {
                continue;
            }
            plan.source.tell(statement(&origin));
            if !origin.is_unheard {
                self.discovered.unheard.remove(&name);
            }
            // A source that has not answered yet has named nothing: the servers of before a reload stay.
            if origin.is_stale && servers.is_empty() {
                continue;
            }
            let known = self.discovered.known.get(&name);
            // What an operator has changed since stays until it names others.
            if known.is_some_and(|known| *known == servers) {
                continue;
            }
            self.discovered.known.insert(name.clone(), servers);
            let servers = self.discovered.servers_of(declared);
            if plan.declared().servers != servers {
                plan.source.count_change();
                log_change(&name, &origin, &plan.declared().servers, &servers);
                changes.push(ServerChanges { upstream: name, servers });
            }
        }
        let changed: Vec<Box<str>> = changes.iter().map(|change| change.upstream.clone()).collect();
        if let Err(error) = self.set_servers(changes) {
            changed.iter().for_each(|name| drop(self.discovered.known.remove(name)));
            tracing::error!(%error, "the servers that a source has named cannot be used; those of before stay in use");
        }
    }
}

fn statement(origin: &ServerSetOrigin) -> SourceStatement {
    SourceStatement {
        source: origin.source.clone(),
        said_at_ms: origin.said_at.millis(),
        is_stale: origin.is_stale,
        problem: origin.problem.clone(),
        remark: origin.remark.clone(),
    }
}

fn log_change(upstream: &str, origin: &ServerSetOrigin, before: &[Server], after: &[Server]) {
    let names = |servers: &[Server], others: &[Server]| {
        let others: HashSet<_> = others.iter().map(|server| (&server.name, &server.address)).collect();
        let only = servers.iter().filter(|server| !others.contains(&(&server.name, &server.address)));
        let only: Vec<&str> = only.map(|server| &*server.name).collect();
        match only.len().saturating_sub(NAMES_LOGGED_MAX) {
            0 => only.join(" "),
            more => format!("{} and {more} more", only[..NAMES_LOGGED_MAX].join(" ")),
        }
    };
    tracing::info!(
        upstream,
        source = &*origin.source,
        came = names(after, before),
        gone = names(before, after),
        servers = after.len(),
        "the source has named other servers"
    );
}
