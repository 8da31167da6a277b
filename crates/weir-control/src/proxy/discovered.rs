//! What sources of servers say takes effect: from a set of servers as a source describes them to the servers of an upstream.
//!
//! Servers that the config names beside a source come first and stay. The last set of each source is kept, so that a reload goes on with it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use weir_config::{Config, Server, ServerDescription, ServerSource, Upstream};
use weir_discovery::{DiscoveredServer, ServerReadiness, ServerSet, ServerSetOrigin};
use weir_http::WallTime;
use weir_proxy::state::snapshot::SourceStatement;
use weir_traffic::{Mode, ServerTier};

use super::{Proxy, ServerChanges};
use crate::servers::discovery::DiscoveryThread;

/// Names in a log line about servers that came or went.
const NAMES_LOGGED_MAX: usize = 10;

/// The last servers that each source has named, by upstream, and who asks the sources.
#[derive(Debug, Default)]
pub(super) struct DiscoveredServers {
    known: HashMap<Box<str>, Vec<DiscoveredServer>>,
    pub(super) thread: Option<DiscoveryThread>,
}

impl DiscoveredServers {
    /// The servers of an upstream of the config: those that it names, and those of its source.
    fn servers_of(&self, upstream: &Upstream) -> Vec<Server> {
        let known = self.known.get(&upstream.name).map_or(&[][..], |known| known);
        joined(&upstream.servers, known.iter().map(|discovered| server(discovered, upstream)))
    }

    /// A config that follows `before`, with the servers that sources have named which both have. Where a source has not said
    /// anything yet, the servers `in_use` stay: a reload leaves no upstream without servers.
    pub(super) fn complete(&self, config: &Config, before: &Config, in_use: &Config) -> Config {
        let sources = sources(before);
        let in_use: HashMap<&str, &Upstream> = in_use.upstreams.iter().map(|it| (&*it.name, &**it)).collect();
        let mut config = config.clone();
        for upstream in config.upstreams.iter_mut().filter(|upstream| upstream.discovery.is_some()) {
            let is_known = self.known.contains_key(&upstream.name)
                && sources.get(&*upstream.name).copied() == upstream.discovery.as_ref();
            let servers = match in_use.get(&*upstream.name).filter(|_| !is_known) {
                Some(in_use) => joined(&upstream.servers, in_use.servers.iter().cloned()),
                None => self.servers_of(upstream),
            };
            *upstream = Arc::new(upstream.with_servers(servers));
        }
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
    for upstream in &mut config.upstreams {
        let Some((servers, at)) = stored.remove(&upstream.name) else { continue };
        said_at.insert(upstream.name.clone(), at);
        let known = servers.iter().map(|discovered| server(discovered, upstream));
        *upstream = Arc::new(upstream.with_servers(joined(&upstream.servers, known)));
    }
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
    let (zone, metadata) = (discovered.zone.clone(), discovered.metadata.clone());
    let is_described = zone.is_some() || !metadata.is_empty();
    Server {
        name: discovered.shown_name(),
        weight: discovered.weight,
        max_requests: upstream.max_requests,
        tier,
        mode: Mode::Serving,
        description: is_described.then(|| Arc::new(ServerDescription { zone, metadata })),
        ..Server::new(discovered.address.clone())
    }
}

impl Proxy {
    /// How many upstreams wait for the first word of their source.
    pub fn sources_awaited(&self) -> usize {
        let config = self.file_config.load();
        let current = self.current.load();
        let upstreams = config.upstreams.iter().zip(&current.upstreams);
        upstreams.filter(|(config, plan)| config.discovery.is_some() && plan.source.said().is_none()).count()
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
            // A source that has not answered yet has named nothing: the servers of before a reload stay.
            if origin.is_stale && servers.is_empty() {
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
        if let Err(error) = self.set_servers(changes) {
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
