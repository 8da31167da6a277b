//! All sources: a task for each upstream that has one, what is believed of each, and the sets that go out. A new config leaves the
//! sources that it does not change alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};
use weir_config::{Config, DiscoverySettings, Dns, RouteSource, ServerSource};

use crate::dns::{DnsQuestion, DnsResolvers};
use crate::report::{Reporter, SourceMessage};
use crate::route_sources::{FollowedRoutes, FragmentSet};
use crate::server_set::ServerSet;
use crate::source_state::SourceState;
use crate::state_file::StoredUpstream;
use crate::xds::{FollowedResource, XdsClient};
use crate::{clock, consul, dns, etcd, file_source, state_file};

/// The state file is written this often at most.
const STATE_INTERVAL: Duration = Duration::from_secs(1);

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
    pub fn of(config: &Config) -> Self {
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

/// Follows every config, and sends the servers of each upstream whenever they or what is said of them change. Ends when `configs` or `sets`
/// does; then all sources end, too.
pub async fn run(mut configs: UnboundedReceiver<DiscoveryConfig>, output: DiscoveryOutput) {
    let DiscoveryOutput { servers: sets, fragments } = output;
    let mut route_sources = FollowedRoutes::new(fragments);
    let (reports, mut reported) = unbounded_channel();
    let mut followed_sources = FollowedSources::new(reports);
    loop {
        let due = followed_sources.due();
        tokio::select! {
            config = configs.recv() => match config {
                Some(config) => {
                    route_sources.follow(&config.route_sources, &config.settings);
                    followed_sources.follow(config);
                }
                None => break,
            },
            Some(report) = reported.recv() => followed_sources.hear(report),
            () = tokio::time::sleep_until(due.unwrap_or_else(clock::now).into()), if due.is_some() => {
                for set in followed_sources.take() {
                    if sets.send(set).is_err() {
                        return followed_sources.store().await;
                    }
                }
                if followed_sources.is_store_due() {
                    followed_sources.store().await;
                }
            }
        }
    }
    followed_sources.store().await;
}

/// A source that is followed.
struct FollowedSource {
    /// Tells it from an earlier one of the same upstream, of which a report may still be on its way.
    id: u64,
    source: Arc<ServerSource>,
    state: SourceState,
    task: AbortHandle,
}

impl Drop for FollowedSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct FollowedSources {
    reports: UnboundedSender<SourceMessage>,
    /// By upstream.
    sources: HashMap<Box<str>, FollowedSource>,
    /// The upstreams with something to do, now or later: few of many.
    pending: HashSet<Box<str>>,
    next_id: u64,
    settings: DiscoverySettings,
    dns: Dns,
    resolvers: Option<Result<Arc<DnsResolvers>, Box<str>>>,
    xds: Option<XdsClient>,
    /// What is in the state file, or was when it was read.
    remembered: BTreeMap<Box<str>, StoredUpstream>,
    state_file: Option<PathBuf>,
    store_at: Option<Instant>,
    store_fails: bool,
}

impl FollowedSources {
    fn new(reports: UnboundedSender<SourceMessage>) -> Self {
        Self {
            reports,
            sources: HashMap::new(),
            pending: HashSet::new(),
            next_id: 0,
            settings: DiscoverySettings::default(),
            dns: Dns::default(),
            resolvers: None,
            xds: None,
            remembered: BTreeMap::new(),
            state_file: None,
            store_at: None,
            store_fails: false,
        }
    }

    fn follow(&mut self, config: DiscoveryConfig) {
        let mut before = std::mem::take(&mut self.sources);
        if self.state_file != config.settings.state_file {
            self.state_file.clone_from(&config.settings.state_file);
            self.remembered = self.state_file.as_deref().map(state_file::read).unwrap_or_default();
        }
        // Sources with other settings begin anew, with what is known of them.
        if self.settings != config.settings || self.dns != config.dns {
            self.remember(&before);
            before.clear();
            (self.resolvers, self.xds) = (None, None);
        }
        (self.settings, self.dns) = (config.settings, config.dns);
        for (upstream, source) in config.sources {
            let kept = before.remove(&upstream).filter(|kept| *kept.source == *source);
            let followed = kept.unwrap_or_else(|| self.start(&upstream, source));
            self.pending.insert(upstream.clone());
            self.sources.insert(upstream, followed);
        }
    }

    fn remember(&mut self, sources: &HashMap<Box<str>, FollowedSource>) {
        for (upstream, followed) in sources {
            if let Some((servers, said_at)) = followed.state.known() {
                let known = StoredUpstream::new(followed.state.source(), servers, said_at);
                self.remembered.insert(upstream.clone(), known);
            }
        }
    }

    fn start(&mut self, upstream: &str, source: Arc<ServerSource>) -> FollowedSource {
        let name: Box<str> = source.to_string().into();
        let mut state = SourceState::new(upstream.into(), name.clone(), self.settings.empty_grace);
        let known = self.remembered.get(upstream).filter(|known| known.source == name);
        if let Some((servers, said_at)) = known.and_then(StoredUpstream::servers) {
            state.remember(servers, said_at, clock::now());
        }
        let id = self.next_id;
        self.next_id += 1;
        let reporter = Reporter { upstream: upstream.into(), id, reports: self.reports.clone() };
        let task = self.start_task(&source, reporter).abort_handle();
        FollowedSource { id, source, state, task }
    }

    fn start_task(&mut self, source: &ServerSource, reporter: Reporter) -> JoinHandle<()> {
        let question = match source {
            ServerSource::File(path) => return tokio::spawn(file_source::follow(path.clone(), reporter)),
            ServerSource::Consul(service) => {
                return tokio::spawn(consul::follow(service.clone(), self.settings.consul.clone(), reporter));
            }
            ServerSource::Etcd(prefix) => {
                return tokio::spawn(etcd::follow(prefix.clone(), self.settings.etcd.clone(), reporter));
            }
            ServerSource::Cds(name) => {
                return self.follow_xds(FollowedResource::Cluster(name.clone()), reporter);
            }
            ServerSource::Eds(name) => {
                return self.follow_xds(FollowedResource::Assignment(name.clone()), reporter);
            }
            ServerSource::Dns { host, port } => DnsQuestion::Addresses { host: host.clone(), port: *port },
            ServerSource::Srv(name) => DnsQuestion::Srv(name.clone()),
        };
        let dns = &self.dns;
        let new_resolvers = || dns::resolvers(dns).map_err(|error| error.to_string().into());
        match self.resolvers.get_or_insert_with(new_resolvers) {
            Ok(resolvers) => {
                tokio::spawn(dns::follow(question, self.dns.clone(), Arc::clone(resolvers), reporter))
            }
            Err(why) => {
                reporter.failed(&format!("names cannot be resolved: {why} (see the section [dns])"));
                tokio::spawn(async {})
            }
        }
    }

    /// All upstreams of the control plane share one stream.
    fn follow_xds(&mut self, follows: FollowedResource, reporter: Reporter) -> JoinHandle<()> {
        let control_plane = &self.settings.xds;
        let client = self.xds.get_or_insert_with(|| XdsClient::start(control_plane.clone()));
        client.follow(follows, reporter)
    }

    fn hear(&mut self, message: SourceMessage) {
        let followed = self.sources.get_mut(&message.upstream).filter(|followed| followed.id == message.id);
        if let Some(followed) = followed {
            followed.state.hear(message.report, clock::now(), clock::date());
            self.pending.insert(message.upstream);
        }
    }

    /// When there is something to do.
    fn due(&self) -> Option<Instant> {
        let pending = self.pending.iter().filter_map(|upstream| self.sources.get(upstream));
        let states = pending.filter_map(|followed| followed.state.due());
        states.chain(self.store_at).min()
    }

    /// The sets that are to be sent now.
    fn take(&mut self) -> Vec<ServerSet> {
        let (now, date) = (clock::now(), clock::date());
        let (sources, mut sets) = (&mut self.sources, Vec::new());
        self.pending.retain(|upstream| {
            let Some(followed) = sources.get_mut(upstream) else { return false };
            sets.extend(followed.state.take(now, date));
            followed.state.due().is_some()
        });
        for set in &sets {
            log(set);
        }
        if self.state_file.is_some() && !sets.is_empty() {
            self.store_at.get_or_insert(now + STATE_INTERVAL);
        }
        sets
    }

    fn is_store_due(&self) -> bool {
        self.store_at.is_some_and(|at| at <= clock::now())
    }

    /// Writes the state file, if anything has changed.
    async fn store(&mut self) {
        let (Some(path), Some(_)) = (self.state_file.clone(), self.store_at.take()) else { return };
        let mut upstreams = BTreeMap::new();
        for (upstream, followed) in &self.sources {
            let known = match followed.state.known() {
                Some((servers, said_at)) => StoredUpstream::new(followed.state.source(), servers, said_at),
                None => continue,
            };
            upstreams.insert(upstream.clone(), known);
        }
        let written = tokio::task::spawn_blocking(move || {
            state_file::write(&path, upstreams).map_err(|error| (path, error))
        });
        let failure = written.await.ok().and_then(Result::err);
        if let Some((path, error)) = failure.as_ref().filter(|_| !self.store_fails) {
            tracing::warn!(file = %path.display(), %error, "the last known servers cannot be stored");
        }
        self.store_fails = failure.is_some();
    }
}

fn log(set: &ServerSet) {
    let ServerSet { upstream, servers, origin } = set;
    let (upstream, source, servers) = (&**upstream, &*origin.source, servers.len());
    match &origin.problem {
        Some(problem) if servers == 0 => {
            tracing::warn!(upstream, source, %problem, "the source of servers has a problem, and none were known before: it is asked again and again");
        }
        Some(problem) => {
            tracing::warn!(upstream, source, servers, %problem, "the source of servers has a problem; the last known servers stay in use");
        }
        None if origin.remark.is_some() => {
            let remark = origin.remark.as_deref().unwrap_or_default();
            tracing::info!(
                upstream,
                source,
                servers,
                remark,
                "the source of servers says what Weir does not follow"
            );
        }
        // The control plane logs who came and went.
        None => tracing::debug!(upstream, source, servers, "the source has named the servers of an upstream"),
    }
}
