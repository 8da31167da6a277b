//! The config made ready for the data path, and the state that outlives a reload.
//!
//! Plans are immutable and shared by all workers; live state is behind an `Arc` that the next plan takes over.

pub(crate) mod worker;
pub mod shared;
pub mod node_hand_over;
pub mod connections;
pub mod datagrams;
pub mod budgets;
pub(crate) mod worker_config;
pub mod snapshot;
pub mod routes;
pub(crate) mod caching;
pub mod stores;
pub mod tables;
pub mod servers;
pub mod limits;
pub mod tracing;
pub(crate) mod connection_id;
pub mod log_batches;
pub mod crashes;
pub mod shared_list;
