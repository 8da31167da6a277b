//! Sources of servers: a task for each upstream that has one. What is believed of one is decided in `source_state`; what is known of all is
//! stored in `state_file`, with the addresses of names.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinHandle};
use weir_config::{DiscoverySettings, Dns, ServerSource};
use weir_tasks::RestartPauses;

use crate::clock;
use crate::last_known::names_in_use::{KnownAddresses, NamesInUse};
use crate::last_known::remembered_servers::RememberedServers;
use crate::last_known::report::{Reporter, SourceMessage};
use crate::last_known::source_state::{SourceState, UnansweredSince};
use crate::last_known::state_file;
use crate::last_known::state_file::{StoredState, StoredUpstream};
use crate::server_set::ServerSet;
use crate::sources::dns::{DnsQuestion, SharedResolvers};
use crate::sources::xds::{FollowedResource, XdsClient};
use crate::sources::{consul, dns, etcd, file_source};

/// The state file is written this often at most.
const STATE_INTERVAL: Duration = Duration::from_secs(1);

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

/// All sources of servers that are followed.
pub(crate) struct FollowedSources {
    reports: UnboundedSender<SourceMessage>,
    /// By upstream.
    sources: HashMap<Box<str>, FollowedSource>,
    /// The upstreams with something to do, now or later: few of many.
    pending: HashSet<Box<str>>,
    next_id: u64,
    settings: DiscoverySettings,
    dns: Dns,
    resolvers: Option<Arc<SharedResolvers>>,
    xds: Option<XdsClient>,
    /// What is in the state file, or was when it was read, and what tasks that have ended had heard.
    remembered: BTreeMap<Box<str>, (StoredUpstream, UnansweredSince)>,
    /// The names of servers in use.
    names: NamesInUse,
    /// Their addresses that the state file has.
    stored_names: KnownAddresses,
    state_file: Option<PathBuf>,
    store_at: Option<Instant>,
    store_fails: bool,
    store_pauses: RestartPauses,
}

impl FollowedSources {
    pub(crate) fn new(
        reports: UnboundedSender<SourceMessage>,
        known: RememberedServers,
        names: NamesInUse,
    ) -> Self {
        Self {
            reports,
            sources: HashMap::new(),
            pending: HashSet::new(),
            next_id: 0,
            settings: DiscoverySettings::default(),
            dns: Dns::default(),
            resolvers: None,
            xds: None,
            remembered: known.upstreams,
            names,
            stored_names: known.names,
            state_file: known.state_file,
            store_at: None,
            store_fails: false,
            store_pauses: RestartPauses::default(),
        }
    }

    /// Goes over to the sources of a config; those that it does not change go on.
    pub(crate) fn follow(
        &mut self,
        sources: &[(Box<str>, Arc<ServerSource>)],
        settings: &DiscoverySettings,
        dns: &Dns,
    ) {
        if self.state_file != settings.state_file {
            self.state_file.clone_from(&settings.state_file);
            let stored = RememberedServers::stored(settings);
            (self.remembered, self.stored_names) = (stored.upstreams, stored.names);
        }
        // Sources with other settings begin anew, with what is known of them.
        if self.settings != *settings || self.dns != *dns {
            self.forget_tasks(UnansweredSince::Settings);
        }
        (self.settings, self.dns) = (settings.clone(), dns.clone());
        let wanted: HashMap<&str, &ServerSource> =
            sources.iter().map(|(upstream, source)| (&**upstream, &**source)).collect();
        // In place: a panic on the way takes no other source along.
        self.sources.retain(|upstream, followed| wanted.get(&**upstream) == Some(&&*followed.source));
        for (upstream, source) in sources {
            if !self.sources.contains_key(upstream) {
                let started = self.start(upstream, Arc::clone(source));
                self.sources.insert(upstream.clone(), started);
            }
            self.pending.insert(upstream.clone());
        }
        self.look_at_names();
    }

    /// Has the names of servers stored, if their addresses are not those of the file.
    pub(crate) fn look_at_names(&mut self) {
        let is_due = self.state_file.is_none() || self.store_at.is_some();
        if !is_due && self.names.addresses() != self.stored_names {
            self.store_soon();
        }
    }

    fn store_soon(&mut self) {
        self.store_at.get_or_insert(clock::now() + STATE_INTERVAL);
    }

    /// Ends all tasks, and remembers what they have said; sources that have answered have not `since`.
    pub(crate) fn forget_tasks(&mut self, since: UnansweredSince) {
        for (upstream, followed) in &self.sources {
            if let Some((servers, said_at)) = followed.state.known() {
                let known = StoredUpstream::new(followed.state.source(), servers, said_at);
                let since = followed.state.unanswered().unwrap_or(since);
                self.remembered.insert(upstream.clone(), (known, since));
            }
        }
        self.sources.clear();
        (self.resolvers, self.xds) = (None, None);
    }

    fn start(&mut self, upstream: &str, source: Arc<ServerSource>) -> FollowedSource {
        let name: Box<str> = source.to_string().into();
        let mut state = SourceState::new(upstream.into(), name.clone(), self.settings.empty_grace);
        let known = self.remembered.get(upstream).filter(|(known, _)| known.source == name);
        if let Some((known, since)) = known
            && let Some((servers, said_at)) = known.servers()
        {
            state.remember(servers, said_at, *since, clock::now());
        }
        let id = self.next_id;
        self.next_id += 1;
        let reporter = Reporter { upstream: upstream.into(), id, reports: self.reports.clone() };
        let task = self.start_task(&source, reporter).abort_handle();
        FollowedSource { id, source, state, task }
    }

    fn start_task(&mut self, source: &ServerSource, reporter: Reporter) -> JoinHandle<()> {
        let question = match source {
            ServerSource::File(path) => {
                let path = path.clone();
                return reporter
                    .keep("a file of servers", move |reporter| file_source::follow(path.clone(), reporter));
            }
            ServerSource::Consul(service) => {
                let (service, agent) = (service.clone(), self.settings.consul.clone());
                return reporter.keep("servers in Consul", move |reporter| {
                    consul::follow(service.clone(), agent.clone(), reporter)
                });
            }
            ServerSource::Etcd(prefix) => {
                let (prefix, cluster) = (prefix.clone(), self.settings.etcd.clone());
                return reporter.keep("servers in etcd", move |reporter| {
                    etcd::follow(prefix.clone(), cluster.clone(), reporter)
                });
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
        self.follow_dns(question, reporter)
    }

    fn follow_dns(&mut self, question: DnsQuestion, reporter: Reporter) -> JoinHandle<()> {
        let empty_grace = self.settings.empty_grace;
        let new_resolvers = || Arc::new(SharedResolvers::new(self.dns.clone()));
        let resolvers = Arc::clone(self.resolvers.get_or_insert_with(new_resolvers));
        reporter.keep("servers in DNS", move |reporter| {
            dns::follow(question.clone(), Arc::clone(&resolvers), empty_grace, reporter)
        })
    }

    /// All upstreams of the control plane share one stream.
    fn follow_xds(&mut self, follows: FollowedResource, reporter: Reporter) -> JoinHandle<()> {
        let control_plane = &self.settings.xds;
        let client = self.xds.get_or_insert_with(|| XdsClient::start(control_plane.clone()));
        client.follow(follows, reporter)
    }

    /// A report of a source; one of a task that has ended is ignored.
    pub(crate) fn hear(&mut self, message: SourceMessage) {
        let followed = self.sources.get_mut(&message.upstream).filter(|followed| followed.id == message.id);
        if let Some(followed) = followed {
            followed.state.hear(message.report, clock::now(), clock::date());
            self.pending.insert(message.upstream);
        }
    }

    /// When there is something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let pending = self.pending.iter().filter_map(|upstream| self.sources.get(upstream));
        let states = pending.filter_map(|followed| followed.state.due());
        states.chain(self.store_at).min()
    }

    /// The sets that are to be sent now.
    pub(crate) fn take(&mut self) -> Vec<ServerSet> {
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
            self.store_soon();
        }
        sets
    }

    /// Whether the state file is to be written now.
    pub(crate) fn is_store_due(&self) -> bool {
        self.store_at.is_some_and(|at| at <= clock::now())
    }

    /// Writes the state file, if anything has changed.
    pub(crate) async fn store(&mut self) {
        let (Some(path), Some(_)) = (self.state_file.clone(), self.store_at.take()) else { return };
        let mut upstreams = BTreeMap::new();
        for (upstream, followed) in &self.sources {
            let known = match followed.state.known() {
                Some((servers, said_at)) => StoredUpstream::new(followed.state.source(), servers, said_at),
                None => continue,
            };
            upstreams.insert(upstream.clone(), known);
        }
        let names = self.names.addresses();
        let stored = StoredState { upstreams, names: names.clone() };
        let written = tokio::task::spawn_blocking(move || {
            state_file::write(&path, stored).map_err(|error| (path, error))
        });
        let written = match written.await {
            Ok(written) => written,
            // Written anew after the pause; there is no panic when the event loop ends.
            Err(ended) => {
                if ended.is_panic() {
                    let pause =
                        weir_tasks::note_restart("the file of last known servers", &mut self.store_pauses);
                    self.store_at = Some(clock::now() + pause);
                }
                return;
            }
        };
        let failure = written.err();
        if let Some((path, error)) = failure.as_ref().filter(|_| !self.store_fails) {
            tracing::warn!(file = %path.display(), %error, "the last known servers cannot be stored");
        }
        self.store_fails = failure.is_some();
        if !self.store_fails {
            self.stored_names = names;
        }
    }
}

fn log(set: &ServerSet) {
    let ServerSet { upstream, servers, origin } = set;
    let (upstream, source, servers) = (&**upstream, &*origin.source, servers.len());
    match &origin.problem {
        // It is asked at this moment.
        Some(problem) if origin.is_unheard => {
            tracing::debug!(upstream, source, servers, %problem, "servers are known from before");
        }
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
