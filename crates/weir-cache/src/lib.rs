//! The response cache: what may be stored and used again (RFC 9111, RFC 5861, RFC 9213), and where it is kept.
//!
//! No sockets, no tasks, no clock: time is passed in, and a wait is a `Waker` that the caller gives. Files are touched in [`disk`] alone,
//! by functions that say so.

#![forbid(unsafe_code)]

pub mod disk;
pub mod store;
pub mod rules;
pub mod directives;
mod head;
mod time;

pub use head::{HeadView, StoredHead};
pub use time::CacheTime;
