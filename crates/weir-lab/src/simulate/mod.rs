//! `weir-lab simulate`: the balancer, queue, health checks and retries of Weir in a world of made-up servers and clients.
//!
//! A file (`model`) describes the world and the variants to compare; each is run through the same arrivals (`run`), counted
//! (`tally`) and told side by side (`report`). This is the one place of the lab that uses a crate of Weir, `weir-traffic`:
//! what is asked here is what its decisions do, and a copy of them would answer for the copy.

pub(crate) mod chance;
pub(crate) mod distribution;
mod agenda;
mod model;
mod tally;
mod run;
mod report;
mod command;

pub use command::{SimulateArgs, simulate};
