//! What is not on the request path: certificates and authorities whose files change, names of servers, health checks, the
//! times of ejections, the writer of the access log, the addresses that a reload opens and closes; and how the process is looked at and
//! steered: figures and what is made of them, the admin listener, the runtime socket, sessions that are ended, profiles.
//!
//! Must not make a worker wait.

pub(crate) mod proxy;
mod runtime_socket;
mod admin;
mod runtime_commands;
mod operations;
mod reports;
mod metrics_source;
mod overview;
mod live_rates;
mod figures;
mod server_modes;
mod background_tasks;
mod health;
mod connections;
mod ejection;
mod slow_start;
mod outcome_history;
mod certificates;
mod dns_names;
mod trace_export;
mod worker_queries;
mod access_log;
pub(crate) mod own_log;
pub(crate) mod listening_sockets;
pub(crate) mod start_error;
pub(crate) mod commands;
mod admin_access;
mod reload_counts;
mod trace_counts;
mod process;
mod profile;
mod threads;
