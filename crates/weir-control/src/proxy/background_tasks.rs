//! The tasks on the control thread for each listener, upstream and server: one task for each, from its first config to its last; and one
//! for the ejections of all upstreams.
//!
//! A reload does not disturb unchanged parts: a name that was just resolved is not resolved again, a comparison that has begun
//! continues. Must not hold a snapshot: it would never be freed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, Notify};
use weir_config::Dns;
use weir_tasks::OwnedTask;

use super::map_files;
use crate::cluster::limit_exchange;
use crate::servers::dns_names::{Name, NameResolver};
use crate::servers::ejection;
use crate::servers::ejection::ReviewedPlans;
use crate::servers::requested_names::NamesTask;
use crate::start_error::UnresolvedName;
use crate::tls::certificates;
use crate::tls::credentials;
use crate::tls::credentials::CredentialKind;
use crate::workers::commands::CommandSender;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::state::routes::access::{LiveFile, LiveKeys};
use weir_proxy::state::servers::due_upstreams::DueUpstreams;
use weir_proxy::state::snapshot::{CurrentSnapshot, Snapshot, UpstreamPlan};

/// What the tasks are to follow.
pub(crate) enum TaskConfig {
    /// Another config; the sender is dropped when every new name has been asked for once.
    Snapshot(Arc<Snapshot>, Sender<()>),
    /// Other servers of some upstreams; the sender is dropped when every new name of which no address is known has been asked for once.
    Servers(Vec<Arc<UpstreamPlan>>, Sender<()>),
    /// Names that are to be resolved once.
    Lookups(NameLookups),
}

/// Names of servers that are not in use yet.
pub(crate) struct NameLookups {
    pub(crate) names: Vec<Name>,
    pub(crate) dns: Dns,
    /// Where those go that cannot be resolved; dropped when every one has been asked for.
    pub(crate) failed: Sender<UnresolvedName>,
}

/// Follows every config, until the task is dropped. After a panic it begins with the config in use.
pub(crate) async fn run(
    configs: UnboundedReceiver<TaskConfig>,
    due_upstreams: Arc<DueUpstreams>,
    workers: Arc<WorkerQueries>,
    current: CurrentSnapshot,
    names_changed: Arc<Notify>,
    commands: CommandSender,
) {
    let (reviewed, next_reviewed) = unbounded_channel();
    let _review = OwnedTask::from(tokio::spawn(ejection::review_ejections(next_reviewed, due_upstreams)));
    let background = Mutex::new(BackgroundTasks {
        configs,
        is_begun: false,
        current,
        reviewed,
        tasks: HashMap::new(),
        names: HashMap::new(),
        requested: HashMap::new(),
        resolver: None,
        names_changed,
        commands,
        workers,
    });
    weir_tasks::keep("following the config", || async { background.lock().await.run().await }).await;
}

/// The object of a task: the address of something that it holds, which is unique as long as the task holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TaskKey {
    Certificates(usize),
    UpstreamTls(usize),
    Credentials(usize),
    Keys(usize),
    Store(usize),
    Map(usize),
}

fn address<T>(thing: &Arc<T>) -> usize {
    Arc::as_ptr(thing).addr()
}

/// The tasks that run.
struct BackgroundTasks {
    configs: UnboundedReceiver<TaskConfig>,
    is_begun: bool,
    current: CurrentSnapshot,
    tasks: HashMap<TaskKey, OwnedTask>,
    /// Those that resolve the names of servers, by upstream and by the address of what they hold of the server.
    names: HashMap<Box<str>, HashMap<usize, OwnedTask>>,
    /// Where the upstreams go that are judged.
    reviewed: UnboundedSender<ReviewedPlans>,
    resolver: Option<Arc<NameResolver>>,
    /// Those that look up the names that requests give, by the address of the table of those.
    requested: HashMap<usize, OwnedTask>,
    /// Told when a name has other addresses.
    names_changed: Arc<Notify>,
    /// Where what is looked up is put into use.
    commands: CommandSender,
    /// Those that fetch keys.
    workers: Arc<WorkerQueries>,
}

impl BackgroundTasks {
    async fn run(&mut self) {
        // The tasks of parts that it had not come to when it panicked have ended.
        if std::mem::replace(&mut self.is_begun, true) {
            let (asked, _nothing_waits) = channel();
            self.follow(&self.current.load_full(), &asked);
        }
        while let Some(config) = self.configs.recv().await {
            match config {
                TaskConfig::Snapshot(snapshot, asked) => self.follow(&snapshot, &asked),
                TaskConfig::Servers(plans, asked) => self.follow_servers(plans, &asked),
                TaskConfig::Lookups(lookups) => self.look_up(lookups),
            }
        }
    }

    fn follow(&mut self, snapshot: &Snapshot, asked: &Sender<()>) {
        let mut before = std::mem::take(&mut self.tasks);
        if self.resolver.as_ref().is_none_or(|resolver| *resolver.dns() != snapshot.dns) {
            self.names.clear();
            self.requested.clear();
            self.resolver =
                Some(Arc::new(NameResolver::new(snapshot.dns.clone(), self.names_changed.clone())));
        }
        let mut names = std::mem::take(&mut self.names);
        self.follow_requested(snapshot);
        for plan in &snapshot.listeners {
            if let Some(server_config) = &plan.tls {
                let key = TaskKey::Certificates(address(server_config));
                let start = || {
                    let plan = Arc::clone(plan);
                    OwnedTask::keep("certificates of a listener", move || {
                        certificates::keep_listener_current(Arc::clone(&plan))
                    })
                };
                let task = before.remove(&key).unwrap_or_else(start);
                self.tasks.insert(key, task);
            }
        }
        self.follow_credentials(snapshot, &mut before);
        self.follow_maps(snapshot, &mut before);
        for store in &snapshot.stores {
            let key = TaskKey::Store(address(store));
            let start = || {
                let store = Arc::clone(store);
                OwnedTask::keep("limits that nodes share", move || {
                    limit_exchange::keep_exchanging(Arc::clone(&store))
                })
            };
            let task = before.remove(&key).unwrap_or_else(start);
            self.tasks.insert(key, task);
        }
        for plan in &snapshot.upstreams {
            if let Some(client_config) = &plan.tls {
                let key = TaskKey::UpstreamTls(address(client_config));
                let start = || {
                    let plan = Arc::clone(plan);
                    OwnedTask::keep("certificates of an upstream", move || {
                        certificates::keep_upstream_current(Arc::clone(&plan))
                    })
                };
                let task = before.remove(&key).unwrap_or_else(start);
                self.tasks.insert(key, task);
            }
            let known = names.remove(&plan.config.name).unwrap_or_default();
            self.resolve(plan, known, asked);
        }
        self.review(snapshot);
    }

    /// Follows other servers of some upstreams.
    fn follow_servers(&mut self, plans: Vec<Arc<UpstreamPlan>>, asked: &Sender<()>) {
        for plan in &plans {
            let known = self.names.remove(&plan.config.name).unwrap_or_default();
            self.resolve(plan, known, asked);
        }
        let _ended = self.reviewed.send(ReviewedPlans::Changed(plans));
    }

    /// Resolves names once, each on its own.
    fn look_up(&self, NameLookups { names, dns, failed }: NameLookups) {
        let known = self.resolver.clone().filter(|resolver| *resolver.dns() == dns);
        let resolver = known.unwrap_or_else(|| Arc::new(NameResolver::new(dns, self.names_changed.clone())));
        for name in names {
            let (resolver, failed) = (Arc::clone(&resolver), failed.clone());
            tokio::spawn(async move {
                if let Err(unresolved) = name.resolve(&resolver).await {
                    let _gone = failed.send(unresolved);
                }
            });
        }
    }

    /// Follows the files of users and keys of all routes, and the keys that servers have.
    fn follow_credentials(&mut self, snapshot: &Snapshot, before: &mut HashMap<TaskKey, OwnedTask>) {
        for listener in &snapshot.listeners {
            for access in listener.route_plans.iter().filter_map(|route| route.access.as_ref()) {
                self.follow_file(access.users.as_ref(), &credentials::USERS, before);
                if let Some(LiveKeys::File(keys)) = &access.keys {
                    self.follow_file(Some(keys), &credentials::KEYS, before);
                }
            }
        }
        for keys in &snapshot.keys {
            let key = TaskKey::Keys(address(keys));
            let start = || {
                let (keys, workers) = (Arc::clone(keys), Arc::clone(&self.workers));
                OwnedTask::keep("keys of a server", move || {
                    credentials::keep_fetched(Arc::clone(&keys), Arc::clone(&workers))
                })
            };
            let task = before.remove(&key).unwrap_or_else(start);
            self.tasks.insert(key, task);
        }
    }

    /// Follows the files of maps.
    fn follow_maps(&mut self, snapshot: &Snapshot, before: &mut HashMap<TaskKey, OwnedTask>) {
        for map in &snapshot.maps {
            let Some(definition) = map.map().filter(|definition| definition.sources().next().is_some())
            else {
                continue;
            };
            let (Some(live), Some(reload)) = (definition.live(), definition.reload) else { continue };
            let key = TaskKey::Map(address(live));
            let start = || {
                let map = map.clone();
                OwnedTask::keep("files of a map", move || map_files::keep_current(map.clone(), reload))
            };
            let task = before.remove(&key).unwrap_or_else(start);
            self.tasks.insert(key, task);
        }
    }

    fn follow_file<T: PartialEq + Send + Sync + 'static>(
        &mut self,
        live: Option<&Arc<LiveFile<T>>>,
        kind: &CredentialKind<T>,
        before: &mut HashMap<TaskKey, OwnedTask>,
    ) {
        let Some(live) = live else { return };
        let Some((file, reload)) = &live.watched else { return };
        let key = TaskKey::Credentials(address(live));
        let start = || {
            let (live, file, reload, kind) = (Arc::clone(live), Arc::clone(file), *reload, kind.clone());
            OwnedTask::keep("file of credentials", move || {
                credentials::keep_current(Arc::clone(&live), Arc::clone(&file), reload, kind.clone())
            })
        };
        self.tasks.entry(key).or_insert_with(|| before.remove(&key).unwrap_or_else(start));
    }

    /// Has the names of the servers resolved; `known` are the tasks that do so by now.
    fn resolve(&mut self, plan: &UpstreamPlan, mut known: HashMap<usize, OwnedTask>, asked: &Sender<()>) {
        let Some(resolver) = &self.resolver else { return };
        let mut tasks = HashMap::new();
        for server in (0..plan.config.servers.len()).filter(|server| plan.leaves_at[*server].is_none()) {
            let Some(name) = Name::new(plan, server) else { continue };
            let key = address(&plan.live[server]);
            let start = || {
                let resolver = Arc::clone(resolver);
                // Only the first one is waited for, and only where nothing is known, or from a file at most.
                let live = &plan.live[server];
                let is_awaited = live.endpoints.load().is_empty() || live.has_stored_endpoints();
                let mut asked = is_awaited.then(|| asked.clone());
                OwnedTask::keep("name of a server", move || {
                    name.clone().keep_resolved(Arc::clone(&resolver), asked.take())
                })
            };
            let task = known.remove(&key).unwrap_or_else(start);
            tasks.insert(key, task);
        }
        if !tasks.is_empty() {
            self.names.insert(plan.config.name.clone(), tasks);
        }
    }

    /// Has the names looked up that requests give.
    fn follow_requested(&mut self, snapshot: &Snapshot) {
        let Some(resolver) = &self.resolver else { return };
        let mut before = std::mem::take(&mut self.requested);
        for plan in snapshot.upstreams.iter().filter(|plan| plan.is_dynamic()) {
            let Some(names) = plan.named.as_ref().map(|named| &named.names) else { continue };
            let key = address(names);
            let start = || {
                let task = NamesTask {
                    upstream: plan.config.name.clone(),
                    names: Arc::clone(names),
                    current: Arc::clone(&self.current),
                    resolver: Arc::clone(resolver),
                    commands: self.commands.clone(),
                };
                OwnedTask::keep("names that requests give", move || task.clone().run())
            };
            let task = before.remove(&key).unwrap_or_else(start);
            self.requested.insert(key, task);
        }
    }

    /// Starts the review of every upstream whose servers may be ejected, or that has a panic threshold.
    fn review(&self, snapshot: &Snapshot) {
        let plans = snapshot.upstreams.iter().filter(|plan| ejection::is_reviewed(plan));
        let _ended = self.reviewed.send(ReviewedPlans::All(plans.cloned().collect()));
    }
}
