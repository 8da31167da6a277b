//! The servers of each upstream, as their services name them, and configurations that have them.
//!
//! A translation names upstreams without servers. An upstream and servers that are as before give the same object as before, so that the
//! data path shares its part of the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use weir_config::{Config, Server, Upstream};
use weir_gateway::UpstreamServers;

/// The servers by upstream.
#[derive(Debug, Default)]
pub(crate) struct CompletedUpstreams(HashMap<Box<str>, CompletedUpstream>);

#[derive(Debug, Default)]
struct CompletedUpstream {
    servers: Vec<Server>,
    /// The upstream as the translation has it, and with the servers.
    completed: Option<(Arc<Upstream>, Arc<Upstream>)>,
}

impl CompletedUpstreams {
    /// Takes the servers of some upstreams; returns those that are others than before.
    pub(crate) fn take(&mut self, sets: Vec<UpstreamServers>) -> Vec<(Box<str>, Vec<Server>)> {
        let mut changed = Vec::new();
        for UpstreamServers { upstream, servers } in sets {
            let servers: Vec<Server> =
                servers.into_iter().map(weir_gateway::ZonedServer::into_server).collect();
            let known = self.0.entry(upstream.clone()).or_default();
            if known.servers != servers {
                known.servers.clone_from(&servers);
                known.completed = None;
                changed.push((upstream, servers));
            }
        }
        changed
    }

    /// The configuration with the servers of its upstreams; those of other upstreams are forgotten.
    pub(crate) fn complete(&mut self, config: &mut Config) {
        let mut before = std::mem::take(&mut self.0);
        config.replace_upstreams(|upstream| {
            let mut known = before.remove(&upstream.name).unwrap_or_default();
            let completed = match known.completed.take() {
                Some((declared, completed)) if Arc::ptr_eq(&declared, upstream) => completed,
                _ => Arc::new(upstream.with_servers(known.servers.clone())),
            };
            known.completed = Some((Arc::clone(upstream), Arc::clone(&completed)));
            self.0.insert(upstream.name.clone(), known);
            completed
        });
    }
}
