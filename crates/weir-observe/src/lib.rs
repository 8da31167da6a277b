//! What Weir can say about itself: counters, histograms, failures, access-log lines, and their rendering.
//!
//! No I/O, no clock, no locks, no unsafe: the data path records, a reader sums up, everything here is a pure function of
//! what was recorded.

#![forbid(unsafe_code)]

// The words: where an exchange stands, and how it can end badly.
mod failure;
mod phase;

// What the client is told when Weir answers itself.
//x mod accept;
//x mod page;

// What the workers count, one writer each.
mod counter;
mod histogram;
mod shard;

// What a reader makes of it.
//x mod figures;
//x mod prometheus;

// One line per exchange.
//x pub mod access_log;

//x pub use accept::{Format, choose_format};
pub use counter::{Counter, Gauge, Level};
pub use failure::{Cause, Explanation, Failure, Party, Reason, failures_markdown};
//x pub use figures::{
//x     FailureFigures, Figures, ListenerFigures, Names, ServerFigures, UpstreamFigures, UpstreamNames, WorkerFigures,
//x };
pub use histogram::{Histogram, HistogramSnapshot};
//x pub use page::{Page, status_text};
pub use phase::{Phase, PhaseTimes};
//x pub use prometheus::{CONTENT_TYPE, render};
pub use shard::{
    FailureCounters, ListenerShard, PhaseCounters, ResponseCounters, ServerShard, ShardSizes, UpstreamShard,
    WorkerShard,
};
