//! What the values of fields mean, a file for each field or several that go together.
//!
//! Knows fields by their names, and no head.

pub(crate) mod priority;
pub(crate) mod coding;
pub(crate) mod weight;
pub(crate) mod auth;
pub(crate) mod retry_delay;
pub(crate) mod conditional;
pub(crate) mod range;
pub(crate) mod media_type;
pub(crate) mod via;
pub(crate) mod client_address;
pub(crate) mod forwarded;
pub(crate) mod traceparent;
pub(crate) mod date;
pub(crate) mod content_length;
pub(crate) mod connection;
