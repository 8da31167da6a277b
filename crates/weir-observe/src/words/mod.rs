//! The words of all reports: phases, and how affinity, the cache and retries went.

pub(crate) mod phase;
pub(crate) mod affinity;
pub(crate) mod cache_result;
pub(crate) mod retries;
