//! The admin listener and the runtime socket: access, the state of the running process, and changes.
//!
//! Metrics and records of exchanges belong to `observability`, the effect of a drain on traffic to `upstream`.

mod guard;
mod overview;
mod maintenance;
mod status_page;
#[cfg(feature = "profiler")]
mod profile;
mod runtime_socket;
mod connections;
