//! The counts of limits, of this process and of those that share them.

pub mod limit;
pub mod limit_sharing;
pub mod affinity_sharing;
pub(super) mod key_hasher;
