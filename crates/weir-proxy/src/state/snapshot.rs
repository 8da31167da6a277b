//! The config made ready for the data path: what every worker reads and none writes.
//!
//! Made once per config; an exchange keeps the snapshot it began with. What changes while it is in use (load, health,
//! addresses, the queue) changes through atomics or behind a lock that is taken only when all servers are full, and goes on in
//! the next snapshot: what a listener, an upstream or a server has gathered is known again by its name.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_config::{CacheStore, Config, Dns, KeyLimit, LimitStore, OwnValue, Process, TrackedTable, Upstream};
use weir_observe::prometheus::BucketBounds;

pub use super::caching::cache::{CachePlan, Purge, PurgedPart};
use super::caching::cache_keys::CachePartitions;
pub use super::limits::limit::LimitPlan;
use super::routes::access;
use super::routes::access::FetchedKeys;
use super::routes::listener::NamedPlans;
pub(crate) use super::routes::listener::SplitPlan;
pub use super::routes::listener::head_limits;
pub(crate) use super::routes::listener::{ListInUse, RequestRules};
pub use super::routes::listener::{ListenerPlan, ListenerState, MirrorPlan, RoutePlan};
use super::servers::plan_inputs::{PlanError, PlanInputs, TlsError, is_same};
pub use super::servers::upstream::{LiveServer, LiveSource, SourceStatement, UpstreamPlan};
use super::shared_list::SharedList;
use super::stores::limit_store;
use super::stores::limit_store::{LimitStorePlan, SharedAffinity};
pub use super::tables::table::TablePlan;
pub use super::tracing::traces::TracePlan;
use crate::net::clock::{self, Instant};
use crate::net::tls::issued::Issuers;

/// Everything a worker needs to know of the config. What all changes of servers leave as it is, is shared: [`SnapshotParts`].
#[derive(Debug)]
pub struct Snapshot {
    /// Which config it is: 1 for that of the start, one more with every reload.
    pub generation: u64,
    /// Which snapshot it is: one more with every reload, and with every change of servers between two.
    pub revision: u64,
    /// The upstreams, in the order of the config.
    pub upstreams: SharedList<Arc<UpstreamPlan>>,
    /// What is traced; `None`: nothing.
    pub traces: Option<TracePlan>,
    parts: Arc<SnapshotParts>,
    alive: SnapshotCount,
}

/// What only a reload changes.
#[derive(Debug)]
pub struct SnapshotParts {
    /// The `process` section of the config.
    pub process: Process,
    /// The `dns` section of the config.
    pub dns: Dns,
    /// How long servers stay whose source, or name, has none.
    pub empty_grace: Duration,
    /// The listeners, in the order of the config.
    pub listeners: Vec<Arc<ListenerPlan>>,
    /// The maps, in the order of the config.
    pub maps: Vec<OwnValue>,
    /// The limits by key, in the order of the config.
    pub limits: Vec<Arc<LimitPlan>>,
    /// The tables of counters, in the order of the config.
    pub tables: Vec<Arc<TablePlan>>,
    /// The stores in which nodes share some of them.
    pub stores: Vec<Arc<LimitStorePlan>>,
    /// The caches, in the order of the config.
    pub caches: Vec<Arc<CachePlan>>,
    /// By what routes keep their responses in them apart.
    pub(crate) partitions: CachePartitions,
    /// The keys of tokens that are fetched from servers, in the order in which routes name them.
    pub keys: Vec<Arc<FetchedKeys>>,
    /// What may refuse a request, in words: the limits, then the lists.
    pub rule_names: Vec<Box<str>>,
    /// The certificates that Weir obtains by itself, if it does for some listener.
    pub issuers: Option<Arc<Issuers>>,
    /// The places of both by name.
    listeners_by_name: HashMap<Box<str>, usize>,
    upstreams_by_name: HashMap<Box<str>, usize>,
    /// The bounds of the buckets of histograms at `/metrics`.
    pub buckets: BucketBounds,
    /// When the first one was made: where clocks begin that all workers share.
    pub(crate) epoch: Instant,
}

impl Deref for Snapshot {
    type Target = SnapshotParts;

    #[inline]
    fn deref(&self) -> &SnapshotParts {
        &self.parts
    }
}

/// The snapshot of the newest config, for the control plane.
pub type CurrentSnapshot = Arc<ArcSwap<Snapshot>>;

/// Counts a snapshot until its last user is gone.
#[derive(Debug)]
struct SnapshotCount(Arc<AtomicUsize>);

impl SnapshotCount {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for SnapshotCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The plans of the limits by key: those that stay the same are kept.
fn limits(config: &Config, inputs: &PlanInputs, before: Option<&Snapshot>) -> Vec<Arc<LimitPlan>> {
    let plan = |limit: &Arc<KeyLimit>| match before.and_then(|before| before.limit(&limit.name)) {
        Some(plan) if is_same(&plan.config, limit) => Arc::clone(plan),
        known => Arc::new(LimitPlan::new(limit, inputs.workers, known.map(|plan| &**plan))),
    };
    config.limits.iter().map(plan).collect()
}

/// The plans of the tables of counters: those that stay the same are kept.
fn tables(config: &Config, before: Option<&Snapshot>) -> Vec<Arc<TablePlan>> {
    let plan =
        |table: &Arc<TrackedTable>| match before.and_then(|before| before.table(&table.definition.name)) {
            Some(plan) if is_same(&plan.config, table) => Arc::clone(plan),
            known => Arc::new(TablePlan::new(table, known.map(|plan| &**plan))),
        };
    config.tables.iter().map(plan).collect()
}

/// The plans of the caches: those that stay the same are kept.
fn caches(config: &Config, inputs: &PlanInputs, before: Option<&Snapshot>) -> Vec<Arc<CachePlan>> {
    let plan = |cache: &Arc<CacheStore>| match before.and_then(|before| before.cache(&cache.name)) {
        Some(plan) if is_same(&plan.config, cache) => Arc::clone(plan),
        known => Arc::new(CachePlan::new(cache, inputs.workers, known.map(|plan| &**plan))),
    };
    config.caches.iter().map(plan).collect()
}

/// The maps, each with a table: that of an equal map goes on, since plans that stay the same ask that one.
fn maps(config: &Config, before: Option<&Snapshot>) -> Vec<OwnValue> {
    for map in &config.maps {
        let known = before.and_then(|before| before.maps.iter().find(|known| *known == map));
        map.map().iter().for_each(|one| _ = one.begin(known.and_then(OwnValue::map).map(|known| &**known)));
    }
    config.maps.clone()
}

fn rule_names(config: &Config) -> Vec<Box<str>> {
    let limits = config.limits.iter().map(|limit| rule_name("limit", &limit.name));
    limits.chain(config.lists.iter().map(|list| rule_name("list", &list.name))).map(Box::from).collect()
}

/// A limit or a list in words.
pub(crate) fn rule_name(kind: &str, name: &str) -> String {
    format!("{kind} `{name}`")
}

/// What upstreams share with other nodes, and the stores that have it.
fn shared_affinities(
    config: &Config,
    upstreams: &[Arc<UpstreamPlan>],
) -> Vec<(Arc<LimitStore>, SharedAffinity)> {
    let shared = |(name, store): &(Box<str>, Arc<LimitStore>)| {
        let plan = upstreams.iter().find(|plan| plan.config.name == *name)?;
        let (sharing, settings) = (plan.affinity_sharing.clone()?, plan.config.affinity.as_ref()?);
        let of_key = weir_traffic::hash_bytes(settings.cookie.as_bytes());
        let prefix = format!("{}affinity:{name}:{of_key:016x}:", store.prefix);
        Some((Arc::clone(store), SharedAffinity { prefix, expire: settings.expire()?, sharing }))
    };
    config.affinity_stores.iter().filter_map(shared).collect()
}

impl Snapshot {
    /// Makes a checked config ready that nothing went before.
    ///
    /// # Errors
    /// The listener or upstream whose TLS cannot be made ready, or the listener whose routes are tied.
    pub fn new(config: &Config, inputs: &PlanInputs) -> Result<Self, PlanError> {
        Self::make(config, inputs, None)
    }

    /// Makes a checked config ready that follows this one. Nothing changes for users of this one, and nothing is lost when
    /// the new one is dropped again.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn succeeded_by(&self, config: &Config, inputs: &PlanInputs) -> Result<Self, PlanError> {
        Self::make(config, inputs, Some(self))
    }

    fn make(config: &Config, inputs: &PlanInputs, before: Option<&Self>) -> Result<Self, PlanError> {
        let withheld = config.withheld_headers();
        let grace_ends = clock::now() + config.process.reload_grace;
        let limits = limits(config, inputs, before);
        let tables = tables(config, before);
        let caches = caches(config, inputs, before);
        let keys = access::all_of(config, before.map_or(&[], |before| &before.keys));
        let named =
            NamedPlans { limits: &limits, tables: &tables, caches: &caches, keys: &keys, written: &[] };
        let listeners = config.listeners.iter().map(|listener| {
            match before.and_then(|before| before.listener(&listener.name)).map(|(_, plan)| plan) {
                Some(plan) if plan.is_as(listener, &withheld) => Ok(Arc::clone(plan)),
                known => {
                    let known = known.map(|plan| &**plan);
                    ListenerPlan::new(listener, inputs, &withheld, named, known).map(Arc::new)
                }
            }
        });
        let upstreams = config.upstreams.iter().map(|upstream| {
            match before.and_then(|before| before.upstream(&upstream.name)).map(|(_, plan)| plan) {
                None => UpstreamPlan::new(upstream, inputs).map(Arc::new),
                Some(plan) if is_same(&plan.declared, upstream) => Ok(Arc::clone(plan)),
                Some(plan) => plan.succeeded_by(upstream, inputs, grace_ends).map(Arc::new),
            }
        });
        let upstreams = upstreams.collect::<Result<Vec<_>, TlsError>>()?;
        let count = before.map_or_else(Arc::default, |before| Arc::clone(&before.alive.0));
        let affinities = shared_affinities(config, &upstreams);
        let parts = SnapshotParts {
            process: config.process.clone(),
            dns: config.dns.clone(),
            empty_grace: config.discovery.empty_grace,
            listeners: listeners.collect::<Result<_, PlanError>>()?,
            stores: limit_store::plans(
                (&limits, &tables),
                affinities,
                before.map_or(&[], |before| &before.stores),
            ),
            limits,
            tables,
            maps: maps(config, before),
            partitions: CachePartitions::new(config),
            caches,
            keys,
            rule_names: rule_names(config),
            buckets: match &config.metrics.buckets {
                weir_config::HistogramBuckets::Auto => BucketBounds::default(),
                weir_config::HistogramBuckets::Micros(bounds) => BucketBounds::new(bounds.iter().copied()),
            },
            issuers: config
                .listeners
                .iter()
                .any(|listener| listener.tls.as_ref().is_some_and(|tls| tls.acme.is_some()))
                .then(|| Arc::clone(&inputs.issuers)),
            epoch: before.map_or_else(clock::now, |before| before.epoch),
            listeners_by_name: config.listeners.iter().map(|one| one.name.clone()).zip(0..).collect(),
            upstreams_by_name: config.upstreams.iter().map(|one| one.name.clone()).zip(0..).collect(),
        };
        Ok(Self {
            generation: before.map_or(1, |before| before.generation + 1),
            revision: before.map_or(1, |before| before.revision + 1),
            upstreams: upstreams.iter().cloned().collect(),
            traces: None,
            parts: Arc::new(parts),
            alive: SnapshotCount::new(&count),
        })
    }

    /// The same config with other servers in some upstreams, each with its place: all else is shared with this one. The cost does not
    /// depend on how many upstreams there are.
    ///
    /// # Errors
    /// The upstream whose TLS cannot be made ready for its servers.
    pub fn with_servers(
        &self,
        changed: &[(usize, Arc<Upstream>)],
        inputs: &PlanInputs,
    ) -> Result<Self, TlsError> {
        let grace_ends = clock::now() + self.process.reload_grace;
        let mut upstreams = self.upstreams.clone();
        for (place, upstream) in changed {
            let plan = upstreams[*place].succeeded_by(upstream, inputs, grace_ends)?;
            upstreams.replace(*place, Arc::new(plan));
        }
        Ok(Self {
            generation: self.generation,
            revision: self.revision + 1,
            upstreams: upstreams.iter().cloned().collect(),
            traces: self.traces.clone(),
            parts: Arc::clone(&self.parts),
            alive: SnapshotCount::new(&self.alive.0),
        })
    }

    /// The listener of this name and its place.
    pub fn listener(&self, name: &str) -> Option<(usize, &Arc<ListenerPlan>)> {
        self.listeners_by_name.get(name).map(|&place| (place, &self.listeners[place]))
    }

    /// The upstream of this name and its place.
    pub fn upstream(&self, name: &str) -> Option<(usize, &Arc<UpstreamPlan>)> {
        self.upstreams_by_name.get(name).map(|&place| (place, &self.upstreams[place]))
    }

    /// The limit by key of this name.
    pub fn limit(&self, name: &str) -> Option<&Arc<LimitPlan>> {
        self.limits.iter().find(|plan| *plan.config.name == *name)
    }

    /// The table of counters of this name.
    pub fn table(&self, name: &str) -> Option<&Arc<TablePlan>> {
        self.tables.iter().find(|plan| plan.name() == name)
    }

    /// The map of this name.
    pub fn map(&self, name: &str) -> Option<&OwnValue> {
        self.maps.iter().find(|map| map.name() == name)
    }

    /// The cache of this name.
    pub fn cache(&self, name: &str) -> Option<&Arc<CachePlan>> {
        self.caches.iter().find(|plan| *plan.config.name == *name)
    }

    /// The config that this was made from, `config`, with the parts that the plans keep, so that none is kept twice.
    pub fn share(&self, config: Config) -> Config {
        let mut parts = config.to_parts();
        parts.listeners = self.listeners.iter().map(|plan| Arc::clone(&plan.config)).collect();
        parts.upstreams = self.upstreams.iter().map(|plan| Arc::clone(&plan.declared)).collect();
        Config::from_parts(parts).unwrap_or(config)
    }

    /// The number of snapshots in use, this one and earlier or later ones.
    pub fn alive(&self) -> usize {
        self.alive.0.load(Ordering::Relaxed)
    }

    /// Gets what both have ready for this one, right before it is used: what cannot go wrong, and changes nothing for requests under way.
    pub fn prepare(&self, before: &Snapshot) {
        self.changed_since(before).for_each(|(_, plan)| plan.prepare());
        if Arc::ptr_eq(&self.parts, &before.parts) {
            return;
        }
        let grace_ends = clock::now() + self.process.reload_grace;
        for plan in &before.upstreams {
            if self.upstream(&plan.config.name).is_none() {
                plan.remove(grace_ends);
            }
        }
    }

    /// Gives servers that come their modes, with what operators want of them; right before it becomes the current one, so that no
    /// command of an operator is lost between the two.
    pub fn settle_modes(&self, before: &Snapshot) {
        self.changed_since(before).for_each(|(known, plan)| plan.settle_modes(known));
    }

    /// Makes it hold for what both have in common, once every worker uses it.
    pub fn take_effect(&self, before: &Snapshot) {
        if !Arc::ptr_eq(&self.parts, &before.parts) {
            for plan in &self.listeners {
                plan.take_effect();
            }
            self.maps.iter().filter_map(OwnValue::map).for_each(|map| map.take_effect());
        }
        self.changed_since(before).for_each(|(known, plan)| plan.take_effect(known));
    }

    /// The upstreams of this one that `before` does not have so, with their places.
    pub fn changed_upstreams<'a>(&'a self, before: &'a Snapshot) -> Vec<(usize, &'a Arc<UpstreamPlan>)> {
        if Arc::ptr_eq(&self.parts, &before.parts) {
            let differs = |known: &Arc<UpstreamPlan>, plan: &Arc<UpstreamPlan>| !Arc::ptr_eq(known, plan);
            return before.upstreams.differing(&self.upstreams, differs).collect();
        }
        let upstreams = self.upstreams.iter().enumerate();
        let is_new = |(_, plan): &(usize, &Arc<UpstreamPlan>)| {
            before.upstream(&plan.config.name).is_none_or(|(_, known)| !Arc::ptr_eq(known, plan))
        };
        upstreams.filter(is_new).collect()
    }

    /// The upstreams that both have and that are not the same, as they were and as they are.
    fn changed_since<'a>(
        &'a self,
        before: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a Arc<UpstreamPlan>, &'a Arc<UpstreamPlan>)> {
        self.changed_upstreams(before).into_iter().filter_map(|(_, plan)| {
            let (_, known) = before.upstream(&plan.config.name)?;
            Some((known, plan))
        })
    }
}
