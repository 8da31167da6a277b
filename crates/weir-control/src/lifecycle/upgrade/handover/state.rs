//! The state that outlives the process: what operators have changed, and which servers do not answer.
//!
//! Servers are named as in the config, so that it holds for the next config as far as that has them.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use weir_config::{Config, RouteSource, Server, ServerAddress};
use weir_discovery::{KnownAddresses, StoredUpstream};
use weir_traffic::Mode;
use weir_traffic::health::{AgentReport, AgentStatus};

use super::tables::HandedTables;
use crate::workers::commands::ServerChange;

/// The state of the process before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedState {
    /// The process; 0 where there is none.
    #[serde(default)]
    pub(crate) process: u32,
    /// Whether this node has handed over to another one.
    #[serde(default)]
    pub(crate) is_handed_over: bool,
    /// Whether it leaves the address to that node.
    #[serde(default)]
    pub(crate) is_standby: bool,
    /// Modes that operators have set.
    #[serde(default)]
    pub(crate) modes: Vec<HandedMode>,
    /// Values of servers that operators have changed.
    #[serde(default)]
    pub(crate) changes: Vec<HandedChange>,
    /// Servers that the health checks have found down.
    #[serde(default)]
    pub(crate) health: Vec<HandedHealth>,
    /// What agents of servers have said.
    #[serde(default)]
    pub(crate) agents: Vec<HandedAgent>,
    /// What sources have named, by upstream.
    #[serde(default)]
    pub(crate) sources: BTreeMap<Box<str>, StoredUpstream>,
    /// Addresses of the names of servers.
    #[serde(default)]
    pub(crate) names: KnownAddresses,
    /// Routes of stores.
    #[serde(default)]
    pub(crate) fragments: Vec<HandedFragments>,
    /// When the tables were taken, in nanoseconds of the clock of the machine that does not go back.
    #[serde(default)]
    pub(crate) taken_at_ns: u64,
    #[serde(default)]
    pub(crate) tables: HandedTables,
}

/// The fragments of a config that a store has, as far as they are in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedFragments {
    /// The name of the source of routes.
    pub source: Box<str>,
    /// The store in words: another one has other fragments.
    pub store: String,
    /// The texts by their keys.
    pub texts: BTreeMap<Box<str>, Box<str>>,
}

impl HandedFragments {
    /// Whether they are those of this source.
    pub fn is_of(&self, source: &RouteSource) -> bool {
        self.source == source.name && self.store == source.store.to_string()
    }
}

/// A mode that is not that of the config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedMode {
    pub(crate) upstream: String,
    pub(crate) server: String,
    mode: String,
    /// That of the config before.
    config_mode: String,
    /// Until sessions with affinity are not accepted either.
    pub(crate) deadline_ms: Option<u64>,
}

impl HandedMode {
    pub(crate) fn new(upstream: &str, server: &Server, mode: Mode, deadline_ms: Option<u64>) -> Self {
        Self {
            upstream: upstream.to_owned(),
            server: server.name.to_string(),
            mode: mode.name().to_owned(),
            config_mode: server.mode.name().to_owned(),
            deadline_ms,
        }
    }

    /// The mode, unless the config now says another one than before.
    pub(crate) fn mode_in(&self, config: &Config) -> Option<Mode> {
        let server = server(config, &self.upstream, &self.server)?;
        Mode::named(&self.mode).filter(|_| server.mode.name() == self.config_mode)
    }
}

/// A server that the health checks have found down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedHealth {
    pub(crate) upstream: String,
    pub(crate) server: String,
}

/// What the agent of a server has said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedAgent {
    pub(crate) upstream: String,
    pub(crate) server: String,
    weight_percent: Option<u32>,
    max_requests: Option<u32>,
    mode: String,
    status: String,
    description: String,
}

impl HandedAgent {
    pub(crate) fn new(upstream: &str, server: &str, report: &AgentReport) -> Self {
        Self {
            upstream: upstream.to_owned(),
            server: server.to_owned(),
            weight_percent: report.weight_percent,
            max_requests: report.max_requests,
            mode: report.mode.name().to_owned(),
            status: report.status.name().to_owned(),
            description: report.description.to_string(),
        }
    }

    /// The same as the agent has said it; `None`: another version of Weir knows more.
    pub(crate) fn report(&self) -> Option<AgentReport> {
        Some(AgentReport {
            weight_percent: self.weight_percent,
            max_requests: self.max_requests,
            mode: Mode::named(&self.mode)?,
            status: AgentStatus::named(&self.status)?,
            description: self.description.as_str().into(),
        })
    }
}

/// Values of a server, as the config has them or as an operator has changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ServerValues {
    weight: u16,
    address: String,
    max_requests: Option<u32>,
}

impl ServerValues {
    fn new(server: &Server) -> Self {
        let address = server.address.to_string();
        Self { weight: server.weight, address, max_requests: server.max_requests }
    }
}

/// A server that an operator has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedChange {
    upstream: String,
    server: String,
    in_config: ServerValues,
    now: ServerValues,
}

impl HandedChange {
    /// All by which `in_use` differs from the config of the file.
    pub(crate) fn between(of_file: &Config, in_use: &Config) -> Vec<Self> {
        let mut changes = Vec::new();
        for upstream in &in_use.upstreams {
            for changed in &upstream.servers {
                let Some(known) = server(of_file, &upstream.name, &changed.name) else { continue };
                let (in_config, now) = (ServerValues::new(known), ServerValues::new(changed));
                if in_config != now {
                    let (upstream, server) = (upstream.name.to_string(), changed.name.to_string());
                    changes.push(Self { upstream, server, in_config, now });
                }
            }
        }
        changes
    }

    /// The change, as far as the config says the same as before.
    pub(crate) fn change_in(&self, config: &Config) -> Option<ServerChange> {
        let values = ServerValues::new(server(config, &self.upstream, &self.server)?);
        let (before, now) = (&self.in_config, &self.now);
        let change = ServerChange {
            weight: (values.weight == before.weight && now.weight != before.weight).then_some(now.weight),
            address: (values.address == before.address && now.address != before.address)
                .then(|| ServerAddress::from_str(&now.address).ok())
                .flatten(),
            max_requests: (values.max_requests == before.max_requests
                && now.max_requests != before.max_requests)
                .then_some(now.max_requests),
            ..ServerChange::new(&self.upstream, &self.server)
        };
        (!change.is_empty()).then_some(change)
    }
}

fn server<'a>(config: &'a Config, upstream: &str, server: &str) -> Option<&'a Server> {
    let upstream = config.upstreams.iter().find(|known| *known.name == *upstream)?;
    upstream.servers.iter().find(|known| *known.name == *server)
}
