//! TLS: between a socket and the bytes of its connection, on either side.
//!
//! Above this, a connection with TLS reads and writes like one without. Must not know what the bytes mean.

pub(crate) mod failure;
pub(crate) mod trust;
pub(crate) mod records;
pub(crate) mod terms;
pub(crate) mod certificates;
pub(crate) mod clients;
pub(crate) mod key_log;
mod own;
pub(crate) mod session;
mod early_data;
