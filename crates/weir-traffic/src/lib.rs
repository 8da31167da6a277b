//! Which server, now or later: routes, balancing, queue, health, ejection, retries, limits; and which exchanges are traced.
//!
//! Pure: no I/O, no clock, no randomness of its own; time and random numbers are passed in. So the proxy, the
//! property tests and a simulator run the same code. Knows no other crate of Weir.

#![forbid(unsafe_code)]

mod hash;
mod latency;
mod posture;
mod server;
mod glance;
pub mod route;
pub mod split;
pub mod rewrite;
pub mod balance;
pub mod queue;
pub mod admission;
pub mod persistence;
pub mod drain;
pub mod health;
pub mod ejection;
pub mod retry;
pub mod limit;
pub mod sampling;

pub use glance::Glance;
pub use hash::{hash_address, hash_bytes};
pub use posture::{Health, Mode};
pub use server::{RAMP_FULL, ServerId, ServerState, Slot, WEIGHT_MAX};
