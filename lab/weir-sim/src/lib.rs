//! The simulator: runs the balancer, queue, health checks and retries of `weir-traffic` among simulated servers and clients.
//!
//! A file (`model`) describes the servers, the clients and the variants to compare; each variant is run through the same arrivals
//! (`run`) and counted (`tally`), and all are reported side by side (`report`). The decisions are made by the crate that makes
//! them in the proxy, never by a copy. Opens no socket and reads no clock: all times are simulated.

mod command;
mod report;
mod run;
mod event_queue;
mod tally;
mod failure;
mod model;

pub use command::{SimulateArgs, simulate};
