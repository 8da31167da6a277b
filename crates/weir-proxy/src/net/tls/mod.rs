//! TLS: between a socket and the bytes of its connection, on either side.
//!
//! Above this, a connection with TLS reads and writes like one without. Must not know what the bytes mean.

pub(crate) mod failure;
pub mod trust;
pub(crate) mod records;
pub mod terms;
pub mod certificates;
pub mod clients;
pub(crate) mod key_log;
mod own;
pub(crate) mod session;
mod early_data;
