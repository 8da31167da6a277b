//! TLS: between a socket and the bytes of its connection, on either side.
//!
//! Above this, a connection with TLS reads and writes like one without. Must not know what the bytes mean.

pub(crate) mod failure;
pub mod client_config;
pub(crate) mod records;
pub(crate) mod facts;
pub mod server_config;
pub mod certificates;
pub mod issued;
pub mod tickets;
pub mod client_certificates;
pub mod key_log;
mod self_signed;
pub(crate) mod session;
mod early_data;
