//! The tasks on the control thread for each listener, upstream and server: one task for each, from its first config to its last; and one
//! for the ejections of all upstreams.
//!
//! A reload does not disturb unchanged parts: a name that was just resolved is not resolved again, a comparison that has begun
//! continues. Must not hold a snapshot: it would never be freed.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use hickory_resolver::TokioResolver;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};
use weir_config::Dns;

use crate::credentials::{self, CredentialKind};
use crate::dns_names::{self, Name};
use crate::kept_tasks::{self, RestartPauses};
use crate::worker_queries::WorkerQueries;
use crate::{certificates, ejection, limit_exchange};
use weir_proxy::state::access::{LiveFile, LiveKeys};
use weir_proxy::state::due_upstreams::DueUpstreams;
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};

/// A config that the tasks are to follow.
pub(crate) struct TaskConfig {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Dropped when every new name has been asked for once.
    pub(crate) asked: Sender<()>,
}

/// Follows every config, until the task is dropped.
pub(crate) async fn run(
    mut configs: UnboundedReceiver<TaskConfig>,
    due_upstreams: Arc<DueUpstreams>,
    workers: Arc<WorkerQueries>,
) {
    let (reviewed, next_reviewed) = unbounded_channel();
    let _review = OwnedTask::from(tokio::spawn(ejection::review_ejections(next_reviewed, due_upstreams)));
    let mut background = BackgroundTasks { reviewed, tasks: HashMap::new(), resolver: None, workers };
    while let Some(TaskConfig { snapshot, asked }) = configs.recv().await {
        // The tasks of parts that it has not come to begin with the next config.
        if catch_unwind(AssertUnwindSafe(|| background.follow(&snapshot, &asked))).is_err() {
            kept_tasks::note_restart("following the config", &mut RestartPauses::default());
        }
    }
}

/// The object of a task: the address of something that it holds, which is unique as long as the task holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TaskKey {
    Name(usize),
    Certificates(usize),
    UpstreamTls(usize),
    Credentials(usize),
    Keys(usize),
    Store(usize),
}

fn address<T>(thing: &Arc<T>) -> usize {
    Arc::as_ptr(thing).addr()
}

/// The tasks that run.
struct BackgroundTasks {
    tasks: HashMap<TaskKey, OwnedTask>,
    /// Where the upstreams go that are judged.
    reviewed: UnboundedSender<Vec<Arc<UpstreamPlan>>>,
    resolver: Option<(Dns, Arc<TokioResolver>)>,
    /// Those that fetch keys.
    workers: Arc<WorkerQueries>,
}

/// A task that ends when it is dropped.
struct OwnedTask(AbortHandle);

impl OwnedTask {
    /// A task that is begun anew after a panic.
    fn keep<F: Future<Output = ()> + Send + 'static>(
        what: &'static str,
        make: impl FnMut() -> F + Send + 'static,
    ) -> Self {
        tokio::spawn(kept_tasks::keep(what, make)).into()
    }
}

impl From<JoinHandle<()>> for OwnedTask {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl BackgroundTasks {
    fn follow(&mut self, snapshot: &Snapshot, asked: &Sender<()>) {
        let mut before = std::mem::take(&mut self.tasks);
        if self.resolver.as_ref().is_none_or(|(dns, _)| *dns != snapshot.dns) {
            before.retain(|key, _| !matches!(key, TaskKey::Name(_)));
            self.resolver =
                dns_names::resolver(&snapshot.dns).map(|resolver| (snapshot.dns.clone(), resolver));
        }
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
        for store in &snapshot.stores {
            let key = TaskKey::Store(address(store));
            let start = || tokio::spawn(limit_exchange::keep_exchanging(Arc::clone(store))).into();
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
            self.resolve(plan, &mut before, asked);
        }
        self.review(snapshot);
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

    /// Has the names of the servers resolved.
    fn resolve(&mut self, plan: &UpstreamPlan, before: &mut HashMap<TaskKey, OwnedTask>, asked: &Sender<()>) {
        let Some((dns, resolver)) = &self.resolver else { return };
        for server in (0..plan.config.servers.len()).filter(|server| plan.leaves_at[*server].is_none()) {
            let Some(name) = Name::of(plan, server) else { continue };
            let key = TaskKey::Name(address(&plan.live[server]));
            let start = || {
                let (resolver, dns) = (Arc::clone(resolver), dns.clone());
                let mut first = Some(asked.clone());
                OwnedTask::keep("name of a server", move || {
                    // Only the first one is waited for.
                    let asked = first.take().unwrap_or_else(|| channel().0);
                    name.clone().keep_resolved(Arc::clone(&resolver), dns.clone(), asked)
                })
            };
            let task = before.remove(&key).unwrap_or_else(start);
            self.tasks.insert(key, task);
        }
    }

    /// Starts the review of every upstream whose servers may be ejected, or that has a panic threshold.
    fn review(&self, snapshot: &Snapshot) {
        let is_reviewed = |plan: &&Arc<UpstreamPlan>| {
            plan.config.servers.len() >= 2 || plan.config.panic_threshold.is_some()
        };
        let _ended = self.reviewed.send(snapshot.upstreams.iter().filter(is_reviewed).cloned().collect());
    }
}
