//! The config made ready for the data path, and the state that outlives a reload.
//!
//! Plans are immutable and shared by all workers; live state is behind an `Arc` that the next plan takes over.

pub(crate) mod worker;
pub(crate) mod slow_heads;
pub(crate) mod exchange_budget;
pub(crate) mod inbox_budget;
pub mod shared;
pub mod places;
pub mod node_hand_over;
pub mod connection_list;
pub mod memory_guard;
pub(crate) mod activity;
pub(crate) mod worker_config;
pub mod snapshot;
mod listener;
pub mod mirror;
pub(crate) mod page_store;
pub mod limit_store;
pub mod limit;
pub mod limit_sharing;
mod key_hasher;
pub(crate) mod cache;
pub(crate) mod cache_keys;
pub(crate) mod static_files;
pub(crate) mod upstream;
pub mod pool;
mod traces;
pub mod trace_queue;
pub mod recorder;
pub(crate) mod connection_id;
pub mod log_batches;
pub(crate) mod stripped_fields;
pub mod faults;
pub(crate) mod crash;
pub(crate) mod wait_limits;
pub mod access;
pub mod shared_list;
pub(crate) mod method_set;
pub(crate) mod ramp;
pub(crate) mod last_change;
pub mod plan_inputs;
pub mod due_upstreams;
pub mod framing_violations;
