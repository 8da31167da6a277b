//! Failures and overload: retries, health checks, outlier ejection, timeouts and limits, and the outcome of requests when a server
//! misbehaves or goes down.

mod server_misbehaviour;
mod retries;
mod health_checks;
mod on_down;
mod ejection;
mod timeouts;
mod limits;
mod request_limits;
mod bandwidth;
mod memory;
