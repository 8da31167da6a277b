//! A source to scrape: workers, and the state of their listeners, upstreams and servers.

use std::sync::Arc;

use crate::counters::per_worker::PerWorker;
use crate::counters::shard::{
    CacheShard, LimitShard, ListenerShard, ProbeShard, RouteShard, ServerShard, UpstreamShard, WorkerShard,
};
use crate::counters::stats::{CertificateStats, Stats};
use crate::renderings::prometheus::{
    BucketBounds, CacheHoldings, CachePart, DiskHoldings, KeyFetchTotals, LimitPart, ListenerPart, MapPart,
    MetricSource, NameTotals, SharingTotals, SourceTotals, TablePart, UpstreamPart,
};

#[derive(Default)]
pub(super) struct Fixture {
    pub(super) general: Stats,
    pub(super) buckets: BucketBounds,
    pub(super) listeners: Vec<FixtureListener>,
    pub(super) upstreams: Vec<FixtureUpstream>,
    pub(super) limits: Vec<FixtureLimit>,
    pub(super) caches: Vec<FixtureCache>,
}

pub(super) struct FixtureLimit(PerWorker<LimitShard>);

pub(super) struct FixtureMap;

pub(super) struct FixtureTable;

pub(super) struct FixtureCache(PerWorker<CacheShard>);

#[derive(Default)]
pub(super) struct FixtureListener {
    name: String,
    shards: Vec<Arc<ListenerShard>>,
    pub(super) certificates: Vec<CertificateStats>,
    pub(super) certificate_reloads: [u64; 2],
    pub(super) revocations: Option<CertificateStats>,
    pub(super) routes: Vec<(String, PerWorker<RouteShard>)>,
}

pub(super) struct FixtureUpstream {
    name: String,
    shards: PerWorker<UpstreamShard>,
    pub(super) is_in_panic: bool,
    pub(super) servers: Vec<FixtureServer>,
    shown: Vec<usize>,
}

pub(super) struct FixtureServer {
    name: String,
    shards: PerWorker<ServerShard>,
    pub(super) attempts_open: u32,
    pub(super) idle_shared: usize,
    pub(super) mode: &'static str,
    pub(super) is_down: bool,
    pub(super) probes: Option<ProbeShard>,
    pub(super) is_ejected: bool,
    pub(super) ejections: Vec<(&'static str, u64)>,
}

impl Fixture {
    /// The counters of these workers, by these names; everything else is as usual.
    pub(super) fn new(shards: &[WorkerShard], listeners: &[&str], upstreams: &[(&str, &[&str])]) -> Self {
        let mut general = Stats::default();
        shards.iter().for_each(|shard| general.add_worker(shard));
        let listener = |(index, name): (usize, &&str)| FixtureListener {
            name: (*name).to_owned(),
            shards: shards.iter().map(|shard| Arc::clone(&shard.listeners[index])).collect(),
            ..FixtureListener::default()
        };
        let upstream = |(index, (name, servers)): (usize, &(&str, &[&str]))| {
            let of_upstream: Vec<_> =
                shards.iter().map(|shard| Arc::clone(&shard.upstreams[index])).collect();
            FixtureUpstream {
                name: (*name).to_owned(),
                servers: servers
                    .iter()
                    .enumerate()
                    .map(|(at, name)| server(name, at, &of_upstream))
                    .collect(),
                shown: (0..servers.len()).collect(),
                shards: of_upstream.into_iter().collect(),
                is_in_panic: false,
            }
        };
        let cache = CacheShard::default();
        cache.requests[0].add(70);
        cache.requests[4].add(30);
        let limit = LimitShard::default();
        limit.passed.add(90);
        limit.refused.add(10);
        Self {
            general,
            limits: vec![FixtureLimit([Arc::new(limit)].into_iter().collect())],
            caches: vec![FixtureCache([Arc::new(cache)].into_iter().collect())],
            buckets: BucketBounds::default(),
            listeners: listeners.iter().enumerate().map(listener).collect(),
            upstreams: upstreams.iter().enumerate().map(upstream).collect(),
        }
    }

    /// The same before any worker has counted something of a server.
    pub(super) fn with_unused_servers(mut self) -> Self {
        for server in self.upstreams.iter_mut().flat_map(|upstream| &mut upstream.servers) {
            server.shards = PerWorker::new(1);
        }
        self
    }
}

fn server(name: &str, at: usize, of_upstream: &[Arc<UpstreamShard>]) -> FixtureServer {
    FixtureServer {
        name: name.to_owned(),
        shards: of_upstream.iter().map(|shard| Arc::clone(&shard.servers[at])).collect(),
        attempts_open: 0,
        idle_shared: 0,
        mode: "serving",
        is_down: false,
        probes: None,
        is_ejected: false,
        ejections: Vec::new(),
    }
}

impl MetricSource for &Fixture {
    fn general(&self) -> &Stats {
        &self.general
    }

    fn buckets(&self) -> &BucketBounds {
        &self.buckets
    }

    fn listeners(&self) -> usize {
        self.listeners.len()
    }

    fn listener(&self, index: usize) -> &dyn ListenerPart {
        &self.listeners[index]
    }

    fn limits(&self) -> usize {
        self.limits.len()
    }

    fn limit(&self, index: usize) -> &dyn LimitPart {
        &self.limits[index]
    }

    fn tables(&self) -> usize {
        1
    }

    fn table(&self, _index: usize) -> &dyn TablePart {
        &FixtureTable
    }

    fn maps(&self) -> usize {
        1
    }

    fn map(&self, _index: usize) -> &dyn MapPart {
        &FixtureMap
    }

    fn caches(&self) -> usize {
        self.caches.len()
    }

    fn cache(&self, index: usize) -> &dyn CachePart {
        &self.caches[index]
    }

    fn upstreams(&self) -> usize {
        self.upstreams.len()
    }

    fn upstream(&self, index: usize) -> &dyn UpstreamPart {
        &self.upstreams[index]
    }

    fn servers(&self, upstream: usize) -> &[usize] {
        &self.upstreams[upstream].shown
    }
}

impl LimitPart for FixtureLimit {
    fn sharing(&self) -> Option<SharingTotals> {
        Some(SharingTotals { is_up: true, exchanged: 80, failures: 2, dropped: 0 })
    }

    fn name(&self) -> &str {
        "per-client"
    }

    fn shards(&self) -> &PerWorker<LimitShard> {
        &self.0
    }

    fn keys(&self) -> usize {
        7
    }

    fn keys_max(&self) -> usize {
        100_000
    }

    fn evictions(&self) -> u64 {
        1
    }

    fn waiting(&self) -> u32 {
        2
    }
}

impl MapPart for FixtureMap {
    fn name(&self) -> &str {
        "backends"
    }

    fn lookups(&self) -> [u64; 3] {
        [70, 0, 30]
    }

    fn entries(&self) -> usize {
        12
    }

    fn memory_bytes(&self) -> usize {
        4_096
    }

    fn is_refused(&self) -> Option<bool> {
        Some(false)
    }
}

impl TablePart for FixtureTable {
    fn sharing(&self) -> Option<SharingTotals> {
        Some(SharingTotals { is_up: true, exchanged: 80, failures: 2, dropped: 0 })
    }

    fn name(&self) -> &str {
        "clients"
    }

    fn keys(&self) -> usize {
        5
    }

    fn keys_max(&self) -> usize {
        100_000
    }

    fn evictions(&self) -> u64 {
        1
    }

    fn untracked(&self) -> u64 {
        0
    }
}

impl CachePart for FixtureCache {
    fn name(&self) -> &str {
        "pages"
    }

    fn shards(&self) -> &PerWorker<CacheShard> {
        &self.0
    }

    fn holds(&self) -> CacheHoldings {
        CacheHoldings {
            responses: 12,
            memory_bytes: 34_000,
            memory_bytes_max: 134_217_728,
            disk: Some(DiskHoldings {
                files: 5,
                bytes: 70_000,
                bytes_max: 1 << 30,
                evictions: 1,
                written_bytes: 70_000,
                write_failures: 2,
            }),
            evictions: vec![("memory", 3)],
        }
    }
}

impl ListenerPart for FixtureListener {
    fn name(&self) -> &str {
        &self.name
    }

    fn shards(&self) -> &[Arc<ListenerShard>] {
        &self.shards
    }

    fn certificates(&self) -> Vec<CertificateStats> {
        self.certificates.clone()
    }

    fn certificate_reloads(&self) -> [u64; 2] {
        self.certificate_reloads
    }

    fn revocations(&self) -> Option<CertificateStats> {
        self.revocations.clone()
    }

    fn routes(&self) -> usize {
        self.routes.len()
    }

    fn route_name(&self, route: usize) -> &str {
        &self.routes[route].0
    }

    fn route_shards(&self, route: usize) -> &PerWorker<RouteShard> {
        &self.routes[route].1
    }
}

impl UpstreamPart for FixtureUpstream {
    fn name(&self) -> &str {
        &self.name
    }

    fn shards(&self) -> &PerWorker<UpstreamShard> {
        &self.shards
    }

    fn is_in_panic(&self) -> bool {
        self.is_in_panic
    }

    fn source(&self) -> Option<SourceTotals> {
        Some(SourceTotals { said_at: 1_700_000_100, is_stale: true, changes: 7 })
    }

    fn key_fetches(&self) -> Option<KeyFetchTotals> {
        Some(KeyFetchTotals { fetches: 12, failures: 2, fetched: 1_700_000_000 })
    }

    fn names(&self) -> Option<NameTotals> {
        let counts = NameTotals { names: 9, usable: 7, looked_up: 1, ..NameTotals::default() };
        Some(NameTotals { names_max: 1_024, evictions: 3, refusals: 2, ..counts })
    }

    fn server_name(&self, server: usize) -> &str {
        &self.servers[server].name
    }

    fn server_shards(&self, server: usize) -> &PerWorker<ServerShard> {
        &self.servers[server].shards
    }

    fn attempts_open(&self, server: usize) -> u32 {
        self.servers[server].attempts_open
    }

    fn idle_shared(&self, server: usize) -> usize {
        self.servers[server].idle_shared
    }

    fn mode(&self, server: usize) -> &'static str {
        self.servers[server].mode
    }

    fn is_up(&self, server: usize) -> bool {
        !self.servers[server].is_down
    }

    fn probes(&self, server: usize) -> Option<&ProbeShard> {
        self.servers[server].probes.as_ref()
    }

    fn is_ejected(&self, server: usize) -> bool {
        self.servers[server].is_ejected
    }

    fn ejections(&self, server: usize) -> Vec<(&'static str, u64)> {
        self.servers[server].ejections.clone()
    }
}
