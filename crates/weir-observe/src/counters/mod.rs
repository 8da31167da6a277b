//! The counters of the workers, one writer each, and the sums that a reader makes of them.

pub(crate) mod stats;
pub(crate) mod per_worker;
pub(crate) mod shard;
pub(crate) mod traces;
pub(crate) mod memory;
pub(crate) mod compression;
pub(crate) mod datagrams;
pub(crate) mod admin;
pub(crate) mod histogram;
pub(crate) mod counter;
