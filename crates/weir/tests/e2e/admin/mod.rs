//! The admin listener and the runtime socket: who may use them, what they show of the running process, and what they can change.
//!
//! Metrics and records of exchanges belong to `observability`, the effect of a drain on traffic to `upstream`.

mod guard;
mod overview;
mod status_page;
#[cfg(feature = "profiler")]
mod profile;
mod runtime_socket;
mod sessions;
