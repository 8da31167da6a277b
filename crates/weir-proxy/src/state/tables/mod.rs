//! Counters by key, of all workers.

pub mod table;
