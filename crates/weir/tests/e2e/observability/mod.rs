//! What is told of exchanges after the fact: access logs, Weir's own log, metrics, traces, and `weir why`.

mod access_log;
mod access_log_drops;
mod own_log;
mod prometheus;
mod metrics_scrape;
mod traces;
mod why;
