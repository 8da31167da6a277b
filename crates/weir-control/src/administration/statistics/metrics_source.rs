//! The data of `/metrics`, read piece by piece while it is written: the counters of the workers, and the state of servers and
//! certificates.
//!
//! Holds the snapshot that was current at its beginning, and of each server one number. Must not take the figures of all servers at once.

use std::sync::Arc;

use weir_observe::prometheus::{
    BucketBounds, CacheHoldings, CachePart, KeyFetchTotals, LimitPart, ListenerPart, MapPart, MetricSource,
    NameTotals, SharingTotals, SourceTotals, TablePart, UpstreamPart,
};
use weir_observe::{
    CacheShard, CertificateStats, LimitShard, ListenerShard, MemoryStats, PerWorker, ProbeShard, RouteShard,
    ServerShard, Stats, UpstreamShard,
};
use weir_sort::CompactSort as _;
use weir_traffic::{Health, ServerId};

use super::certificate_reports;
use super::collection;
use super::collection::ShownServers;
use super::overview::Sources;
use super::tables;
use super::tables::{MapMetrics, TableMetrics};
use crate::lifecycle::process;
use weir_proxy::state::snapshot::{CachePlan, LimitPlan, ListenerPlan, Snapshot, UpstreamPlan};

/// The data of one scrape.
pub(crate) struct MetricsReading {
    snapshot: Arc<Snapshot>,
    general: Stats,
    /// The listeners that are shown.
    listeners: Vec<ListenerMetrics>,
    /// The upstreams and servers that are shown: servers come and go, but not during a scrape.
    shown: ShownServers,
    /// The same upstreams.
    upstreams: Vec<UpstreamMetrics>,
    maps: Vec<MapMetrics>,
    limits: Vec<LimitMetrics>,
    tables: Vec<TableMetrics>,
    caches: Vec<CacheMetrics>,
}

/// The data of a cache.
struct CacheMetrics(Arc<CachePlan>);

/// The data of a limit by key.
struct LimitMetrics(Arc<LimitPlan>);

/// The data of a listener.
struct ListenerMetrics(Arc<ListenerPlan>);

/// The data of an upstream and its servers.
struct UpstreamMetrics(Arc<UpstreamPlan>, Option<KeyFetchTotals>);

/// Why nothing is shown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownName {
    #[error("There is no upstream `{0}`.")]
    Upstream(String),
    #[error("There is no listener `{0}`.")]
    Listener(String),
}

impl MetricsReading {
    /// Of the upstreams and the listeners of these names; of all, where no name is given.
    ///
    /// # Errors
    /// The first name that the config does not have.
    pub(crate) fn new(
        sources: &Sources,
        upstreams: &[String],
        listeners: &[String],
    ) -> Result<Self, UnknownName> {
        let snapshot = sources.current.load_full();
        let upstreams = places(upstreams, snapshot.upstreams.len(), |name| Some(snapshot.upstream(name)?.0));
        let listeners = places(listeners, snapshot.listeners.len(), |name| Some(snapshot.listener(name)?.0));
        let mut general =
            collection::of_process(&sources.shards, &snapshot, &sources.reloads, &sources.traces);
        general.admin = sources.access.figures();
        // Not with all figures: the live rates take those every second, and this counts every descriptor.
        general.process = process::figures();
        general.process.node_state = sources.node_state().name();
        general.process.is_watched = sources.announcements.is_watched();
        general.process.failing_announcements = sources.announcements.failing();
        general.memory = MemoryStats::clone(&sources.memory.load());
        general.issuance = certificate_reports::issuance(&snapshot);
        // The names that requests give are for people: as labels, they would grow without bound.
        let shown = |place: usize| match &snapshot.upstreams[place] {
            plan if plan.is_dynamic() => (place, Vec::new()),
            plan => (place, collection::shown_servers(plan)),
        };
        let shown: ShownServers = upstreams.map_err(UnknownName::Upstream)?.into_iter().map(shown).collect();
        let listener = |place: usize| ListenerMetrics(Arc::clone(&snapshot.listeners[place]));
        let upstream = |(place, _): &(usize, _)| {
            let plan = Arc::clone(&snapshot.upstreams[*place]);
            let keys = key_fetches(&snapshot, &plan.config.name);
            UpstreamMetrics(plan, keys)
        };
        Ok(Self {
            general,
            listeners: listeners.map_err(UnknownName::Listener)?.into_iter().map(listener).collect(),
            upstreams: shown.iter().map(upstream).collect(),
            shown,
            maps: snapshot.maps.iter().filter_map(MapMetrics::new).collect(),
            limits: snapshot.limits.iter().map(|plan| LimitMetrics(Arc::clone(plan))).collect(),
            tables: snapshot.tables.iter().map(|plan| TableMetrics(Arc::clone(plan))).collect(),
            caches: snapshot.caches.iter().map(|plan| CacheMetrics(Arc::clone(plan))).collect(),
            snapshot,
        })
    }
}

/// The fetches of keys of tokens from the upstream of this name; `None` without any.
fn key_fetches(snapshot: &Snapshot, upstream: &str) -> Option<KeyFetchTotals> {
    let sets = snapshot.keys.iter().filter(|keys| *keys.settings.upstream_name == *upstream);
    sets.map(|keys| keys.figures()).fold(None, |sum: Option<KeyFetchTotals>, figures| {
        let fetched = figures.fetched.map_or(0, |at| at.as_secs());
        let KeyFetchTotals { fetches, failures, fetched: oldest } =
            sum.unwrap_or(KeyFetchTotals { fetched, ..KeyFetchTotals::default() });
        Some(KeyFetchTotals {
            fetches: fetches + figures.fetches,
            failures: failures + figures.failures,
            fetched: oldest.min(fetched),
        })
    })
}

/// The places of the parts with these names, in the order of the config; without names all.
fn places(
    names: &[String],
    count: usize,
    place_of: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<usize>, String> {
    if names.is_empty() {
        return Ok((0..count).collect());
    }
    let places = names.iter().map(|name| place_of(name).ok_or_else(|| name.clone()));
    let mut places = places.collect::<Result<Vec<usize>, String>>()?;
    places.sort_compact();
    // A series that is there twice is an error of the whole scrape.
    places.dedup();
    Ok(places)
}

impl MetricSource for MetricsReading {
    fn general(&self) -> &Stats {
        &self.general
    }

    fn buckets(&self) -> &BucketBounds {
        &self.snapshot.buckets
    }

    fn listeners(&self) -> usize {
        self.listeners.len()
    }

    fn listener(&self, index: usize) -> &dyn ListenerPart {
        &self.listeners[index]
    }

    fn maps(&self) -> usize {
        self.maps.len()
    }

    fn map(&self, index: usize) -> &dyn MapPart {
        &self.maps[index]
    }

    fn limits(&self) -> usize {
        self.limits.len()
    }

    fn limit(&self, index: usize) -> &dyn LimitPart {
        &self.limits[index]
    }

    fn tables(&self) -> usize {
        self.tables.len()
    }

    fn table(&self, index: usize) -> &dyn TablePart {
        &self.tables[index]
    }

    fn caches(&self) -> usize {
        self.caches.len()
    }

    fn cache(&self, index: usize) -> &dyn CachePart {
        &self.caches[index]
    }

    fn upstreams(&self) -> usize {
        self.shown.len()
    }

    fn upstream(&self, index: usize) -> &dyn UpstreamPart {
        &self.upstreams[index]
    }

    fn servers(&self, upstream: usize) -> &[usize] {
        &self.shown[upstream].1
    }
}

impl LimitPart for LimitMetrics {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn shards(&self) -> &PerWorker<LimitShard> {
        &self.0.state.shards
    }

    fn keys(&self) -> usize {
        self.0.keys()
    }

    fn keys_max(&self) -> usize {
        self.0.config.keys_max
    }

    fn evictions(&self) -> u64 {
        self.0.evictions()
    }

    fn waiting(&self) -> u32 {
        self.0.waiting()
    }

    fn sharing(&self) -> Option<SharingTotals> {
        self.0.sharing().as_ref().map(tables::sharing)
    }
}

impl CachePart for CacheMetrics {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn shards(&self) -> &PerWorker<CacheShard> {
        &self.0.state.shards
    }

    fn holds(&self) -> CacheHoldings {
        self.0.holds()
    }
}

impl ListenerPart for ListenerMetrics {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn shards(&self) -> &[Arc<ListenerShard>] {
        &self.0.state.shards
    }

    fn certificates(&self) -> Vec<CertificateStats> {
        self.0.tls.as_deref().map(collection::certificates_in_use).unwrap_or_default()
    }

    fn certificate_reloads(&self) -> [u64; 2] {
        self.0.tls.as_ref().map_or([0; 2], |tls| tls.certificates.reloads())
    }

    fn revocations(&self) -> Option<CertificateStats> {
        self.0.tls.as_deref().and_then(collection::revocations)
    }

    fn routes(&self) -> usize {
        self.0.route_plans.len()
    }

    fn route_name(&self, route: usize) -> &str {
        &self.0.route_plans[route].config.name
    }

    fn route_shards(&self, route: usize) -> &PerWorker<RouteShard> {
        &self.0.route_plans[route].shards
    }
}

impl UpstreamPart for UpstreamMetrics {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn shards(&self) -> &PerWorker<UpstreamShard> {
        &self.0.shards
    }

    fn is_in_panic(&self) -> bool {
        self.0.outlier_detector.lock().is_in_panic()
    }

    fn source(&self) -> Option<SourceTotals> {
        let said = self.0.source.said()?;
        let (said_at, changes) = (said.said_at_ms / 1000, self.0.source.changes());
        Some(SourceTotals { said_at, is_stale: said.is_stale, changes })
    }

    fn key_fetches(&self) -> Option<KeyFetchTotals> {
        self.1
    }

    fn names(&self) -> Option<NameTotals> {
        let counts = self.0.named.as_ref()?.names.counts();
        Some(NameTotals {
            names: counts.names,
            usable: counts.usable,
            looked_up: counts.looked_up,
            names_max: self.0.config.dynamic.as_ref()?.names_max,
            evictions: counts.evictions,
            refusals: counts.refusals,
        })
    }

    fn server_name(&self, server: usize) -> &str {
        &self.0.config.servers[server].name
    }

    fn server_shards(&self, server: usize) -> &PerWorker<ServerShard> {
        &self.0.server_shards[server]
    }

    fn attempts_open(&self, server: usize) -> u32 {
        self.0.balancer().states()[server].in_flight()
    }

    fn idle_shared(&self, server: usize) -> usize {
        collection::idle_shared(&self.0, server)
    }

    fn mode(&self, server: usize) -> &'static str {
        collection::mode(&self.0, server)
    }

    fn is_up(&self, server: usize) -> bool {
        self.0.balancer().states()[server].health() == Health::Up
    }

    fn probes(&self, server: usize) -> Option<&ProbeShard> {
        collection::probes(&self.0, server)
    }

    fn is_ejected(&self, server: usize) -> bool {
        self.0.balancer().states()[server].is_ejected()
    }

    fn ejections(&self, server: usize) -> Vec<(&'static str, u64)> {
        let counts = self.0.outlier_detector.lock().ejections(ServerId(server as u32));
        collection::ejections(&self.0, server, counts)
    }
}
