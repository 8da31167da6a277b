//! Reports of Weir about itself: counters, histograms, failures, access-log lines, and their rendering.
//!
//! No I/O, no clock, no locks, no unsafe: the data path records, a reader sums up, everything here is a pure function of
//! the records.

#![forbid(unsafe_code)]

// Reports made from the counters: pages, tables, metrics.
pub mod status_page;
pub mod haproxy;
pub mod overview;
pub mod prometheus;
mod stats;

// The counters of the workers, one writer each.
mod per_worker;
mod shard;
mod traces;
mod memory;
mod compression;
mod admin;
mod histogram;
mod counter;

// The body of a response of Weir's own.
mod local_reply;
mod accept;

// One line per exchange.
pub mod access_log;

// CPU time and memory by function, drawn.
pub mod flame;

// Text from outside, on its way to any output.
pub mod printable;

// The words: phases, failures, affinity, retries.
mod failure;
mod phase;
mod affinity;
mod cache_result;
mod retries;

pub use accept::{ReplyFormat, choose_format};
pub use admin::{AdminRefusal, AdminShard, AdminStats};
pub use affinity::AffinityOutcome;
pub use cache_result::CacheResult;
pub use compression::{CompressionRefusal, CompressionShard, CompressionStats};
pub use counter::{Counter, Gauge, Level};
pub use failure::{
    Cause, Closing, Failure, FailureExplanation, Party, Reason, config_keys_named, failures_markdown,
};
pub use histogram::{Histogram, HistogramSnapshot};
pub use local_reply::{LocalReply, escape_for, status_text};
pub use memory::{CgroupStats, MemoryClassStats, MemoryFreedStats, MemoryStats, MemoryStep, TcpMemoryStats};
pub use overview::Overview;
pub use per_worker::PerWorker;
pub use phase::{Phase, PhaseTimes};
pub use retries::{RETRY_CAUSES, RETRY_REFUSALS};
pub use shard::{
    CacheShard, FailureCounters, LimitShard, ListenerShard, MirrorShard, PhaseCounters, ProbeShard,
    ResponseCounters, RouteShard, ServerShard, ShardSizes, StatusCounters, TLS_VERSIONS, UpstreamShard,
    WorkerShard,
};
pub use stats::{
    CertificateStats, FailureStats, IssuanceStats, ListenerStats, MirrorStats, NODE_STATES, ProbeStats,
    ProcessStats, ReloadStats, RouteStats, ServerStats, StatNames, Stats, UpstreamStatNames, UpstreamStats,
    WorkerStats,
};
pub use traces::{TraceLoss, TraceStats};
