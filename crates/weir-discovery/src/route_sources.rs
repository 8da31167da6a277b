//! Stores whose keys hold routes: a task for each. What is believed of one is decided in `believed_store`; whether a text can be used by who
//! reads the config.

use std::collections::{HashMap, HashSet};

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use weir_config::{DiscoverySettings, RouteSource, RouteStore};

use crate::last_known::believed_store::{BelievedStore, FragmentSet};
use crate::sources::{consul, etcd};

/// All stores that are followed.
pub(crate) struct FollowedRoutes {
    output: UnboundedSender<FragmentSet>,
    settings: DiscoverySettings,
    followed: HashMap<Box<str>, (RouteStore, TaskOfStore)>,
    /// Those that were followed before the config that is gone over to.
    known: HashSet<Box<str>>,
}

/// A task that ends when it is dropped.
struct TaskOfStore(AbortHandle);

impl Drop for TaskOfStore {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FollowedRoutes {
    pub(crate) fn new(output: UnboundedSender<FragmentSet>) -> Self {
        let settings = DiscoverySettings::default();
        Self { output, settings, followed: HashMap::new(), known: HashSet::new() }
    }

    /// Goes over to the sources of a config; those that it does not change go on.
    pub(crate) fn follow(&mut self, sources: &[RouteSource], settings: &DiscoverySettings) {
        // After a panic on the way, the next call finds all that was known before.
        self.known.extend(self.followed.keys().cloned());
        let mut before = std::mem::take(&mut self.followed);
        if self.settings != *settings {
            before.clear();
            self.settings = settings.clone();
        }
        for source in sources {
            let kept = before.remove(&source.name).filter(|(store, _)| *store == source.store);
            let followed = kept.unwrap_or_else(|| (source.store.clone(), self.start(source)));
            self.followed.insert(source.name.clone(), followed);
        }
        self.known.clear();
    }

    fn start(&self, source: &RouteSource) -> TaskOfStore {
        // What an earlier process, or an earlier task, has left counts as known.
        let is_known = self.known.contains(&source.name);
        let had_keys = is_known || source.state_file.as_ref().is_some_and(|file| file.exists());
        let believed =
            BelievedStore::new(source.name.clone(), self.settings.empty_grace, had_keys, self.output.clone());
        let task = match source.store.clone() {
            RouteStore::Etcd(prefix) => {
                let cluster = self.settings.etcd.clone();
                believed.keep("routes in etcd", move |reporter| {
                    etcd::follow_routes(prefix.clone(), cluster.clone(), reporter)
                })
            }
            RouteStore::Consul { prefix, datacenter } => {
                let agent = self.settings.consul.clone();
                believed.keep("routes in Consul", move |reporter| {
                    consul::follow_routes(prefix.clone(), datacenter.clone(), agent.clone(), reporter)
                })
            }
        };
        TaskOfStore(task.abort_handle())
    }
}
