//! The figures of the whole process: the sums over the shards of all workers, as plain numbers with names.
//!
//! Fields that are skipped when they are serialised are part of the overview in another form.
//!
//! Taken by a reader at one moment, off the workers; everything that shows figures (Prometheus, status page, runtime
//! socket) shows these.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::counters::admin::AdminStats;
use crate::counters::compression::CompressionStats;
use crate::counters::counter::{Counter, Level};
use crate::counters::datagrams::DatagramStats;
use crate::counters::histogram::HistogramSnapshot;
use crate::counters::memory::MemoryStats;
use crate::counters::shard::{
    FailureCounters, ListenerShard, MirrorShard, ProbeShard, RouteShard, ServerShard, TLS_VERSIONS,
    UpstreamShard, WorkerShard,
};
use crate::counters::traces::TraceStats;
use crate::failure::Reason;
use crate::words::affinity::AffinityOutcome;
use crate::words::phase::Phase;
use crate::words::retries::{RETRY_CAUSES, RETRY_REFUSALS};

/// The names of the parts of a shard, in the order of the config.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatNames {
    /// Names of the listeners.
    pub listeners: Vec<String>,
    /// Names of the upstreams and their servers.
    pub upstreams: Vec<UpstreamStatNames>,
}

/// The names of an upstream and its servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamStatNames {
    /// Name of the upstream.
    pub name: String,
    /// Names of its servers.
    pub servers: Vec<String>,
}

/// Everything counted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// One per worker.
    pub workers: Vec<WorkerStats>,
    /// One per listener.
    pub listeners: Vec<ListenerStats>,
    /// One per upstream.
    pub upstreams: Vec<UpstreamStats>,
    /// The counts of reloads.
    pub reload: ReloadStats,
    /// The counts of requests to the admin listener.
    pub admin: AdminStats,
    /// The counts of spans.
    pub traces: TraceStats,
    /// Lines of Weir's own log that were dropped.
    pub own_log_lines_dropped: u64,
    /// The kernel's figures of the process.
    pub process: ProcessStats,
    /// Its memory against its budget.
    pub memory: MemoryStats,
    /// Certificates that Weir obtains by itself; `None` where it does not.
    pub issuance: Option<IssuanceStats>,
}

/// Certificates that Weir obtains by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IssuanceStats {
    /// Hosts by the state of their certificate.
    pub hosts: Vec<(&'static str, u64)>,
    /// Attempts that have brought a certificate, and such that have failed.
    pub orders: [u64; 2],
}

/// The states of a node: it serves; it serves and leaves the address to the other node; it lets connections end, since another node is to serve; that node is told; it stops.
pub const NODE_STATES: [&str; 5] = ["serving", "standby", "closing", "handed-over", "stopping"];

/// The kernel's figures of the process; names and units are those of Prometheus' client libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessStats {
    /// CPU time, user and system, in microseconds.
    pub cpu_micros: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// How many there may be; `None`: no limit.
    pub max_fds: Option<u64>,
    /// Memory in use.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// When it was started, in microseconds since 1970.
    pub started_micros: u64,
    /// Bytes that bodies of requests have in temporary files.
    pub temporary_file_bytes: u64,
    /// The version of Landlock that confines the process; 0: none does.
    pub landlock_abi: u8,
    /// Whether its system calls are filtered.
    pub filters_system_calls: bool,
    /// System calls that the filter has denied.
    pub denied_system_calls: u64,
    /// Bodies that were about to leave other than their heads had said.
    pub framing_violations: u64,
    /// Panics of all threads.
    pub panics: u64,
    /// Tasks of the control plane begun anew after a panic.
    pub task_restarts: u64,
    /// One of [`NODE_STATES`].
    pub node_state: &'static str,
    /// Whether the process lives that announces the end of this one; `None`: there is none.
    pub is_watched: Option<bool>,
    /// Programs that could not be told the state of the node.
    pub failing_announcements: u64,
}

/// The counts of reloads of the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReloadStats {
    /// Reloads that took effect.
    pub succeeded: u64,
    /// Reloads that were rejected, and changed nothing.
    pub failed: u64,
    /// Whether the last one was taken over; true before the first.
    pub last_succeeded: bool,
    /// When the config in use was taken over, in seconds since 1970.
    pub since_seconds: u64,
    /// Which config is in use: 1 is that of the start, and each reload adds one.
    pub generation: u64,
    /// Configs that something still runs on, the one in use included.
    pub snapshots: u64,
    /// Keys of stores that are part of the config.
    pub fragments: u64,
    /// Keys of stores with a mistake, which change nothing.
    pub fragments_refused: u64,
    /// Stores of routes that do not answer now, the API server of Kubernetes included.
    pub route_stores_stale: u64,
    /// When the one that has been silent longest said something last, in seconds since 1970.
    pub routes_said_seconds: Option<u64>,
    /// Since when the first of those that do not answer is lost, in seconds since 1970.
    pub routes_lost_seconds: Option<u64>,
}

impl Stats {
    /// Adds up the shards of all workers. Parts without a name are left out.
    pub fn collect<'a>(names: &StatNames, shards: impl IntoIterator<Item = &'a WorkerShard>) -> Stats {
        let mut stats = Stats::named(names);
        for shard in shards {
            stats.add_worker(shard);
            for (listener, part) in shard.listeners.iter().enumerate() {
                stats.add_listener(listener, part);
            }
            for (upstream, part) in shard.upstreams.iter().enumerate() {
                stats.add_upstream(upstream, part);
            }
        }
        stats
    }

    /// Nothing counted, of anything that has a name.
    pub fn named(names: &StatNames) -> Stats {
        Stats {
            listeners: names.listeners.iter().map(|name| ListenerStats::named(name)).collect(),
            upstreams: names.upstreams.iter().map(UpstreamStats::named).collect(),
            ..Stats::default()
        }
    }

    /// Adds the counters of a worker.
    pub fn add_worker(&mut self, shard: &WorkerShard) {
        self.workers.push(WorkerStats::new(shard));
    }

    /// Adds the counters of a worker for a listener. Positions without a name are left out, here and below.
    pub fn add_listener(&mut self, listener: usize, shard: &ListenerShard) {
        if let Some(total) = self.listeners.get_mut(listener) {
            total.add(shard);
        }
    }

    /// Adds the counters of the routes of a listener.
    pub fn note_routes(&mut self, listener: usize, routes: Vec<RouteStats>) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.routes = routes;
        }
    }

    /// Adds the counters of a worker for an upstream and the servers that are part of its shard.
    pub fn add_upstream(&mut self, upstream: usize, shard: &UpstreamShard) {
        if let Some(total) = self.upstreams.get_mut(upstream) {
            total.add(shard);
        }
    }

    /// Adds the counters of a worker for a server whose shard is not part of its upstream's.
    pub fn add_server(&mut self, upstream: usize, server: usize, shard: &ServerShard) {
        if let Some(total) = self.server(upstream, server) {
            total.add(shard);
        }
    }

    /// Adds the ejections of a server: whether it is ejected now, and how often it was, by reason. Positions
    /// without a name are left out.
    pub fn note_ejection(
        &mut self,
        upstream: usize,
        server: usize,
        is_ejected: bool,
        ejections: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        if let Some(server) = self.server(upstream, server) {
            server.is_ejected = is_ejected;
            server.ejections = ejections.into_iter().collect();
        }
    }

    /// Adds the certificates of a listener: those in use, and how often changed files were taken over and could not be.
    pub fn note_certificates(
        &mut self,
        listener: usize,
        certificates: Vec<CertificateStats>,
        reloads: [u64; 2],
    ) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            (listener.certificates, listener.certificate_reloads) = (certificates, reloads);
        }
    }

    /// Adds until when the lists of revoked certificates hold that a listener verifies its clients by.
    pub fn note_revocations(&mut self, listener: usize, lists: CertificateStats) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.revocations = Some(lists);
        }
    }

    /// Adds whether all servers of an upstream get requests because too few are usable.
    pub fn note_panic(&mut self, upstream: usize, in_panic: bool) {
        if let Some(upstream) = self.upstreams.get_mut(upstream) {
            upstream.in_panic = in_panic;
        }
    }

    /// Adds the operator's mode of a server, in the word of the config. Positions without a name are left out.
    pub fn note_mode(&mut self, upstream: usize, server: usize, mode: &'static str) {
        if let Some(server) = self.server(upstream, server) {
            server.mode = mode;
        }
    }

    /// Adds how many attempts run on a server or wait for a connection to it. Positions without a name are left out.
    pub fn note_in_flight(&mut self, upstream: usize, server: usize, in_flight: u32) {
        if let Some(server) = self.server(upstream, server) {
            server.attempts_open = Level { now: in_flight.into(), peak: in_flight.into() };
        }
    }

    fn server(&mut self, upstream: usize, server: usize) -> Option<&mut ServerStats> {
        self.upstreams.get_mut(upstream)?.servers.get_mut(server)
    }

    /// Adds idle connections to a server that belong to all workers together. Positions without a name are left out.
    pub fn note_shared_idle(&mut self, upstream: usize, server: usize, connections: usize) {
        if let Some(server) = self.server(upstream, server) {
            let shared = Level { now: connections as i64, peak: connections as i64 };
            server.connections_open.merge(shared);
            server.connections_idle.merge(shared);
        }
    }

    /// Adds the health of a server: whether it is up, and its probes if there are any. Positions
    /// without a name are left out.
    pub fn note_health(&mut self, upstream: usize, server: usize, is_up: bool, probes: Option<&ProbeShard>) {
        if let Some(server) = self.server(upstream, server) {
            server.is_up = is_up;
            server.probes = probes.map(ProbeStats::new);
        }
    }
}

/// The counters of one worker, apart from its listeners and upstreams; the fields are those of [`WorkerShard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in WorkerShard")]
pub struct WorkerStats {
    pub connections_accepted: u64,
    pub connections_open: Level,
    pub connections_handed_in: u64,
    pub connections_handed_out: u64,
    pub idle_connections_closed: u64,
    pub slow_heads_ended: u64,
    pub exchanges: u64,
    pub exchanges_open: Level,
    pub background_requests: u64,
    pub background_open: Level,
    pub background_refused: u64,
    pub buffers_in_use: Level,
    pub timers: Level,
    pub panics: u64,
    pub restarts: u64,
    pub connections_lost: u64,
    pub accept_errors: u64,
    pub local_connect_errors: u64,
    pub log_lines_dropped: u64,
    pub traces_sampled: u64,
    pub traces_limited: u64,
    pub traces_dropped: u64,
    pub compression: CompressionStats,
    pub datagrams: DatagramStats,
    pub bodies_buffered: [u64; 3],
    pub responses_buffered: [u64; 2],
}

impl WorkerStats {
    fn new(shard: &WorkerShard) -> WorkerStats {
        WorkerStats {
            connections_accepted: shard.connections_accepted.value(),
            connections_open: shard.connections_open.level(),
            connections_handed_in: shard.connections_handed_in.value(),
            connections_handed_out: shard.connections_handed_out.value(),
            idle_connections_closed: shard.idle_connections_closed.value(),
            slow_heads_ended: shard.slow_heads_ended.value(),
            exchanges: shard.exchanges.value(),
            exchanges_open: shard.exchanges_open.level(),
            background_requests: shard.background_requests.value(),
            background_open: shard.background_open.level(),
            background_refused: shard.background_refused.value(),
            buffers_in_use: shard.buffers_in_use.level(),
            timers: shard.timers.level(),
            panics: shard.panics.value(),
            restarts: shard.restarts.value(),
            connections_lost: shard.connections_lost.value(),
            accept_errors: shard.accept_errors.value(),
            local_connect_errors: shard.local_connect_errors.value(),
            log_lines_dropped: shard.log_lines_dropped.value(),
            traces_sampled: shard.traces_sampled.value(),
            traces_limited: shard.traces_limited.value(),
            traces_dropped: shard.traces_dropped.value(),
            compression: CompressionStats::new(&shard.compression),
            datagrams: DatagramStats::new(&shard.datagrams),
            responses_buffered: shard.responses_buffered.each_ref().map(Counter::value),
            bodies_buffered: shard.bodies_buffered.each_ref().map(Counter::value),
        }
    }
}

/// The counters of all workers for one listener; the fields are those of [`ListenerShard`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in ListenerShard")]
pub struct ListenerStats {
    #[serde(skip)]
    pub name: String,
    pub connections: u64,
    pub connections_open: Level,
    pub proxy_headers: u64,
    pub requests: u64,
    pub responses: [u64; 5],
    pub bytes_in: u64,
    pub bytes_out: u64,
    #[serde(skip)]
    pub tls_handshakes: [[u64; 2]; TLS_VERSIONS.len()],
    /// The certificates that clients are shown now.
    pub certificates: Vec<CertificateStats>,
    /// Changed files of certificates that were taken over, and such that could not be used.
    pub certificate_reloads: [u64; 2],
    /// The lists of revoked certificates that clients are verified by.
    pub revocations: Option<CertificateStats>,
    pub tunnels: u64,
    pub tunnels_open: Level,
    pub http2_connections: u64,
    pub http2_connections_open: Level,
    pub http3_connections: u64,
    pub http3_connections_open: Level,
    pub streams: u64,
    pub streams_open: Level,
    pub streams_reset: u64,
    pub streams_refused: u64,
    pub streams_reset_by_weir: u64,
    pub http2_goaways: u64,
    pub error_pages_fetched: u64,
    pub error_pages_failed: u64,
    #[serde(skip)]
    pub failures: FailureStats,
    /// The counters of its routes, in the order of the config.
    #[serde(skip)]
    pub routes: Vec<RouteStats>,
}

/// The counters of all workers for one route; the fields are those of [`RouteShard`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in RouteShard")]
pub struct RouteStats {
    #[serde(skip)]
    pub name: String,
    pub requests: u64,
    pub responses: [u64; 5],
    pub failures: u64,
    #[serde(skip_serializing_if = "MirrorStats::is_unused")]
    pub mirror: MirrorStats,
}

/// The counters of all workers for the mirror of a route; the fields are those of [`MirrorShard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in MirrorShard")]
pub struct MirrorStats {
    pub requests: u64,
    pub failures: u64,
    pub too_long: u64,
    pub busy: u64,
    pub compared: u64,
    pub differences: [u64; 3],
}

impl MirrorStats {
    /// Whether nothing was counted.
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, shard: &MirrorShard) {
        self.requests += shard.requests.value();
        self.failures += shard.failures.value();
        self.too_long += shard.too_long.value();
        self.busy += shard.busy.value();
        self.compared += shard.compared.value();
        add_each(&mut self.differences, shard.differences.each_ref().map(Counter::value));
    }
}

impl RouteStats {
    /// Nothing counted yet.
    pub fn named(name: &str) -> RouteStats {
        RouteStats { name: name.to_owned(), ..RouteStats::default() }
    }

    /// Adds the counters of a worker.
    pub fn add(&mut self, shard: &RouteShard) {
        self.requests += shard.requests.value();
        add_each(&mut self.responses, shard.responses.values());
        self.failures += shard.failures.value();
        self.mirror.add(&shard.mirror);
    }
}

/// A certificate in use, or a file of lists of revoked ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateStats {
    /// The file as the config names it.
    pub file: String,
    /// Until when it is valid, in seconds since 1970.
    pub expiry_seconds: u64,
}

impl ListenerStats {
    fn named(name: &str) -> ListenerStats {
        ListenerStats { name: name.to_owned(), ..ListenerStats::default() }
    }

    fn add(&mut self, shard: &ListenerShard) {
        self.connections += shard.connections.value();
        self.connections_open.merge(shard.connections_open.level());
        self.proxy_headers += shard.proxy_headers.value();
        self.requests += shard.requests.value();
        add_each(&mut self.responses, shard.responses.values());
        self.bytes_in += shard.bytes_in.value();
        self.bytes_out += shard.bytes_out.value();
        for (totals, parts) in self.tls_handshakes.iter_mut().zip(&shard.tls_handshakes) {
            add_each(totals, [parts[0].value(), parts[1].value()]);
        }
        self.tunnels += shard.tunnels.value();
        self.tunnels_open.merge(shard.tunnels_open.level());
        self.http2_connections += shard.http2_connections.value();
        self.http2_connections_open.merge(shard.http2_connections_open.level());
        self.http3_connections += shard.http3_connections.value();
        self.http3_connections_open.merge(shard.http3_connections_open.level());
        self.streams += shard.streams.value();
        self.streams_open.merge(shard.streams_open.level());
        self.streams_reset += shard.streams_reset.value();
        self.streams_refused += shard.streams_refused.value();
        self.streams_reset_by_weir += shard.streams_reset_by_weir.value();
        self.http2_goaways += shard.http2_goaways.value();
        self.error_pages_fetched += shard.error_pages_fetched.value();
        self.error_pages_failed += shard.error_pages_failed.value();
        self.failures.add(&shard.failures);
    }
}

/// The counters of all workers for one upstream; the fields are those of [`UpstreamShard`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in UpstreamShard")]
pub struct UpstreamStats {
    #[serde(skip)]
    pub name: String,
    pub requests: u64,
    /// By class.
    pub responses: [u64; 5],
    /// By status; only the ones that occurred.
    #[serde(skip)]
    pub statuses: BTreeMap<u16, u64>,
    pub queued: u64,
    pub queue_length: Level,
    #[serde(skip)]
    pub queue_time: HistogramSnapshot,
    #[serde(skip)]
    pub exchange_time: HistogramSnapshot,
    #[serde(skip)]
    pub retries: [u64; RETRY_CAUSES.len()],
    #[serde(skip)]
    pub retries_refused: [u64; RETRY_REFUSALS.len()],
    #[serde(skip)]
    pub affinity: [u64; AffinityOutcome::ALL.len()],
    #[serde(skip)]
    pub failures: FailureStats,
    /// Whether all servers get requests because too few are usable.
    pub in_panic: bool,
    #[serde(skip)]
    pub servers: Vec<ServerStats>,
}

impl UpstreamStats {
    fn named(names: &UpstreamStatNames) -> UpstreamStats {
        UpstreamStats {
            name: names.name.clone(),
            servers: names.servers.iter().map(|name| ServerStats::named(name)).collect(),
            ..UpstreamStats::default()
        }
    }

    fn add(&mut self, shard: &UpstreamShard) {
        self.requests += shard.requests.value();
        for (status, count) in shard.responses.occurred() {
            self.responses[usize::from(status / 100 - 1)] += count;
            *self.statuses.entry(status).or_default() += count;
        }
        self.queued += shard.queued.value();
        self.queue_length.merge(shard.queue_length.level());
        self.queue_time.add(&shard.queue_time);
        self.exchange_time.add(&shard.exchange_time);
        add_each(&mut self.retries, values(&shard.retries));
        add_each(&mut self.retries_refused, values(&shard.retries_refused));
        add_each(&mut self.affinity, values(&shard.affinity));
        self.failures.add(&shard.failures);
        for (total, part) in self.servers.iter_mut().zip(&shard.servers) {
            total.add(part);
        }
    }
}

/// The counters of all workers for one server; the fields are those of [`ServerShard`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in ServerShard")]
pub struct ServerStats {
    #[serde(skip)]
    pub name: String,
    pub attempts: u64,
    /// Attempts that run on it or wait for a connection to it; its peak is not known.
    pub attempts_open: Level,
    pub retries: u64,
    pub requests: u64,
    pub responses: [u64; 5],
    pub connects: u64,
    pub connect_errors: u64,
    pub tls_handshakes: u64,
    pub tls_resumptions: u64,
    pub reuses: u64,
    pub stale_reuses: u64,
    /// Requests that the server has left unprocessed and that went again.
    pub unprocessed: u64,
    /// Lines that scripts behind FastCGI have written to their error stream.
    pub error_lines: u64,
    pub connections_open: Level,
    pub connections_idle: Level,
    pub bytes_in: u64,
    pub bytes_out: u64,
    #[serde(skip)]
    pub response_time: HistogramSnapshot,
    #[serde(skip)]
    pub connect_time: HistogramSnapshot,
    #[serde(skip)]
    pub failures: [u64; Phase::COUNT],
    pub outlier_failures: u64,
    /// Whether it is ejected, so that it gets no requests.
    pub is_ejected: bool,
    /// How often it was ejected, by reason; empty when it never is.
    #[serde(skip)]
    pub ejections: Vec<(&'static str, u64)>,
    /// The operator's mode: serving, draining, maintenance.
    pub mode: &'static str,
    /// Whether its health checks have nothing against it. A server without probes is up.
    pub is_up: bool,
    /// The counters of its probes; `None` when it is not probed.
    #[serde(skip)]
    pub probes: Option<ProbeStats>,
}

impl ServerStats {
    fn named(name: &str) -> ServerStats {
        ServerStats { name: name.to_owned(), mode: "serving", is_up: true, ..ServerStats::default() }
    }

    fn add(&mut self, shard: &ServerShard) {
        self.attempts += shard.attempts.value();
        self.retries += shard.retries.value();
        self.requests += shard.requests.value();
        add_each(&mut self.responses, shard.responses.values());
        self.connects += shard.connects.value();
        self.connect_errors += shard.connect_errors.value();
        self.tls_handshakes += shard.tls_handshakes.value();
        self.tls_resumptions += shard.tls_resumptions.value();
        self.reuses += shard.reuses.value();
        self.stale_reuses += shard.stale_reuses.value();
        self.unprocessed += shard.unprocessed.value();
        self.error_lines += shard.error_lines.value();
        self.connections_open.merge(shard.connections_open.level());
        self.connections_idle.merge(shard.connections_idle.level());
        self.bytes_in += shard.bytes_in.value();
        self.bytes_out += shard.bytes_out.value();
        self.response_time.add(&shard.response_time);
        self.connect_time.add(&shard.connect_time);
        add_each(&mut self.failures, shard.failures.values());
        self.outlier_failures += shard.outlier_failures.value();
    }
}

/// The counters of the probes of one server; the fields are those of [`ProbeShard`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "each field is explained at the field of the same name in ProbeShard")]
pub struct ProbeStats {
    pub passed: u64,
    pub failures: FailureStats,
    pub not_made: u64,
    pub last_micros: u64,
    /// The result of the last one; `None` before the first.
    pub last: Option<Result<(), Reason>>,
    pub changes: u64,
}

impl ProbeStats {
    fn new(shard: &ProbeShard) -> ProbeStats {
        let mut failures = FailureStats::default();
        failures.add(&shard.failures);
        ProbeStats {
            passed: shard.passed.value(),
            failures,
            not_made: shard.not_made.value(),
            last_micros: u64::try_from(shard.last_micros.value()).unwrap_or(0),
            last: shard.last(),
            changes: shard.changes.value(),
        }
    }
}

/// Failures by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureStats(Option<Box<[u64; Reason::COUNT]>>);

impl FailureStats {
    /// How often a reason occurred.
    pub fn count(&self, reason: Reason) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts[reason.index()])
    }

    /// All failures together.
    pub fn total(&self) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.iter().sum())
    }

    /// The reasons that occurred, and how often.
    pub fn occurred(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::all().map(|reason| (reason, self.count(reason))).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, counters: &FailureCounters) {
        if counters.is_unused() {
            return;
        }
        let counts = self.0.get_or_insert_with(|| Box::new([0; Reason::COUNT]));
        for reason in Reason::all() {
            counts[reason.index()] += counters.count(reason);
        }
    }
}

fn values<const N: usize>(counters: &[Counter; N]) -> [u64; N] {
    std::array::from_fn(|index| counters[index].value())
}

fn add_each<const N: usize>(totals: &mut [u64; N], values: [u64; N]) {
    for (total, value) in totals.iter_mut().zip(values) {
        *total += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::shard::ShardSizes;
    use crate::failure::{Cause, Failure};

    #[test]
    fn figures_are_the_sums_over_the_workers() {
        let names = StatNames {
            listeners: vec!["web".to_owned()],
            upstreams: vec![UpstreamStatNames {
                name: "api".to_owned(),
                servers: vec!["a".to_owned(), "b".to_owned()],
            }],
        };
        let shards = [(); 2].map(|()| WorkerShard::new(ShardSizes { listeners: 1, servers: &[2] }));
        for (worker, shard) in shards.iter().enumerate() {
            shard.connections_accepted.add(worker as u64 + 1);
            shard.listeners[0].bytes_in.add(10);
            shard.listeners[0].connections_open.set(3);
            shard.listeners[0].failures.record(Failure::weir(Phase::Route, Cause::NoRoute));
            shard.upstreams[0].queue_time.record(70);
            shard.upstreams[0].servers[1].responses.record(204);
            shard.upstreams[0].servers[1].response_time.record(1000);
            shard.upstreams[0].servers[1].failures.record(Phase::Connect);
        }
        let stats = Stats::collect(&names, &shards);
        assert_eq!(
            stats.workers.iter().map(|worker| worker.connections_accepted).collect::<Vec<_>>(),
            [1, 2]
        );
        let listener = &stats.listeners[0];
        assert_eq!((listener.name.as_str(), listener.bytes_in), ("web", 20));
        assert_eq!(listener.connections_open, Level { now: 6, peak: 6 });
        assert_eq!(listener.failures.total(), 2);
        let occurred: Vec<_> =
            listener.failures.occurred().map(|(reason, count)| (reason.code(), count)).collect();
        assert_eq!(occurred, [("no-route", 2)]);
        assert_eq!(stats.upstreams[0].queue_time.count(), 2);
        let [a, b] = &stats.upstreams[0].servers[..] else { panic!("two servers") };
        assert_eq!((a.name.as_str(), a.responses), ("a", [0; 5]));
        assert_eq!((b.name.as_str(), b.responses), ("b", [0, 2, 0, 0, 0]));
        assert_eq!((b.response_time.count(), b.response_time.sum()), (2, 2000));
        assert_eq!(b.failures[Phase::Connect as usize], 2);
    }

    #[test]
    fn health_is_noted_where_there_is_a_server() {
        let names = StatNames {
            listeners: Vec::new(),
            upstreams: vec![UpstreamStatNames { name: "api".to_owned(), servers: vec!["a".to_owned(); 2] }],
        };
        let mut stats = Stats::collect(&names, []);
        let probes = ProbeShard::default();
        probes.passed.add(3);
        probes.failures.record(Failure::server(Phase::Response, Cause::UnexpectedStatus));
        probes.last_micros.set(250);
        stats.note_health(0, 1, false, Some(&probes));
        stats.note_health(0, 2, false, None);
        stats.note_health(1, 0, false, None);
        let [a, b] = &stats.upstreams[0].servers[..] else { panic!("two servers") };
        assert!(a.is_up && a.probes.is_none(), "it is not probed");
        let probed = b.probes.as_ref().expect("it is probed");
        assert_eq!((b.is_up, probed.passed, probed.failures.total(), probed.last_micros), (false, 3, 1, 250));
    }

    #[test]
    fn ejections_are_noted_where_there_is_a_server() {
        let names = StatNames {
            listeners: Vec::new(),
            upstreams: vec![UpstreamStatNames { name: "api".to_owned(), servers: vec!["a".to_owned(); 2] }],
        };
        let mut stats = Stats::collect(&names, []);
        stats.note_ejection(0, 1, true, [("trial", 2)]);
        stats.note_ejection(0, 2, true, []);
        stats.note_ejection(1, 0, true, []);
        stats.note_panic(0, true);
        stats.note_panic(1, true);
        let [a, b] = &stats.upstreams[0].servers[..] else { panic!("two servers") };
        assert!(!a.is_ejected && a.ejections.is_empty());
        assert!(b.is_ejected && b.ejections == [("trial", 2)] && stats.upstreams[0].in_panic);
    }

    #[test]
    fn parts_without_a_name_are_left_out() {
        let shard = WorkerShard::new(ShardSizes { listeners: 2, servers: &[2, 1] });
        let stats = Stats::collect(&StatNames::default(), [&shard]);
        assert_eq!((stats.workers.len(), stats.listeners.len(), stats.upstreams.len()), (1, 0, 0));
    }
}
