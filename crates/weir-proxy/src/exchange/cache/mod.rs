//! The response cache of a route (RFC 9111): before a request goes to a server, and when the response comes.
//!
//! A request for which there is a stored response is answered with it. Of requests for one that is missing or stale, one goes to the server and the
//! others wait for it; its response is stored as it comes, and all of them read it from there. Which responses may be stored and used is decided in
//! `weir_cache`. Must not know what is in the store.

mod request;
mod response;
mod refresh;
mod fill;
mod disk;
mod send;
mod cache_use;

pub(super) use cache_use::{CacheUse, write_status};
pub(super) use request::pass;
pub(super) use response::{Answering, instead_of_failure, take};
