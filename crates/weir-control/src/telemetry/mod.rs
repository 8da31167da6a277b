//! What is written and exported: logs, traces, profiles.

pub(super) mod trace_export;
pub(super) mod logs;
pub(super) mod reload_counts;
pub(super) mod trace_counts;
pub(super) mod refusals;
#[cfg(feature = "profiler")]
pub(super) mod profile;
