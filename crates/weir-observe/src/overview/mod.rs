//! The state of a running Weir at one moment, as reports show it: the figures with their names, the state of each part since when and why,
//! and the rates of the last seconds.
//!
//! The status page, the JSON API, the runtime socket and `weir top` show this and nothing else, so they agree. Times of the clock are
//! milliseconds since 1970, durations carry their unit in their name.

mod recent;

use std::collections::BTreeMap;

use serde::Serialize;
use weir_sort::CompactSort as _;

pub use self::recent::{EventRate, EventRates, HistorySample, Quantiles, RateHistory};
use crate::counters::counter::Level;
use crate::counters::memory::MemoryStats;
use crate::counters::shard::TLS_VERSIONS;
use crate::counters::stats::{
    FailureStats, ListenerStats, MirrorStats, ReloadStats, RouteStats, ServerStats, UpstreamStats,
    WorkerStats,
};
use crate::failure::Reason;
use crate::words::affinity::AffinityOutcome;
use crate::words::phase::Phase;
use crate::words::retries::{RETRY_CAUSES, RETRY_REFUSALS};

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    /// The process.
    pub process: ProcessOverview,
    /// The config in use.
    pub config: ReloadStats,
    /// One per worker.
    pub workers: Vec<WorkerOverview>,
    /// One per store whose keys hold routes, in the order of the config.
    pub routes_from: Vec<RoutesFromOverview>,
    /// One per listener, in the order of the config.
    pub listeners: Vec<ListenerOverview>,
    /// One per limit by key, in the order of the config.
    pub limits: Vec<LimitOverview>,
    /// One per table of counters, in the order of the config.
    pub tables: Vec<TableOverview>,
    /// One per cache, in the order of the config.
    pub caches: Vec<CacheOverview>,
    /// One per set of keys that is fetched from a server, in the order in which routes name them.
    pub keys: Vec<KeysOverview>,
    /// One per host whose certificate Weir obtains by itself, then one per certificate that the config names.
    pub certificates: Vec<CertificateOverview>,
    /// One per upstream that has a server on this page, in the order of the config.
    pub upstreams: Vec<UpstreamOverview>,
    /// Which part of the servers these are.
    pub page: PageOverview,
}

/// Where routes come from besides the file: a store whose keys hold them, or the API server of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RoutesFromOverview {
    /// Its name in the config; `kubernetes`.
    pub name: String,
    /// In words, such as `etcd /weir/routes/`.
    pub store: String,
    /// When it last said something, in milliseconds since 1970; `None`: not yet.
    pub said_at_ms: Option<u64>,
    /// Since when it does not answer, in milliseconds since 1970; `None`: it answers.
    pub lost_at_ms: Option<u64>,
    /// What is wrong with it now: what it said last is in use.
    pub problem: Option<String>,
    /// What it does not have although it could be of use.
    pub missing: Vec<String>,
    /// The keys in use.
    pub keys: Vec<String>,
    /// The keys with a mistake, and the objects that cannot be applied, which change nothing.
    pub refused: Vec<RefusedFragment>,
}

/// A key whose text cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RefusedFragment {
    /// The key.
    pub key: String,
    /// Its errors.
    pub errors: Vec<String>,
}

/// Which part of the servers an overview is about. The figures of an upstream are whole on every page that it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PageOverview {
    /// Which page it is, from 1.
    pub number: usize,
    /// How many there are.
    pub pages: usize,
    /// The servers of all pages.
    pub servers: usize,
    /// The upstreams of all pages.
    pub upstreams: usize,
}

impl Default for PageOverview {
    /// The only page of nothing.
    fn default() -> Self {
        Self { number: 1, pages: 1, servers: 0, upstreams: 0 }
    }
}

/// The process.
#[derive(Debug, Clone, Serialize)]
pub struct ProcessOverview {
    /// The version of Weir.
    pub version: &'static str,
    /// The name of Weir in `Via`.
    pub name: String,
    /// The id of the process.
    pub pid: u32,
    /// When this was taken, in milliseconds since 1970.
    pub at_ms: u64,
    /// When the process started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Whether it is about to end.
    pub is_stopping: bool,
    /// Whether this node serves or another one is to do so: one of [`NODE_STATES`](crate::NODE_STATES).
    pub state: &'static str,
    /// What keepalived and BIRD were told about that.
    pub announcements: Vec<AnnouncementOverview>,
    /// Whether the process lives that tells them when this one is killed; `None`: there is none.
    pub is_watched: Option<bool>,
    /// Client connections that are open.
    pub connections_open: Level,
    /// How many may be.
    pub connections_max: u64,
    /// Descriptors that are open.
    pub open_files: u64,
    /// How many may be.
    pub open_files_max: u64,
    /// Memory of the process that is in RAM, in bytes.
    pub memory_bytes: u64,
    /// Its memory against its budget.
    pub memory: MemoryStats,
    /// Whether servers may be changed through the admin listener.
    pub allows_changes: bool,
    /// Lines of access logs that were lost, since the output takes none or is too slow.
    pub access_log_lines_lost: u64,
    /// Lines of Weir's own log that were, since standard error was not read.
    pub own_log_lines_lost: u64,
    /// What the process may do.
    pub confinement: ConfinementOverview,
    /// Its panics, by the place in the code: the first places that had any.
    pub panics: Vec<PanicOverview>,
}

/// The panics at one place in the code of Weir, or of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PanicOverview {
    /// File, line and column.
    pub location: String,
    /// What the first one said.
    pub message: String,
    /// Its thread.
    pub thread: String,
    /// How many there were.
    pub count: u64,
    /// The time of the first one, in milliseconds since 1970.
    pub first_ms: u64,
    /// That of the last one.
    pub last_ms: u64,
    /// The functions that the first one came through, once their names are known.
    pub backtrace: Option<String>,
}

/// What a program of this machine was told about the state of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AnnouncementOverview {
    /// The program, and by what it is told.
    pub target: String,
    /// What it was told last.
    pub told: Option<String>,
    /// Why it could not be told.
    pub error: Option<String>,
}

/// What the process is confined to, each in a few words.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ConfinementOverview {
    /// Its user and group.
    pub user: String,
    /// Its capabilities.
    pub capabilities: String,
    /// What it may do with files.
    pub files: String,
    /// Which system calls it may make.
    pub system_calls: String,
    /// Those that were denied since the start.
    pub denied_system_calls: u64,
}

/// A worker.
#[derive(Debug, Clone, Serialize)]
pub struct WorkerOverview {
    /// Exchanges begun, by second.
    pub exchanges_rate: EventRate,
    /// Its counters.
    #[serde(flatten)]
    pub stats: WorkerStats,
}

/// A listener.
#[derive(Debug, Clone, Serialize)]
pub struct ListenerOverview {
    /// Name in the config.
    pub name: String,
    /// Where it listens, as bound.
    pub addresses: Vec<String>,
    /// `http` or `tcp`.
    pub protocol: &'static str,
    /// Whether its clients speak TLS.
    pub has_tls: bool,
    /// Client connections that may be open; `None`: as many as the process may have.
    pub connections_max: Option<u32>,
    /// Seconds after which clients may ask again, while it is in maintenance.
    pub maintenance: Option<u32>,
    /// Its routes, in the order of the config.
    pub routes: Vec<RouteOverview>,
    /// The last seconds.
    pub rates: EventRates,
    /// The last minutes.
    pub history: RateHistory,
    /// Failures by reason.
    pub failures: Vec<FailureCount>,
    /// TLS handshakes that were completed.
    pub tls_handshakes: Vec<HandshakeCount>,
    /// Its counters.
    #[serde(flatten)]
    pub stats: ListenerStats,
}

/// A route.
#[derive(Debug, Clone, Serialize)]
pub struct RouteOverview {
    /// Name in the config.
    pub name: String,
    /// Which requests it takes.
    pub matches: String,
    /// What the route does with them.
    pub action: String,
    /// The upstreams that it leads to.
    pub upstreams: Vec<String>,
    /// Its counters.
    #[serde(flatten)]
    pub stats: RouteStats,
}

/// The mirror of a route, or of a target of its split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorOverview {
    /// The listener of the route.
    pub listener: String,
    /// The route.
    pub route: String,
    /// The upstream whose requests alone are copied, on a route that splits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_upstream: Option<String>,
    /// The upstream that gets the copies.
    pub upstream: String,
    /// The share of the requests that are copied, in percent.
    pub share: u32,
    /// What is compared.
    pub compare: Vec<&'static str>,
    /// Its counters.
    #[serde(flatten)]
    pub stats: MirrorStats,
    /// How many differ by the route of the mirror that has answered, with `route_header`: those with most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<MirrorRouteOverview>,
    /// The last responses that differed, the latest first.
    pub last_differences: Vec<DifferenceOverview>,
}

/// A route of the mirror whose responses have differed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorRouteOverview {
    /// What the mirror calls it.
    pub route: String,
    /// How many differ in status, headers and body.
    pub differences: [u64; 3],
}

/// Two responses to the same request that are not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferenceOverview {
    /// When it was found, in seconds since 1970.
    pub at: u64,
    /// The method of the request.
    pub method: String,
    /// Its target as the client sent it.
    pub target: String,
    /// Its id; empty without one.
    pub request_id: String,
    /// The status of the response that the client got.
    pub status: u16,
    /// That of the mirror.
    pub mirror_status: u16,
    /// How the call of gRPC has ended for the client, if that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_status: Option<&'static str>,
    /// That of the mirror.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror_grpc_status: Option<&'static str>,
    /// Headers that differ.
    pub headers: Vec<String>,
    /// The body that the client got, if they differ: its length and 32 digits of its SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<(u64, String)>,
    /// That of the mirror.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror_body: Option<(u64, String)>,
    /// What the mirror calls the route that has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

/// A table of counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableOverview {
    /// Name in the config.
    pub name: String,
    /// What has an entry of its own, as the config has it.
    pub key: String,
    /// The counters of an entry.
    pub counters: Vec<String>,
    /// Keys that have an entry.
    pub keys: u64,
    /// Keys that it is made for.
    pub keys_max: u64,
    /// Keys that were forgotten before they had expired, for want of room.
    pub evictions: u64,
    /// Requests and connections that were not counted, since all entries were in use.
    pub untracked: u64,
    /// How other nodes share it; null: it is of this node alone.
    pub shared: Option<SharedOverview>,
}

/// A limit by key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitOverview {
    /// Name in the config.
    pub name: String,
    /// What has a limit of its own, as the config has it.
    pub key: String,
    /// What each key may do, in words.
    pub rule: String,
    /// Whether requests are only counted.
    pub is_dry_run: bool,
    /// Requests that went on at once.
    pub passed: u64,
    /// Requests that went on after they had waited for their turn.
    pub delayed: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests over the limit that went on, since it is a dry run.
    pub excess: u64,
    /// Requests that wait for their turn.
    pub waiting: u64,
    /// Keys that have used some of it.
    pub keys: u64,
    /// Keys that its table is made for.
    pub keys_max: u64,
    /// Keys that were forgotten for want of room.
    pub evictions: u64,
    /// How other nodes share it; null: it is of this node alone.
    pub shared: Option<SharedOverview>,
    /// The keys that were refused most, the first the most often.
    pub top: Vec<RefusedKey>,
}

/// How nodes share a limit or a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedOverview {
    /// The store in the config.
    pub store: String,
    /// Whether all nodes have it together now; else this one has it for itself.
    pub is_up: bool,
    /// Keys that were exchanged.
    pub exchanged: u64,
    /// Connections and exchanges that have failed.
    pub failures: u64,
    /// Uses that other nodes did not learn of, since too many keys were used at once.
    pub dropped: u64,
    /// Why nothing is exchanged; null while it is.
    pub error: Option<String>,
    /// The master of the store that is in use or was last; null without sentinels, and before the first exchange.
    pub master: Option<String>,
}

/// A cache of responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheOverview {
    /// Name in the config.
    pub name: String,
    /// Requests, by what the cache did.
    pub requests: BTreeMap<&'static str, u64>,
    /// Responses that were stored.
    pub stored: u64,
    /// Responses that were not.
    pub not_stored: u64,
    /// Stored responses now.
    pub responses: u64,
    /// Their memory in bytes.
    pub memory_bytes: u64,
    /// The memory that there is for them.
    pub memory_bytes_max: u64,
    /// Those in files; null without a disk.
    pub disk_files: Option<u64>,
    /// Their bytes.
    pub disk_bytes: Option<u64>,
    /// Responses that are not stored any more, by reason.
    pub evictions: BTreeMap<&'static str, u64>,
}

/// Keys of tokens that are fetched from a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeysOverview {
    /// The upstream that has them.
    pub upstream: String,
    /// Their path there.
    pub path: String,
    /// How many there are; null before the first fetch that has succeeded.
    pub keys: Option<u64>,
    /// When the last one has, in milliseconds since 1970.
    pub fetched_ms: Option<u64>,
    /// Fetches.
    pub fetches: u64,
    /// Those that were answered 304: the server has no other keys.
    pub unchanged: u64,
    /// Those that have brought no keys that can be used.
    pub failures: u64,
    /// Why the last one has failed, if it has.
    pub last_failure: Option<String>,
}

/// A certificate that clients are shown, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateOverview {
    /// The listeners that show it.
    pub listeners: Vec<String>,
    /// The host that it is for; of one from a file its names, separated by commas.
    pub host: String,
    /// `acme`, `file` or `internal`.
    pub source: &'static str,
    /// `pending`, `failed`, `valid`, `renewing`, `renewal-failed`, `expired` or, of a file in a folder, `unusable`.
    pub state: &'static str,
    /// The directory of the authority that was asked last.
    pub ca: Option<String>,
    /// Where it is.
    pub file: Option<String>,
    /// When it expires, in seconds since 1970.
    pub not_after_s: Option<u64>,
    /// When the next attempt to obtain or renew it is due, in seconds since 1970.
    pub next_attempt_s: Option<u64>,
    /// Why the last attempt has failed, if it has.
    pub last_error: Option<String>,
    /// Certificates that were obtained since the start.
    pub obtained: u64,
    /// Attempts that have failed since the start.
    pub failed: u64,
}

/// A key that a limit has refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedKey {
    /// The beginning of its text.
    pub key: String,
    /// How often; an upper bound where many keys are refused.
    pub count: u64,
    /// When the last time was, in milliseconds before the report.
    pub last_ms_ago: u64,
}

/// An upstream.
#[derive(Debug, Clone, Serialize)]
pub struct UpstreamOverview {
    /// Name in the config.
    pub name: String,
    /// `tcp` where only TCP listeners send here, so that there are connections and bytes but no requests; else `http`.
    pub protocol: &'static str,
    /// How a server is chosen, in the word of the config.
    pub balance: String,
    /// Where requests go while all primary servers are full, in the word of the config.
    pub when_full: &'static str,
    /// Servers that are up, not ejected, and take requests.
    pub servers_usable: usize,
    /// All of its servers, on whatever page they are.
    pub servers_total: usize,
    /// Requests that may wait.
    pub queue_length_max: u64,
    /// How long those waited that waited, since the start.
    pub queue_time: Quantiles,
    /// Time to the head of the response, of all servers, over the last seconds.
    pub response_time: Quantiles,
    /// The last seconds.
    pub rates: EventRates,
    /// The last minutes.
    pub history: RateHistory,
    /// Failures by reason.
    pub failures: Vec<FailureCount>,
    /// Attempts beyond the first, by cause.
    pub retries: Vec<NamedCount>,
    /// Failed attempts that were not repeated, by reason.
    pub retries_refused: Vec<NamedCount>,
    /// Responses under affinity, by outcome.
    pub affinity: Vec<NamedCount>,
    /// The source that names its servers; `None`: the config does, or the source has not said anything yet.
    pub source: Option<SourceOverview>,
    /// Its servers, in the order of the config, then the leaving ones.
    pub servers: Vec<ServerOverview>,
    /// Its counters.
    #[serde(flatten)]
    pub stats: UpstreamStats,
}

/// The source of the servers of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceOverview {
    /// In words, such as `dns app.example:8080`.
    pub name: String,
    /// When it last named the servers, in milliseconds since 1970.
    pub said_at_ms: u64,
    /// Whether it does not answer now: the servers are those that it named last.
    pub is_stale: bool,
    /// Why, or what is wrong with its answer.
    pub problem: Option<String>,
    /// What it says beside the servers that has no effect.
    pub remark: Option<String>,
    /// How often it has named other servers.
    pub changes: u64,
}

/// The state of a server: the first of these that is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerStatus {
    /// The config does not name it any more, and something runs on it.
    Leaving,
    /// The operator took it out.
    Maintenance,
    /// It gets only requests that are bound to it.
    Draining,
    /// Its probes failed.
    Down,
    /// Too many of its requests failed.
    Ejected,
    /// It gets its share.
    Up,
}

impl ServerStatus {
    /// The word that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            ServerStatus::Leaving => "leaving",
            ServerStatus::Maintenance => "maintenance",
            ServerStatus::Draining => "draining",
            ServerStatus::Down => "down",
            ServerStatus::Ejected => "ejected",
            ServerStatus::Up => "up",
        }
    }
}

/// A server.
#[derive(Debug, Clone, Serialize)]
pub struct ServerOverview {
    /// Name in the config.
    pub name: String,
    /// Where it is, as the config says.
    pub address: String,
    /// Its address, if known; empty until its name is resolved.
    pub endpoints: Vec<String>,
    /// Its state.
    pub status: ServerStatus,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why, in a sentence.
    pub why: String,
    /// Its share, relative to the others.
    pub weight: u32,
    /// How much of its share it gets while it works its way up, in percent.
    pub ramp_percent: u32,
    /// Whether it only gets requests when no other can take them.
    pub is_backup: bool,
    /// Whether its source says that it is about to end: it gets requests when all others cannot take them, backups included.
    pub is_last_resort: bool,
    /// Where it is, if its source says so.
    pub zone: Option<String>,
    /// What its source says of it beside that.
    pub metadata: BTreeMap<String, String>,
    /// Requests that it may work on at once; `None`: any number.
    pub max_requests: Option<u32>,
    /// Requests and tunnels that run on it or wait for a connection to it.
    pub in_flight: u32,
    /// When the sessions on a server that drains or leaves are ended, in milliseconds from now.
    pub deadline_in_ms: Option<u64>,
    /// Share of its attempts that reused a connection, in percent; `None` without attempts.
    pub reuse_percent: Option<f64>,
    /// Time to the head of the response, over the last seconds.
    pub response_time: Quantiles,
    /// Time to open a connection, since the start.
    pub connect_time: Quantiles,
    /// The last seconds.
    pub rates: EventRates,
    /// Failed attempts by phase.
    pub failures: Vec<NamedCount>,
    /// How often it was ejected, by reason.
    pub ejections: Vec<NamedCount>,
    /// The counters of its probes; `None` when it is not probed.
    pub probes: Option<ProbeOverview>,
    /// Its counters.
    #[serde(flatten)]
    pub stats: ServerStats,
}

/// The probes of a server.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeOverview {
    /// Passed probes.
    pub passed: u64,
    /// Failed probes.
    pub failed: u64,
    /// Failed probes, by reason.
    pub failures: Vec<FailureCount>,
    /// How long the last one took.
    pub last_us: u64,
    /// The result in the words of HAProxy: `L7OK`, `L4TOUT` and so on.
    pub check: &'static str,
    /// How often they changed the state of the server.
    pub changes: u64,
}

/// A reason of failures, and how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// The reason, as logs and docs call it.
    pub reason: &'static str,
    /// Where exchanges stood.
    pub phases: Vec<&'static str>,
    /// The party at fault.
    pub party: &'static str,
    /// How often.
    pub count: u64,
}

/// Something with a name, and how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedCount {
    /// The name.
    pub name: &'static str,
    /// How often.
    pub count: u64,
}

/// TLS handshakes of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandshakeCount {
    /// The version of TLS.
    pub version: &'static str,
    /// Whole ones.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// The reasons that occurred, the most frequent first.
pub fn failure_counts(stats: &FailureStats) -> Vec<FailureCount> {
    let count = |(reason, count): (Reason, u64)| FailureCount {
        reason: reason.code(),
        phases: reason.phases().iter().map(|phase| phase.name()).collect(),
        party: reason.party().name(),
        count,
    };
    let mut counts: Vec<_> = stats.occurred().map(count).collect();
    counts.sort_compact_by(|one, other| other.count.cmp(&one.count).then(one.reason.cmp(other.reason)));
    counts
}

/// Names with their counts, those at zero left out.
pub fn named_counts<'a>(
    names: impl IntoIterator<Item = &'static str>,
    counts: impl IntoIterator<Item = &'a u64>,
) -> Vec<NamedCount> {
    let pairs = names.into_iter().zip(counts).filter(|(_, count)| **count > 0);
    pairs.map(|(name, count)| NamedCount { name, count: *count }).collect()
}

impl ListenerOverview {
    /// TLS handshakes by version, as the figures have them.
    pub fn handshakes_of(stats: &ListenerStats) -> Vec<HandshakeCount> {
        let counts = TLS_VERSIONS.iter().zip(stats.tls_handshakes);
        counts.map(|(version, [full, resumed])| HandshakeCount { version, full, resumed }).collect()
    }
}

impl UpstreamOverview {
    /// Retries by cause, rejected ones by reason, and responses by the outcome of affinity.
    pub fn counts_of(stats: &UpstreamStats) -> [Vec<NamedCount>; 3] {
        [
            named_counts(RETRY_CAUSES, &stats.retries),
            named_counts(RETRY_REFUSALS, &stats.retries_refused),
            named_counts(AffinityOutcome::ALL.map(AffinityOutcome::name), &stats.affinity),
        ]
    }
}

impl ServerOverview {
    /// Failed attempts by phase.
    pub fn failures_of(stats: &ServerStats) -> Vec<NamedCount> {
        named_counts(Phase::ALL.map(Phase::name), &stats.failures)
    }

    /// The share of its attempts that reused a connection, in percent.
    pub fn reuse_of(stats: &ServerStats) -> Option<f64> {
        let taken = stats.reuses + stats.connects;
        (taken > 0).then(|| (stats.reuses as f64 / taken as f64 * 1000.0).round() / 10.0)
    }
}
