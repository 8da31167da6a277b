//! Failures and overload: retries, health checks, outlier ejection, timeouts and limits, and the outcome of requests when a server
//! misbehaves or goes down.

mod server_misbehaviour;
mod retries;
mod tried_servers;
mod health_checks;
mod agents;
mod on_down;
mod ejection;
mod timeouts;
mod limits;
mod request_limits;
mod tables;
mod bandwidth;
mod memory;
