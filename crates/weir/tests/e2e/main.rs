//! End-to-end tests: a real Weir process between scripted clients and scripted servers.
//!
//! One folder for each phase of an exchange or part of the program, in the order in which a request meets them; one file for each
//! behaviour, named after it. Each folder's `mod.rs` says what belongs there. `harness` holds what all of them stand on. Everything
//! runs on loopback, on ports the system chooses, in parallel.

mod harness;

mod accept;
mod tls;
mod http1;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod tcp;
mod routing;
mod access;
mod exchange;
mod upstream;
mod resilience;

mod admin;
mod observability;
mod lifecycle;
mod pair;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod examples;
mod commands;
