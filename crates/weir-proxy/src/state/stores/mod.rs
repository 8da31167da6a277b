//! The stores of the config, and what nodes share in each: limits, affinity, tables of counters.

pub mod limit_store;
pub mod shared_table;
