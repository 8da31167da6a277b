//! Which server, now or later: routes, balancing, queue, health, ejection, retries, limits; and which exchanges are traced.
//!
//! Pure: no I/O, no clock, no randomness of its own; time and random numbers are passed in. So the proxy, the
//! property tests and a simulator run the same code. Knows no other crate of Weir.

#![forbid(unsafe_code)]

pub mod admission;
pub mod queue;
pub mod balance;
pub mod affinity;
pub mod ejection;
pub mod health;
pub mod server;
pub mod rewrite;
pub mod route;
pub mod drain;
pub mod retry;
pub mod limit;
pub mod table;
pub mod split;
pub mod names;
pub mod sampling;
mod hash;

pub use hash::{hash_address, hash_bytes};
pub use server::{
    ConsecutiveFailures, Eligibility, Health, Mode, RAMP_FULL, ServerId, ServerSlot, ServerState,
    ServerSummary, ServerTier, WEIGHT_MAX,
};
