//! The counters of one worker, and of the probes of servers: plain structs of counters, shared with the reader
//! through `Arc`.
//!
//! A worker is the only writer of its shard. Each part is on cache lines of its own, and behind its own `Arc`, so that a
//! reload can carry the parts of everything untouched over into the next shard.

use std::sync::{Arc, OnceLock};

use weir_http::Rule;

use crate::counters::compression::CompressionShard;
use crate::counters::counter::{Counter, Gauge};
use crate::counters::datagrams::DatagramShard;
use crate::counters::histogram::Histogram;
use crate::failure::{Cause, Failure, Reason};
use crate::words::affinity::AffinityOutcome;
use crate::words::cache_result::CacheResult;
use crate::words::phase::Phase;
use crate::words::retries::{RETRY_CAUSES, RETRY_REFUSALS};
use weir_http::grpc::GrpcStatus;

/// How many listeners there are, and how many servers in each upstream.
#[derive(Debug, Clone, Copy)]
pub struct ShardSizes<'a> {
    /// Number of listeners.
    pub listeners: usize,
    /// Number of servers of each upstream, in order.
    pub servers: &'a [usize],
}

/// Everything one worker counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerShard {
    /// Connections taken from a listening socket.
    pub connections_accepted: Counter,
    /// Connections that this worker runs, wherever they were accepted.
    pub connections_open: Gauge,
    /// Connections taken over from another worker.
    pub connections_handed_in: Counter,
    /// Connections accepted here and handed to another worker.
    pub connections_handed_out: Counter,
    /// Idle client connections closed to make room for new ones.
    pub idle_connections_closed: Counter,
    /// Clients without a whole request head ended to make room for new ones.
    pub slow_heads_ended: Counter,
    /// Exchanges begun.
    pub exchanges: Counter,
    /// Exchanges that run.
    pub exchanges_open: Gauge,
    /// Running tunnels, including those whose listener the config does not name any more.
    pub tunnels_open: Gauge,
    /// Requests of Weir's own that were begun in the background.
    pub background_requests: Counter,
    /// Those that run.
    pub background_open: Gauge,
    /// Those that were not begun, since enough run or buffers were short.
    pub background_refused: Counter,
    /// Tunnels that were ended because their time was up.
    pub tunnels_drained: Counter,
    /// Buffers taken from the worker and not given back.
    pub buffers_in_use: Gauge,
    /// Free buffers that it keeps for later use.
    pub buffers_free: Gauge,
    /// Memory of finished exchanges that it keeps for later use.
    pub exchanges_kept: Gauge,
    /// Timers armed.
    pub timers: Gauge,
    /// Panics caught at the border of a connection.
    pub panics: Counter,
    /// Times that the worker was made anew after a crash.
    pub restarts: Counter,
    /// Client connections that ended by these.
    pub connections_lost: Counter,
    /// Errors of `accept` itself.
    pub accept_errors: Counter,
    /// Connections to servers that could not be opened for want of descriptors, ports or memory on this machine.
    pub local_connect_errors: Counter,
    /// Access-log lines dropped because the writer was behind or could not write them.
    pub log_lines_dropped: Counter,
    /// Exchanges sampled for traces.
    pub traces_sampled: Counter,
    /// Exchanges that were to be sampled and passed unsampled, since too many were.
    pub traces_limited: Counter,
    /// Request bodies that were taken in before a server got them: whole in memory, whole with the help of a file, in part.
    pub bodies_buffered: [Counter; 3],
    /// Response bodies that were taken in from servers: in memory, with a file.
    pub responses_buffered: [Counter; 2],
    /// Sampled exchanges dropped because too many waited to be sent.
    pub traces_dropped: Counter,
    /// Bodies compressed and decompressed.
    pub compression: CompressionShard,
    /// Datagrams of QUIC. Sockets have it as well.
    pub datagrams: Arc<DatagramShard>,
    /// One part per listener, in the order of the config.
    pub listeners: Box<[Arc<ListenerShard>]>,
    /// One part per upstream, in the order of the config.
    pub upstreams: Box<[Arc<UpstreamShard>]>,
}

impl WorkerShard {
    /// A shard at zero.
    pub fn new(sizes: ShardSizes<'_>) -> WorkerShard {
        WorkerShard::with_parts(
            (0..sizes.listeners).map(|_| Arc::default()).collect(),
            sizes.servers.iter().map(|servers| Arc::new(UpstreamShard::new(*servers))).collect(),
        )
    }

    /// A shard whose own figures are at zero, made of given parts.
    pub fn with_parts(
        listeners: Box<[Arc<ListenerShard>]>,
        upstreams: Box<[Arc<UpstreamShard>]>,
    ) -> WorkerShard {
        WorkerShard {
            connections_accepted: Counter::new(),
            connections_open: Gauge::new(),
            connections_handed_in: Counter::new(),
            connections_handed_out: Counter::new(),
            idle_connections_closed: Counter::new(),
            slow_heads_ended: Counter::new(),
            exchanges: Counter::new(),
            exchanges_open: Gauge::new(),
            tunnels_open: Gauge::new(),
            background_requests: Counter::new(),
            background_open: Gauge::new(),
            background_refused: Counter::new(),
            tunnels_drained: Counter::new(),
            buffers_in_use: Gauge::new(),
            buffers_free: Gauge::new(),
            exchanges_kept: Gauge::new(),
            timers: Gauge::new(),
            panics: Counter::new(),
            restarts: Counter::new(),
            connections_lost: Counter::new(),
            accept_errors: Counter::new(),
            local_connect_errors: Counter::new(),
            log_lines_dropped: Counter::new(),
            traces_sampled: Counter::new(),
            traces_limited: Counter::new(),
            responses_buffered: [const { Counter::new() }; 2],
            bodies_buffered: [const { Counter::new() }; 3],
            traces_dropped: Counter::new(),
            compression: CompressionShard::default(),
            datagrams: Arc::default(),
            listeners,
            upstreams,
        }
    }
}

/// The counters of one worker for one listener.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ListenerShard {
    /// Client connections begun.
    pub connections: Counter,
    /// Client connections open.
    pub connections_open: Gauge,
    /// Client connections that began with a valid header of the PROXY protocol.
    pub proxy_headers: Counter,
    /// Request heads read whole, well-formed or not.
    pub requests: Counter,
    /// Responses sent, by class, Weir's own answers included.
    pub responses: ResponseCounters,
    /// Bytes received from clients.
    pub bytes_in: Counter,
    /// Bytes sent to clients.
    pub bytes_out: Counter,
    /// TLS handshakes completed, by [`TLS_VERSIONS`], then full and resumed ones.
    pub tls_handshakes: [[Counter; 2]; TLS_VERSIONS.len()],
    /// Tunnels begun: upgrades, and the connections of TCP listeners.
    pub tunnels: Counter,
    /// Tunnels open.
    pub tunnels_open: Gauge,
    /// Client connections that spoke HTTP/2.
    pub http2_connections: Counter,
    /// Client connections open that speak HTTP/2.
    pub http2_connections_open: Gauge,
    /// Client connections that spoke HTTP/3.
    pub http3_connections: Counter,
    /// Client connections open that speak HTTP/3.
    pub http3_connections_open: Gauge,
    /// Requests of HTTP/3 that came before the handshake of their connection was over (0-RTT).
    pub http3_early_requests: Counter,
    /// Moves of HTTP/3 connections to another address of their client.
    pub http3_migrations: Counter,
    /// Packets that HTTP/3 connections have sent, by the end of each.
    pub http3_packets: Counter,
    /// Those of them that were lost.
    pub http3_packets_lost: Counter,
    /// Round-trip times of HTTP/3 connections at their ends, in microseconds: how many, and their sum.
    pub http3_round_trips: [Counter; 2],
    /// Streams of HTTP/2 begun.
    pub streams: Counter,
    /// Streams of HTTP/2 open.
    pub streams_open: Gauge,
    /// Streams that clients have reset.
    pub streams_reset: Counter,
    /// Streams refused because the connection had as many as it may.
    pub streams_refused: Counter,
    /// Streams that Weir has reset.
    pub streams_reset_by_weir: Counter,
    /// Client connections that Weir has ended by GOAWAY.
    pub http2_goaways: Counter,
    /// Error pages that were fetched from servers, or should have been.
    pub error_pages_fetched: Counter,
    /// Those that could not be.
    pub error_pages_failed: Counter,
    /// Failures, by reason.
    pub failures: FailureCounters,
}

/// The counters of one worker for one route.
///
/// Not aligned to a cache line, unlike others: there may be ten thousand, and the worker that writes them has allocated them among what is its own.
#[derive(Debug, Default)]
pub struct RouteShard {
    /// Exchanges, and connections of TCP listeners, that the route took.
    pub requests: Counter,
    /// Responses sent to them, by class, Weir's own answers included.
    pub responses: ResponseCounters,
    /// Failed exchanges.
    pub failures: Counter,
    /// Copies of its requests for a mirror.
    pub mirror: MirrorShard,
}

/// The counters of one worker for the mirror of a route.
#[derive(Debug, Default)]
pub struct MirrorShard {
    /// Copies that were sent.
    pub requests: Counter,
    /// Copies without a response, or with one that was not whole.
    pub failures: Counter,
    /// Requests that were not copied since their body was too long, or not sent whole.
    pub too_long: Counter,
    /// Requests that were not copied since too many copies ran.
    pub busy: Counter,
    /// Responses that were compared with the real ones.
    pub compared: Counter,
    /// Those that differ, in status, headers and body.
    pub differences: [Counter; 3],
}

/// The counters of one worker for one limit by key.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct LimitShard {
    /// Requests that went on at once.
    pub passed: Counter,
    /// Requests that went on after they had waited for their turn.
    pub delayed: Counter,
    /// Requests that were refused.
    pub refused: Counter,
    /// Requests over the limit that went on since it is a dry run.
    pub excess: Counter,
    /// Responses that had to wait for their bandwidth.
    pub paced: Counter,
}

/// The counters of one worker for one cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CacheShard {
    /// Requests, by what the cache did.
    pub requests: [Counter; CacheResult::ALL.len()],
    /// Responses that were stored.
    pub stored: Counter,
    /// Responses that were not.
    pub not_stored: Counter,
    /// Stored responses that a server has confirmed or replaced behind a request that was answered already.
    pub refreshes: Counter,
    /// Bytes of bodies sent from the cache.
    pub bytes_sent: Counter,
}

/// The versions of TLS that handshakes are counted by.
pub const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// The counters of one worker for one upstream.
#[derive(Debug)]
#[repr(align(128))]
pub struct UpstreamShard {
    /// Exchanges that a route sent here.
    pub requests: Counter,
    /// Responses of this upstream that clients received, by status.
    pub responses: StatusCounters,
    /// Exchanges that waited in the queue.
    pub queued: Counter,
    /// Exchanges that wait.
    pub queue_length: Gauge,
    /// Time in the queue, of exchanges that waited.
    pub queue_time: Histogram,
    /// Time from the first byte of the request to the last of the response, of exchanges that were answered; tunnels are none.
    pub exchange_time: Histogram,
    /// Attempts beyond the first of an exchange, by [`RETRY_CAUSES`].
    pub retries: [Counter; RETRY_CAUSES.len()],
    /// Failed attempts that were not repeated, by [`RETRY_REFUSALS`].
    pub retries_refused: [Counter; RETRY_REFUSALS.len()],
    /// Responses under affinity, by [`AffinityOutcome`].
    pub affinity: [Counter; AffinityOutcome::ALL.len()],
    /// gRPC calls that are over, by the number of their status.
    pub grpc_statuses: [Counter; GrpcStatus::ALL.len()],
    /// Failures of exchanges sent here, by reason.
    pub failures: FailureCounters,
    /// One part per server, in the order of the config.
    pub servers: Box<[Arc<ServerShard>]>,
}

impl Default for UpstreamShard {
    fn default() -> UpstreamShard {
        UpstreamShard::new(0)
    }
}

impl UpstreamShard {
    /// A part at zero with this many servers.
    pub fn new(servers: usize) -> UpstreamShard {
        UpstreamShard::with_servers((0..servers).map(|_| Arc::default()).collect())
    }

    /// A part whose own figures are at zero, with given servers.
    pub fn with_servers(servers: Box<[Arc<ServerShard>]>) -> UpstreamShard {
        UpstreamShard {
            requests: Counter::new(),
            responses: StatusCounters::default(),
            queued: Counter::new(),
            queue_length: Gauge::new(),
            queue_time: Histogram::new(),
            exchange_time: Histogram::new(),
            retries: Default::default(),
            retries_refused: Default::default(),
            affinity: Default::default(),
            grpc_statuses: Default::default(),
            failures: FailureCounters::default(),
            servers,
        }
    }
}

/// The counters of one worker for one server.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ServerShard {
    /// Attempts begun: exchanges that chose this server, first tries and retries.
    pub attempts: Counter,
    /// Attempts that were retries of an exchange that failed elsewhere or here.
    pub retries: Counter,
    /// Requests sent whole.
    pub requests: Counter,
    /// Response heads received, by class.
    pub responses: ResponseCounters,
    /// Connections opened.
    pub connects: Counter,
    /// Connections that could not be opened.
    pub connect_errors: Counter,
    /// TLS handshakes with the server that were completed.
    pub tls_handshakes: Counter,
    /// Handshakes among them that resumed an earlier session.
    pub tls_resumptions: Counter,
    /// Attempts that reused an idle connection.
    pub reuses: Counter,
    /// Reused connections that turned out to be dead.
    pub stale_reuses: Counter,
    /// Requests that the server has left unprocessed, by refusing a stream or by GOAWAY, and that went again.
    pub unprocessed: Counter,
    /// Connections open, idle ones included.
    pub connections_open: Gauge,
    /// Idle connections.
    pub connections_idle: Gauge,
    /// Bytes received from the server.
    pub bytes_in: Counter,
    /// Bytes sent to the server.
    pub bytes_out: Counter,
    /// Time from the request sent to the head of the response.
    pub response_time: Histogram,
    /// Time to open a connection, TLS included.
    pub connect_time: Histogram,
    /// Lines that scripts behind FastCGI have written to their error stream.
    pub error_lines: Counter,
    /// Attempts that failed, by phase.
    pub failures: PhaseCounters,
    /// Attempts that failed by the fault of the server, including answers with a status that counts as one: the failures of outlier ejection.
    pub outlier_failures: Counter,
}

/// The counters of the probing thread for one server.
#[derive(Debug, Default)]
pub struct ProbeShard {
    /// Probes that passed.
    pub passed: Counter,
    /// Probes that failed, by reason.
    pub failures: FailureCounters,
    /// How long the last probe took, in microseconds.
    pub last_micros: Gauge,
    /// Probes that could not be made for want of something on this machine.
    pub not_made: Counter,
    /// The last result: 0 before the first, 1 when it passed, the index of the reason and 2 when it failed.
    last: Gauge,
    /// How often the probes changed the state of the server: from up to down, and back.
    pub changes: Counter,
}

impl ProbeShard {
    /// Counts a probe and its result.
    pub fn record(&self, failure: Option<Failure>) {
        match failure {
            None => {
                self.passed.increment();
                self.last.set(1);
            }
            Some(failure) => {
                self.failures.record(failure);
                self.last.set(failure.reason_id().index() as i64 + 2);
            }
        }
    }

    /// The result of the last probe; `None` before the first.
    pub fn last(&self) -> Option<Result<(), Reason>> {
        match self.last.value() {
            0 => None,
            code => Some(Reason::all().find(|reason| reason.index() as i64 + 2 == code).map_or(Ok(()), Err)),
        }
    }
}

/// Responses by status.
///
/// The array is made by the first response: most upstreams of a large config have none.
#[derive(Debug, Default)]
pub struct StatusCounters(OnceLock<Box<[Counter; STATUSES]>>);

/// The statuses from 100 to 599.
const STATUSES: usize = 500;

impl StatusCounters {
    /// Counts a response; a status outside 100 to 599 counts as 599.
    #[inline]
    pub fn record(&self, status: u16) {
        let index = usize::from(status.wrapping_sub(100)).min(STATUSES - 1);
        self.0.get_or_init(|| Box::new([const { Counter::new() }; STATUSES]))[index].increment();
    }

    /// The statuses that occurred, in their order, and how often.
    pub fn occurred(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self.0.get().into_iter().flat_map(|counts| counts.iter().map(Counter::value));
        (100..).zip(counts).filter(|(_, count)| *count > 0)
    }
}

/// Responses by class.
#[derive(Debug, Default)]
pub struct ResponseCounters([Counter; 5]);

impl ResponseCounters {
    /// Counts a response; a status outside 100 to 599 counts as 5xx.
    #[inline]
    pub fn record(&self, status: u16) {
        let class = (status / 100).wrapping_sub(1).min(4);
        self.0[usize::from(class)].increment();
    }

    /// Responses of the classes 1xx, 2xx, 3xx, 4xx, 5xx.
    pub fn values(&self) -> [u64; 5] {
        std::array::from_fn(|class| self.0[class].value())
    }
}

/// Failures by phase.
#[derive(Debug, Default)]
pub struct PhaseCounters([Counter; Phase::COUNT]);

impl PhaseCounters {
    /// Counts a failure in a phase.
    #[inline]
    pub fn record(&self, phase: Phase) {
        self.0[phase as usize].increment();
    }

    /// Failures of each phase, in the order of [`Phase::ALL`].
    pub fn values(&self) -> [u64; Phase::COUNT] {
        std::array::from_fn(|phase| self.0[phase].value())
    }
}

/// Failures by reason; broken rules are reasons of their own, one for requests and one for responses. The
/// first one allocates.
#[derive(Debug, Default)]
pub struct FailureCounters(OnceLock<Box<[Counter; Reason::COUNT]>>);

impl FailureCounters {
    /// Counts a failure.
    #[inline]
    pub fn record(&self, failure: Failure) {
        let counters = self.0.get_or_init(|| Box::new([const { Counter::new() }; Reason::COUNT]));
        counters[failure.reason_id().index()].increment();
    }

    /// Whether nothing was ever counted.
    pub(crate) fn is_unused(&self) -> bool {
        self.0.get().is_none()
    }

    /// All failures together.
    pub fn total(&self) -> u64 {
        self.0.get().map_or(0, |counters| counters.iter().map(Counter::value).sum())
    }

    /// How often a reason occurred.
    pub fn count(&self, reason: Reason) -> u64 {
        self.0.get().map_or(0, |counters| counters[reason.index()].value())
    }

    /// How often a rule was broken, by requests and responses.
    pub fn count_rule(&self, rule: Rule) -> u64 {
        self.count_cause(Cause::Rule(rule))
    }

    /// How often a cause occurred, in any phase and by any party.
    pub fn count_cause(&self, cause: Cause) -> u64 {
        Reason::all().filter(|reason| reason.cause() == cause).map(|reason| self.count(reason)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Party;

    #[test]
    fn a_shard_has_the_requested_sizes() {
        let shard = WorkerShard::new(ShardSizes { listeners: 2, servers: &[3, 0, 1] });
        assert_eq!(shard.listeners.len(), 2);
        assert_eq!(
            shard.upstreams.iter().map(|upstream| upstream.servers.len()).collect::<Vec<_>>(),
            [3, 0, 1]
        );
    }

    #[test]
    fn responses_are_counted_by_class() {
        let responses = ResponseCounters::default();
        for status in [100, 103, 200, 204, 301, 404, 499, 500, 599, 600, 65_535, 0, 99] {
            responses.record(status);
        }
        assert_eq!(responses.values(), [2, 2, 1, 2, 6]);
    }

    #[test]
    fn statuses_are_counted_one_by_one_once_there_is_any() {
        let responses = StatusCounters::default();
        assert_eq!((responses.occurred().count(), responses.0.get().is_none()), (0, true));
        for status in [100, 200, 204, 200, 599, 600, 999, 0, 99] {
            responses.record(status);
        }
        assert!(responses.occurred().eq([(100, 1), (200, 2), (204, 1), (599, 5)]));
    }

    #[test]
    fn the_last_probe_is_known() {
        let probes = ProbeShard::default();
        assert_eq!(probes.last(), None);
        let refused = Failure::server(Phase::Connect, Cause::Refused);
        probes.record(Some(refused));
        assert_eq!(probes.last(), Some(Err(refused.reason_id())));
        probes.record(None);
        assert_eq!((probes.last(), probes.passed.value()), (Some(Ok(())), 1));
    }

    #[test]
    fn failures_are_counted_by_reason_and_found_by_cause() {
        let failures = FailureCounters::default();
        failures.record(Failure::client(Phase::Request, Cause::Rule(Rule::BareLf)));
        failures.record(Failure::server(Phase::Response, Cause::Rule(Rule::BareLf)));
        failures.record(Failure::server(Phase::Response, Cause::TimedOut));
        failures.record(Failure::weir(Phase::Queue, Cause::TimedOut));
        assert_eq!(failures.count(Reason::from_code("bare-lf").unwrap()), 1);
        assert_eq!(failures.count_rule(Rule::BareLf), 2);
        assert_eq!(failures.count_rule(Rule::BareCr), 0);
        assert_eq!(failures.count_cause(Cause::TimedOut), 2);
    }

    /// Every failure that can be made lands on a counter, and on one only.
    #[test]
    fn no_failure_goes_uncounted() {
        let failures = FailureCounters::default();
        let mut recorded = 0;
        for phase in Phase::ALL {
            for party in Party::ALL {
                for cause in
                    Cause::BARE.iter().copied().chain(Rule::ALL.iter().map(|rule| Cause::Rule(*rule)))
                {
                    failures.record(Failure { phase, party, cause });
                    recorded += 1;
                }
            }
        }
        assert_eq!(Reason::all().map(|reason| failures.count(reason)).sum::<u64>(), recorded);
    }
}
