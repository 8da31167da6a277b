//! The upstreams of a configuration: each keeps its place as long as a route refers to it, since routes name upstreams by their places.

use std::collections::HashMap;
use std::sync::Arc;

use weir_config::{ConfigFault, Upstream, UpstreamIndex};

use crate::backends::Backend;
use crate::store::ObjectKey;

/// The upstreams, whose places are kept as long as they are used.
#[derive(Debug, Default)]
pub(crate) struct UpstreamTable {
    places: HashMap<Box<str>, usize>,
    entries: Vec<UpstreamEntry>,
    /// The names of the upstreams of each service: a change of its endpoints concerns no others.
    by_service: HashMap<ObjectKey, Vec<Box<str>>>,
    /// The upstreams that are new or different since the servers of all were asked for.
    fresh: Vec<Arc<Backend>>,
    /// Why some of these cannot be as they were meant to.
    faults: Vec<ConfigFault>,
}

#[derive(Debug)]
struct UpstreamEntry {
    backend: Arc<Backend>,
    upstream: Arc<Upstream>,
    is_used: bool,
}

impl UpstreamTable {
    /// All of them, in their places.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.entries.iter().map(|entry| &entry.upstream)
    }

    /// The upstreams that have become other ones since this was asked for last.
    pub(crate) fn take_fresh(&mut self) -> Vec<Arc<Backend>> {
        std::mem::take(&mut self.fresh)
    }

    /// Why upstreams that have become other ones cannot be as they were meant to: their requests are answered 503.
    pub(crate) fn take_faults(&mut self) -> Vec<ConfigFault> {
        std::mem::take(&mut self.faults)
    }

    /// Notes that one is used.
    pub(crate) fn keep(&mut self, backend: &Arc<Backend>) {
        if let Some(place) = self.places.get(&backend.name) {
            let entry = &mut self.entries[*place];
            entry.is_used = true;
            if !Arc::ptr_eq(&entry.backend, backend) && entry.backend != *backend {
                entry.upstream = upstream(backend, &mut self.faults);
                self.fresh.push(Arc::clone(backend));
            }
            entry.backend = Arc::clone(backend);
            return;
        }
        self.places.insert(backend.name.clone(), self.entries.len());
        if let Some(service) = &backend.service {
            self.by_service.entry(service.clone()).or_default().push(backend.name.clone());
        }
        let upstream = upstream(backend, &mut self.faults);
        self.entries.push(UpstreamEntry { backend: Arc::clone(backend), upstream, is_used: true });
        self.fresh.push(Arc::clone(backend));
    }

    /// Removes what is not used: the last one takes the place.
    pub(crate) fn sweep(&mut self) {
        let mut place = 0;
        while place < self.entries.len() {
            if std::mem::take(&mut self.entries[place].is_used) {
                place += 1;
                continue;
            }
            // What took the place has its own mark still.
            let removed = self.entries.swap_remove(place);
            self.places.remove(&removed.backend.name);
            self.forget_service(&removed.backend);
            if let Some(moved) = self.entries.get(place) {
                self.places.insert(moved.backend.name.clone(), place);
            }
        }
    }

    fn forget_service(&mut self, backend: &Backend) {
        let Some(service) = &backend.service else { return };
        if let Some(names) = self.by_service.get_mut(service) {
            names.retain(|name| *name != backend.name);
            if names.is_empty() {
                self.by_service.remove(service);
            }
        }
    }

    /// Those of a service.
    pub(crate) fn of_service(&self, service: &ObjectKey) -> impl Iterator<Item = &Arc<Backend>> {
        let names = self.by_service.get(service).into_iter().flatten();
        names.filter_map(|name| Some(&self.entries[*self.places.get(name)?].backend))
    }

    /// The place of one that may be used.
    pub(crate) fn index_of(&self, backend: &Backend) -> Option<UpstreamIndex> {
        self.places.get(&backend.name).copied().map(UpstreamIndex)
    }

    /// The place of one that is used.
    pub(crate) fn index(&self, backend: &Backend) -> UpstreamIndex {
        UpstreamIndex(self.places[&backend.name])
    }
}

/// The upstream of a backend; one that never has a server if that cannot be.
fn upstream(backend: &Backend, faults: &mut Vec<ConfigFault>) -> Arc<Upstream> {
    let made = backend.upstream().unwrap_or_else(|found| {
        faults.extend(found);
        Upstream::without_servers(&backend.name)
    });
    Arc::new(made)
}
