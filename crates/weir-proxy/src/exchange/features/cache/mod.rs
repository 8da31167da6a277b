//! An exchange and the cache of its route: what is looked up, fetched, filled, refreshed and sent.

pub(in crate::exchange) mod response;
pub(in crate::exchange) mod fill;
pub(in crate::exchange) mod lookup;
pub(in crate::exchange) mod refresh;
mod head;
pub(in crate::exchange) mod files;
pub(in crate::exchange) mod send;

/// For how long a response that may not be stored keeps requests for the same from waiting for one another, in milliseconds.
const PASS_MS: u64 = 120_000;
