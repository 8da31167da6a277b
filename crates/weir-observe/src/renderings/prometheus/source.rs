//! The sources of a scrape: the shards of the workers, and the state of listeners, upstreams and servers.
//!
//! Read while it is written, so that no scrape copies the figures of all servers. The set of parts does not change during a
//! scrape: a list that changed would show a series twice.

use std::sync::Arc;

use super::BucketBounds;
use crate::counters::per_worker::PerWorker;
use crate::counters::shard::{
    CacheShard, LimitShard, ListenerShard, ProbeShard, RouteShard, ServerShard, UpstreamShard,
};
use crate::counters::stats::{CertificateStats, Stats};

/// Everything that a scrape shows.
pub trait MetricSource {
    /// The figures of the process and of its workers; its listeners and upstreams are not read.
    fn general(&self) -> &Stats;

    /// The bounds of the buckets of histograms.
    fn buckets(&self) -> &BucketBounds;

    /// How many listeners are shown.
    fn listeners(&self) -> usize;

    /// One of the listeners that are shown.
    fn listener(&self, index: usize) -> &dyn ListenerPart;

    /// How many limits by key there are.
    fn limits(&self) -> usize;

    /// One of them.
    fn limit(&self, index: usize) -> &dyn LimitPart;

    /// How many tables of counters there are.
    fn tables(&self) -> usize;

    /// One of them.
    fn table(&self, index: usize) -> &dyn TablePart;

    /// How many maps there are.
    fn maps(&self) -> usize;

    /// One of them.
    fn map(&self, index: usize) -> &dyn MapPart;

    /// How many caches there are.
    fn caches(&self) -> usize;

    /// One of them.
    fn cache(&self, index: usize) -> &dyn CachePart;

    /// How many upstreams are shown.
    fn upstreams(&self) -> usize;

    /// One of the upstreams that are shown.
    fn upstream(&self, index: usize) -> &dyn UpstreamPart;

    /// The servers of this upstream that are shown, as places in it.
    fn servers(&self, upstream: usize) -> &[usize];
}

/// A listener and its routes.
pub trait ListenerPart {
    /// Its name.
    fn name(&self) -> &str;

    /// The counters of each worker.
    fn shards(&self) -> &[Arc<ListenerShard>];

    /// The certificates that clients are shown now.
    fn certificates(&self) -> Vec<CertificateStats>;

    /// Changed files of certificates that were taken over, and such that could not be used.
    fn certificate_reloads(&self) -> [u64; 2];

    /// The lists of revoked certificates that clients are verified by.
    fn revocations(&self) -> Option<CertificateStats>;

    /// How many routes it has.
    fn routes(&self) -> usize;

    /// The name of a route.
    fn route_name(&self, route: usize) -> &str;

    /// The counters of each worker for a route.
    fn route_shards(&self, route: usize) -> &PerWorker<RouteShard>;
}

/// A map.
pub trait MapPart {
    /// Its name.
    fn name(&self) -> &str;

    /// Lookups that have found an entry, a record of the database, and nothing.
    fn lookups(&self) -> [u64; 3];

    /// Its entries.
    fn entries(&self) -> usize;

    /// Their memory in bytes.
    fn memory_bytes(&self) -> usize;

    /// Whether its files have changed and cannot be used; `None`: it has none.
    fn is_refused(&self) -> Option<bool>;
}

/// A limit by key.
pub trait LimitPart {
    /// Its name.
    fn name(&self) -> &str;

    /// The counters of each worker.
    fn shards(&self) -> &PerWorker<LimitShard>;

    /// Keys that have used some of it.
    fn keys(&self) -> usize;

    /// Keys that its table is made for.
    fn keys_max(&self) -> usize;

    /// Keys that were forgotten for want of room.
    fn evictions(&self) -> u64;

    /// Requests that wait for their turn.
    fn waiting(&self) -> u32;

    /// How nodes share it; `None`: it is of this node alone.
    fn sharing(&self) -> Option<SharingTotals>;
}

/// A table of counters.
pub trait TablePart {
    /// Its name.
    fn name(&self) -> &str;

    /// Keys that have an entry.
    fn keys(&self) -> usize;

    /// Keys that it is made for.
    fn keys_max(&self) -> usize;

    /// Keys that were forgotten before they had expired.
    fn evictions(&self) -> u64;

    /// Requests and connections that were not counted, since all entries were in use.
    fn untracked(&self) -> u64;

    /// How the exchange with other nodes goes; `None`: the table is of this node alone.
    fn sharing(&self) -> Option<SharingTotals>;
}

/// How nodes share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharingTotals {
    /// Whether all nodes have one limit now.
    pub is_up: bool,
    /// Keys that were exchanged.
    pub exchanged: u64,
    /// Connections and exchanges that have failed.
    pub failures: u64,
    /// Uses that other nodes did not learn of.
    pub dropped: u64,
}

/// A cache of responses.
pub trait CachePart {
    /// Its name.
    fn name(&self) -> &str;

    /// The counters of each worker.
    fn shards(&self) -> &PerWorker<CacheShard>;

    /// What it holds.
    fn holds(&self) -> CacheHoldings;
}

/// The fetches of keys of tokens from an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyFetchTotals {
    /// Those that have ended.
    pub fetches: u64,
    /// Those that have brought no keys that can be used.
    pub failures: u64,
    /// When the last one of those keys succeeded whose last one is the longest ago, in seconds since 1970; 0: there are keys that none has brought.
    pub fetched: u64,
}

/// The names that requests give of servers of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameTotals {
    /// Those that are known.
    pub names: usize,
    /// Those of them with addresses.
    pub usable: usize,
    /// Those that are looked up now, or wait for that.
    pub looked_up: usize,
    /// The most that are known at once.
    pub names_max: usize,
    /// Names that have made room for others.
    pub evictions: u64,
    /// Requests for a name that no other one could make room for.
    pub refusals: u64,
}

/// What a cache holds, and what has left it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheHoldings {
    /// Stored responses.
    pub responses: u64,
    /// Bytes of memory for them, heads and bookkeeping included.
    pub memory_bytes: u64,
    /// Bytes of memory that there are for them.
    pub memory_bytes_max: u64,
    /// What is in files.
    pub disk: Option<DiskHoldings>,
    /// Responses that are not stored any more, by reason.
    pub evictions: Vec<(&'static str, u64)>,
}

/// What a cache holds in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskHoldings {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that there are for them.
    pub bytes_max: u64,
    /// Files that have made room for others.
    pub evictions: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Responses that could not be written to files.
    pub write_failures: u64,
}

/// What a source of servers has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceTotals {
    /// When it last named the servers, in seconds since 1970.
    pub said_at: u64,
    /// Whether it does not answer now.
    pub is_stale: bool,
    /// How often it has named other servers.
    pub changes: u64,
}

/// An upstream and its servers, by their places in it.
pub trait UpstreamPart {
    /// Its name.
    fn name(&self) -> &str;

    /// The counters of each worker.
    fn shards(&self) -> &PerWorker<UpstreamShard>;

    /// Whether all servers get requests because too few are usable.
    fn is_in_panic(&self) -> bool;

    /// What the source of its servers has said; `None` where the config names them.
    fn source(&self) -> Option<SourceTotals>;

    /// The fetches of keys of tokens; `None` where it has none.
    fn key_fetches(&self) -> Option<KeyFetchTotals>;

    /// The names that requests give of its servers; `None` where they give none.
    fn names(&self) -> Option<NameTotals>;

    /// The name of a server.
    fn server_name(&self, server: usize) -> &str;

    /// The counters of each worker for a server.
    fn server_shards(&self, server: usize) -> &PerWorker<ServerShard>;

    /// Attempts that run on a server or wait for a connection to it.
    fn attempts_open(&self, server: usize) -> u32;

    /// Idle connections to a server that belong to all workers together.
    fn idle_shared(&self, server: usize) -> usize;

    /// The operator's mode of a server, in the word of the config.
    fn mode(&self, server: usize) -> &'static str;

    /// Whether the health checks of a server have nothing against it.
    fn is_up(&self, server: usize) -> bool;

    /// The counters of its probes; `None` when it is not probed.
    fn probes(&self, server: usize) -> Option<&ProbeShard>;

    /// Whether a server is ejected, so that it gets no requests.
    fn is_ejected(&self, server: usize) -> bool;

    /// How often a server was ejected, by reason; empty when it never is.
    fn ejections(&self, server: usize) -> Vec<(&'static str, u64)>;
}
