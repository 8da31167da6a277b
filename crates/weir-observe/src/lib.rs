//! Reports of Weir about itself: counters, histograms, failures, access-log lines, and their rendering.
//!
//! No I/O, no clock, no locks, no unsafe: the data path records, a reader sums up, everything here is a pure function of
//! the records.

#![forbid(unsafe_code)]

// Reports made from the counters: pages, tables, metrics, pictures of CPU time and memory.
mod renderings;
pub mod overview;

// The counters of the workers, one writer each, and their sums.
mod counters;

// The body of a response of Weir's own.
mod responses;

// One line per exchange.
pub mod access_log;

// Text from outside, on its way to any output.
pub mod printable;

// The words: failures, phases, affinity, retries.
mod failure;
mod words;

pub use counters::admin::{AdminRefusal, AdminShard, AdminStats};
pub use counters::compression::{CompressionRefusal, CompressionShard, CompressionStats};
pub use counters::counter::{Counter, Gauge, Level};
pub use counters::datagrams::{DatagramShard, DatagramStats};
pub use counters::histogram::{Histogram, HistogramSnapshot};
pub use counters::memory::{
    CgroupStats, MemoryClassStats, MemoryFreedStats, MemoryStats, MemoryStep, TcpMemoryStats,
};
pub use counters::per_worker::PerWorker;
pub use counters::shard::{
    CacheShard, FailureCounters, LimitShard, ListenerShard, MirrorShard, PhaseCounters, ProbeShard,
    ResponseCounters, RouteShard, ServerShard, ShardSizes, StatusCounters, TLS_VERSIONS, UpstreamShard,
    WorkerShard,
};
pub use counters::stats::{
    CertificateStats, FailureStats, IssuanceStats, ListenerStats, MirrorStats, NODE_STATES, ProbeStats,
    ProcessStats, ReloadStats, RouteStats, ServerStats, StatNames, Stats, UpstreamStatNames, UpstreamStats,
    WorkerStats,
};
pub use counters::traces::{TraceLoss, TraceStats};
pub use failure::{
    Cause, Closing, Failure, FailureExplanation, Party, Reason, config_keys_named, failures_markdown,
};
pub use overview::Overview;
pub use renderings::{flame, haproxy, prometheus, status_page};
pub use responses::accept::{ReplyFormat, choose_format};
pub use responses::local_reply::{LocalReply, escape_for, status_text};
pub use words::affinity::AffinityOutcome;
pub use words::cache_result::CacheResult;
pub use words::phase::{Phase, PhaseTimes};
pub use words::retries::{RETRY_CAUSES, RETRY_REFUSALS};
