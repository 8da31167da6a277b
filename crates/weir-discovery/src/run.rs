//! All sources: the configs that come in, the tasks that follow them, and the sets that go out. A new config leaves the sources that it does not
//! change alone.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_config::{Config, DiscoverySettings, Dns, RouteSource, ServerSource};

use crate::clock;
use crate::last_known::believed_store::FragmentSet;
use crate::last_known::names_in_use::NamesInUse;
use crate::last_known::remembered_servers::RememberedServers;
use crate::last_known::report::SourceMessage;
use crate::last_known::source_state::UnansweredSince;
use crate::route_sources::FollowedRoutes;
use crate::server_set::ServerSet;
use crate::server_sources::FollowedSources;

/// What is to be followed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiscoveryConfig {
    /// Upstreams and where their servers come from.
    pub sources: Vec<(Box<str>, Arc<ServerSource>)>,
    /// The stores whose keys hold routes.
    pub route_sources: Vec<RouteSource>,
    /// What all sources share.
    pub settings: DiscoverySettings,
    /// How names are resolved.
    pub dns: Dns,
}

impl DiscoveryConfig {
    /// The sources of a config.
    pub fn new(config: &Config) -> Self {
        let sources = config.upstreams.iter().filter_map(|upstream| {
            let source = upstream.discovery.as_ref()?;
            Some((upstream.name.clone(), Arc::clone(source)))
        });
        let route_sources = config.route_sources.clone();
        Self {
            sources: sources.collect(),
            route_sources,
            settings: config.discovery.clone(),
            dns: config.dns.clone(),
        }
    }
}

/// Where what sources say goes.
#[derive(Debug)]
pub struct DiscoveryOutput {
    /// Servers of upstreams.
    pub servers: UnboundedSender<ServerSet>,
    /// Keys that hold routes.
    pub fragments: UnboundedSender<FragmentSet>,
}

/// Follows every config, and sends the servers of each upstream whenever they or what is said of them change; what is `known` is in use until
/// sources answer. The addresses of `names` are stored beside them. Ends when `configs` or the receiver of servers does; then all sources end, too.
pub async fn run(
    configs: UnboundedReceiver<DiscoveryConfig>,
    known: RememberedServers,
    names: NamesInUse,
    output: DiscoveryOutput,
) {
    let (reports, reported) = unbounded_channel();
    let discovery = Mutex::new(Discovery {
        configs,
        config: None,
        reported,
        servers: output.servers,
        followed_routes: FollowedRoutes::new(output.fragments),
        followed_sources: FollowedSources::new(reports, known, names.clone()),
        names,
    });
    weir_tasks::keep("all sources", || async { discovery.lock().await.run().await }).await;
}

/// What outlives a panic in the task of all sources.
struct Discovery {
    configs: UnboundedReceiver<DiscoveryConfig>,
    /// The one that is followed.
    config: Option<DiscoveryConfig>,
    reported: UnboundedReceiver<SourceMessage>,
    servers: UnboundedSender<ServerSet>,
    followed_routes: FollowedRoutes,
    followed_sources: FollowedSources,
    names: NamesInUse,
}

impl Discovery {
    /// Begun again, it has ended by a panic: all sources of servers are asked anew, with what is known of them.
    async fn run(&mut self) {
        if self.config.is_some() {
            self.followed_sources.forget_tasks(UnansweredSince::Panic);
            self.follow();
        }
        loop {
            let due = self.followed_sources.due();
            tokio::select! {
                config = self.configs.recv() => {
                    self.config = config;
                    if self.config.is_none() {
                        break;
                    }
                    self.follow();
                }
                Some(report) = self.reported.recv() => self.followed_sources.hear(report),
                () = self.names.wait_for_change() => self.followed_sources.look_at_names(),
                () = tokio::time::sleep_until(due.unwrap_or_else(clock::now).into()), if due.is_some() => {
                    for set in self.followed_sources.take() {
                        if self.servers.send(set).is_err() {
                            return self.followed_sources.store().await;
                        }
                    }
                    if self.followed_sources.is_store_due() {
                        self.followed_sources.store().await;
                    }
                }
            }
        }
        self.followed_sources.store().await;
    }

    fn follow(&mut self) {
        let Some(config) = &self.config else { return };
        self.followed_routes.follow(&config.route_sources, &config.settings);
        self.followed_sources.follow(&config.sources, &config.settings, &config.dns);
    }
}
