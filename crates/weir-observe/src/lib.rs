//! What Weir can say about itself: counters, histograms, failures, access-log lines, and their rendering.
//!
//! No I/O, no clock, no locks, no unsafe: the data path records, a reader sums up, everything here is a pure function of
//! what was recorded.

#![forbid(unsafe_code)]

// The words: where an exchange stands, and how it can end badly.
mod failure;
mod phase;
mod kept;
mod retries;

// What the client is told when Weir answers itself.
mod accept;
mod page;

// What the workers count, one writer each.
mod counter;
mod histogram;
mod shard;
mod per_worker;
mod traces;
mod admin;

// What a reader makes of it.
mod figures;
pub mod overview;
pub mod haproxy;
pub mod status_page;
pub mod prometheus;

// Where the CPU time goes, drawn.
pub mod flame;

// One line per exchange.
pub mod access_log;

pub use accept::{Format, choose_format};
pub use admin::{AdminFigures, AdminRefusal, AdminShard};
pub use counter::{Counter, Gauge, Level};
pub use failure::{
    Cause, Closing, Explanation, Failure, Party, Reason, config_keys_named, failures_markdown,
};
pub use figures::{
    CertificateFigures, FailureFigures, Figures, ListenerFigures, Names, ProbeFigures, ProcessFigures,
    ReloadFigures, RouteFigures, ServerFigures, UpstreamFigures, UpstreamNames, WorkerFigures,
};
pub use histogram::{Histogram, HistogramSnapshot};
pub use kept::Kept;
pub use overview::Overview;
pub use page::{Page, status_text};
pub use per_worker::PerWorker;
pub use phase::{Phase, PhaseTimes};
pub use retries::{RETRY_CAUSES, RETRY_REFUSALS};
pub use shard::{
    FailureCounters, ListenerShard, PhaseCounters, ProbeShard, ResponseCounters, RouteShard, ServerShard,
    ShardSizes, StatusCounters, TLS_VERSIONS, UpstreamShard, WorkerShard,
};
pub use traces::{TraceFigures, TraceLoss};
