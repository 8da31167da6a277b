//! What Weir reports about exchanges and about itself: access logs, its own log, metrics, traces, and `weir why`.

mod access_log;
mod access_log_drops;
mod access_log_masks;
mod route_access_log;
mod own_log;
mod prometheus;
mod metrics_scrape;
#[cfg(feature = "traces")]
mod traces;
mod why;
