//! TLS: between a socket and the bytes of its connection, on either side.
//!
//! Above this, a connection with TLS reads and writes like one without. Must not know what the bytes mean.

pub(crate) mod certificates;
pub(crate) mod clients;
pub(crate) mod failure;
mod early_data;
pub(crate) mod key_log;
pub(crate) mod terms;
mod own;
pub(crate) mod trust;
pub(crate) mod session;
pub(crate) mod records;
