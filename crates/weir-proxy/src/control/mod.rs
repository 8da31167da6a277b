//! What is not on the request path: certificates and authorities whose files change, names of servers, health checks, the
//! times of ejections, the writer of the access log, the addresses that a reload opens and closes; and how the process is looked at and
//! steered: figures and what is made of them, the admin listener, the runtime socket, sessions that are ended, profiles.
//!
//! Must not make a worker wait.

pub(crate) mod proxy;
pub(crate) mod reload;
pub(crate) mod commands;
pub(crate) mod recorder;
pub(crate) mod doors;
pub(crate) mod upkeep;
pub(crate) mod access_log;
pub(crate) mod own_log;
pub(crate) mod traces;
mod names;
pub(crate) mod certificates;
mod clients;
mod stapling;
mod trust;
pub(crate) mod health;
mod ejection;
pub(crate) mod slow_start;
mod history;
pub(crate) mod modes;
pub(crate) mod admin;
pub(crate) mod runtime;
mod sessions;
pub(crate) mod figures;
mod metrics;
pub(crate) mod overview;
pub(crate) mod pulse;
pub(crate) mod profile;
pub(crate) mod process;
