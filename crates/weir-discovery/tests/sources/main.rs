//! Sources against real servers of files, DNS, Consul and etcd on this machine: what reaches the channel of sets.

#![expect(clippy::unwrap_used, reason = "functions beside the tests are parts of them")]

mod files;
mod dns;
mod srv_shares;
mod consul;
mod etcd;
mod routes;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_config::{RouteSource, RouteStore, ServerSource};
use weir_discovery::{
    DiscoveryConfig, DiscoveryOutput, FragmentSet, NamesInUse, RememberedServers, ServerSet,
};

/// Far more than any of these takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// All sources, with one upstream, `app`.
struct FollowedSource {
    configs: Option<UnboundedSender<DiscoveryConfig>>,
    config: DiscoveryConfig,
    sets: UnboundedReceiver<ServerSet>,
    fragments: UnboundedReceiver<FragmentSet>,
    task: tokio::task::JoinHandle<()>,
}

impl FollowedSource {
    fn start(source: ServerSource, change: impl FnOnce(&mut DiscoveryConfig)) -> Self {
        let sources = vec![("app".into(), Arc::new(source))];
        Self::start_all(DiscoveryConfig { sources, ..DiscoveryConfig::default() }, change)
    }

    /// One store of routes, `team`.
    fn start_routes(store: RouteStore, change: impl FnOnce(&mut DiscoveryConfig)) -> Self {
        let route_sources = vec![RouteSource::new("team", store, None)];
        Self::start_all(DiscoveryConfig { route_sources, ..DiscoveryConfig::default() }, change)
    }

    fn start_all(mut config: DiscoveryConfig, change: impl FnOnce(&mut DiscoveryConfig)) -> Self {
        config.dns.ttl_min = Duration::from_millis(20);
        change(&mut config);
        let (configs, next_configs) = unbounded_channel();
        let (sets_sender, sets) = unbounded_channel();
        let (fragments_sender, fragments) = unbounded_channel();
        let output = DiscoveryOutput { servers: sets_sender, fragments: fragments_sender };
        configs.send(config.clone()).unwrap();
        let task = tokio::spawn(weir_discovery::run(
            next_configs,
            RememberedServers::default(),
            NamesInUse::default(),
            output,
        ));
        Self { configs: Some(configs), config, sets, fragments, task }
    }

    /// The next set that is as wanted; others before it are dropped.
    async fn until(&mut self, what: &str, mut wanted: impl FnMut(&ServerSet) -> bool) -> ServerSet {
        let mut seen = Vec::new();
        let search = async {
            while let Some(set) = self.sets.recv().await {
                if wanted(&set) {
                    return Some(set);
                }
                seen.push(set);
            }
            None
        };
        let found = tokio::time::timeout(PATIENCE, search).await.ok().flatten();
        found.unwrap_or_else(|| panic!("no set {what}; there were {seen:#?}"))
    }

    /// The next set with these servers, which is not stale.
    async fn until_servers(&mut self, servers: &[&str]) -> ServerSet {
        self.until(&format!("with {servers:?}"), |set| !set.origin.is_stale && addresses(set) == servers)
            .await
    }

    async fn until_problem(&mut self, part: &str) -> ServerSet {
        let has = |set: &ServerSet| set.origin.problem.as_ref().is_some_and(|problem| problem.contains(part));
        self.until(&format!("with the problem {part:?}"), has).await
    }

    /// The next keys of the store of routes, with their texts; problems before them are dropped.
    async fn next_fragments(&mut self) -> Vec<(String, String)> {
        let search = async {
            loop {
                let set = self.fragments.recv().await.unwrap();
                assert_eq!(&*set.source, "team");
                if let Some(fragments) = set.fragments {
                    return fragments;
                }
            }
        };
        let fragments = tokio::time::timeout(PATIENCE, search).await.expect("the store says its keys");
        let text = |text: Result<Arc<str>, Box<str>>| {
            text.map_or_else(|why| why.to_string(), |text| text.to_string())
        };
        fragments.into_iter().map(|(key, value)| (key.to_string(), text(value))).collect()
    }

    /// The next problem of the store of routes with this text; what is said before it is dropped.
    async fn until_route_problem(&mut self, part: &str) {
        let has = |set: &FragmentSet| set.problem.as_ref().is_some_and(|problem| problem.contains(part));
        let search = async { while !has(&self.fragments.recv().await.unwrap()) {} };
        tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("no problem {part:?}"));
    }

    async fn stop(mut self) {
        drop(self.configs.take());
        tokio::time::timeout(PATIENCE, &mut self.task).await.expect("it ends").unwrap();
    }
}

fn addresses(set: &ServerSet) -> Vec<String> {
    set.servers.iter().map(|server| server.address.to_string()).collect()
}
