//! What is bounded: memory, exchanges, connections.

pub(crate) mod slow_heads;
pub(crate) mod exchange_budget;
pub(crate) mod inbox_budget;
pub mod places;
pub mod memory_guard;
