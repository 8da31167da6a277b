//! An exchange and the cache of its route: what is looked up, fetched, filled, refreshed and sent.

pub(in crate::exchange) mod response;
pub(in crate::exchange) mod fill;
pub(in crate::exchange) mod lookup;
pub(in crate::exchange) mod refresh;
pub(in crate::exchange) mod files;
pub(in crate::exchange) mod send;
